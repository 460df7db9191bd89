"""Stan models, compiled by BridgeStan."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from srmc.models.callback import from_value_and_grad
from srmc.models.problem import Inverse, Problem
from srmc.models.starts import scatter
from srmc.types import Array, Float, LogDensity, Position, PRNGKey

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
    out: Vector = jax.pure_callback(
        lambda x: function(np.asarray(x)), shape, x, vmap_method="sequential"
    )
    return out


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
