"""Log densities that JAX cannot trace: of NumPy, PyTorch, or a compiled library."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from srmc._checks import check_flag
from srmc.types import LogDensity, Position, PyTree, Scalar


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
        as many values. Otherwise it is called once for each chain.

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
        out: tuple[Scalar, Position] = jax.pure_callback(
            host, (value, shapes), position, vmap_method="broadcast_all"
        )
        return out

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
