"""Log densities that JAX cannot trace: of NumPy, PyTorch, a compiled library or BridgeStan."""

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from srmc._checks import check_flag
from srmc.models.problem import Inverse, Problem
from srmc.models.starts import scatter
from srmc.types import Array, Float, LogDensity, Position, PRNGKey, PyTree, Scalar


def from_value_and_grad(
    value_and_grad_fn: Callable[[Any], tuple[Any, Any]], *, vectorized: bool = False
) -> LogDensity:
    """A JAX log density from a NumPy function that returns the value and the gradient.

    Parameters
    ----------
    value_and_grad_fn
        A function of a position of NumPy arrays: a vector, or a dictionary of arrays. It returns
        the log density, one number, and its gradient, in the structure of the position. With
        PyTorch, `x = torch.tensor(position, requires_grad=True)` comes first, and `x.grad` last.
    vectorized
        Whether the function takes a batch of positions, along a leading axis, and returns
        one value for each. Otherwise it is called once for each chain.

    Notes
    -----
    Each evaluation leaves JAX and costs a gradient, even where only the value is needed. There are
    no second derivatives: keep to `srmc.shift()`, or use `srmc.tilt(hvp="finite-difference")`.

    Examples
    --------
    >>> f = from_value_and_grad(lambda x: (-0.5 * x @ x, -x))
    >>> jax.grad(f)(jnp.array([1.0, 2.0])).tolist()
    [-1.0, -2.0]
    """
    if not callable(value_and_grad_fn):
        raise TypeError(
            "value_and_grad_fn must be a function of a position that returns a value and a "
            f"gradient, got {value_and_grad_fn!r}"
        )
    check_flag("vectorized", vectorized)

    @jax.custom_jvp
    def both(position: Position) -> tuple[Scalar, Position]:
        leaves = jax.tree.leaves(position)
        shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), position)
        value = jax.ShapeDtypeStruct((), leaves[0].dtype)
        host = _Host(value_and_grad_fn, leaves[0].ndim, vectorized)
        return jax.pure_callback(host, (value, shapes), position, vmap_method="broadcast_all")

    @both.defjvp
    def no_second_derivative(*_: Any) -> Any:
        raise TypeError(
            "a log density of from_value_and_grad has no second derivatives; use srmc.shift() or "
            'srmc.tilt(hvp="finite-difference")'
        )

    @jax.custom_jvp
    def logdensity_fn(position: Position) -> Scalar:
        return both(jax.tree.map(jnp.asarray, position))[0]

    @logdensity_fn.defjvp
    def along(primals: Any, tangents: Any) -> tuple[Scalar, Scalar]:
        value, gradient = both(*primals)
        pairs = zip(*map(jax.tree.leaves, (gradient, *tangents)), strict=True)
        return value, jnp.sum(jnp.stack([jnp.vdot(g, t) for g, t in pairs]))

    return logdensity_fn


class _Host:
    """What runs outside of JAX: the function at each of a batch of positions, with checks."""

    def __init__(self, function: Callable[[Any], Any], ndim: int, vectorized: bool) -> None:
        self.function, self.ndim, self.vectorized = function, ndim, vectorized

    def __call__(self, position: PyTree) -> tuple[np.ndarray, PyTree]:
        arrays = jax.tree.map(np.asarray, position)
        first = jax.tree.leaves(arrays)[0]
        batch = first.shape[: first.ndim - self.ndim]
        rows = jax.tree.map(lambda x: x.reshape(-1, *x.shape[len(batch) :]), arrays)
        if self.vectorized:
            values, gradients = self._call(rows, (int(np.prod(batch)),))
        else:
            one = lambda n: self._call(jax.tree.map(lambda x: x[n], rows), ())
            found = [one(n) for n in range(int(np.prod(batch)))]
            values, gradients = jax.tree.map(lambda *x: np.stack(x), *found)
        as_given = lambda g, x: np.asarray(g, x.dtype).reshape(x.shape)
        return (
            np.asarray(values, first.dtype).reshape(batch),
            jax.tree.map(as_given, gradients, arrays),
        )

    def _call(self, position: PyTree, batch: tuple[int, ...]) -> tuple[np.ndarray, PyTree]:
        out = self.function(position)
        if not isinstance(out, tuple | list) or len(out) != 2:
            raise TypeError(
                f"value_and_grad_fn must return a value and a gradient, got {type(out).__name__}"
            )
        value, gradient = out
        wanted = jax.tree.map(np.shape, position)
        found = jax.tree.map(np.shape, gradient)
        if np.shape(value) != batch or found != wanted:
            raise ValueError(
                f"value_and_grad_fn must return a value of shape {batch} and a gradient of shape "
                f"{wanted}, got {np.shape(value)} and {found}"
            )
        return np.asarray(value), jax.tree.map(np.asarray, gradient)


Vector = Float[Array, " k"]


def is_stan(model: Any) -> bool:
    """Whether this has the interface of a `bridgestan.StanModel`."""
    return all(hasattr(model, name) for name in ("log_density_gradient", "param_unconstrain"))


def stan_density(model: Any) -> LogDensity:
    """The log density of a `bridgestan.StanModel` on its unconstrained parameters, a vector.

    It has the Jacobian of the transform. Where Stan raises an error, it is -inf.
    """

    def value_and_grad(x: np.ndarray) -> tuple[float, np.ndarray]:
        try:
            value, gradient = model.log_density_gradient(np.asarray(x, np.float64))
        except RuntimeError:  # Stan rejects, for example a matrix that is not positive definite
            return -np.inf, np.zeros_like(x)
        return value, gradient

    return from_value_and_grad(value_and_grad)


def from_stan(model: Any, *, generated: bool = False) -> Problem:
    """A `bridgestan.StanModel`; with `generated`, values have its generated quantities as well.

    These may be random, and are drawn anew at each evaluation.
    """
    density = stan_density(model)
    every = Layout(model.param_names(include_tp=True, include_gq=generated))
    known = Layout(model.param_names(include_tp=True))
    own = Layout(model.param_names())
    rng = model.new_rng(seed=0) if generated else None
    dim = int(model.param_unc_num())

    def constrain(x: np.ndarray) -> np.ndarray:
        out = model.param_constrain(
            np.asarray(x, np.float64), include_tp=True, include_gq=generated, rng=rng
        )
        return np.asarray(out, x.dtype)

    def unconstrain(x: np.ndarray) -> np.ndarray:
        out = model.param_unconstrain(np.asarray(x, np.float64))
        return np.asarray(out, x.dtype)

    def starts(key: PRNGKey, num_chains: int) -> Position:
        return scatter(density, key, jnp.zeros(dim), num_chains)

    return Problem(
        str(model.name()),
        density,
        starts,
        lambda position: every.split(_row_by_row(constrain, every.size, position)),
        Inverse(
            tuple(own.where),
            lambda values: _row_by_row(unconstrain, dim, own.join(values)),
            random=tuple(name for name in every.where if name not in known.where),
        ),
    )


def _row_by_row(function: Any, size: int, x: Vector) -> Vector:
    shape = jax.ShapeDtypeStruct((size,), x.dtype)
    return jax.pure_callback(lambda x: function(np.asarray(x)), shape, x, vmap_method="sequential")


class Layout:
    """Where in a vector the entries of each of Stan's variables are: names such as `theta.2.1`.

    >>> Layout(["mu", "A.1.1", "A.2.1", "A.1.2", "A.2.2"]).where["A"].tolist()
    [[1, 3], [2, 4]]
    """

    def __init__(self, names: list[str]) -> None:
        entries: dict[str, dict[tuple[int, ...], int]] = {}
        for n, label in enumerate(names):
            name, *index = re.split(r"\.(?=\d)", label)
            entries.setdefault(name, {})[tuple(int(i) - 1 for i in index)] = n
        self.size = len(names)
        self.where: dict[str, np.ndarray] = {}
        for name, found in entries.items():
            array = np.zeros(tuple(i + 1 for i in max(found)), int)
            for index_of, n in found.items():
                array[index_of] = n
            self.where[name] = array

    def split(self, x: Vector) -> dict[str, Array]:
        """The variables of a vector."""
        return {name: x[where] for name, where in self.where.items()}

    def join(self, values: dict[str, Array]) -> Vector:
        """The vector of these variables."""
        leaves = [jnp.asarray(values[name]) for name in self.where]
        order = np.concatenate([where.ravel() for where in self.where.values()])
        flat = jnp.concatenate([leaf.ravel() for leaf in leaves])
        return jnp.zeros(self.size, flat.dtype).at[order].set(flat)
