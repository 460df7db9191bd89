"""Draws in the forms in which people have them: arrays, dictionaries, data frames and traces."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from srmc.rebalance.traces import groups_of, is_trace, replaced, values_of, with_groups


class Given(NamedTuple):
    """Draws as one array, and the way back to the form in which they were given.

    array
        The draws, (chain, draw, d) or (draw, d).
    restore
        From moved draws in the shape of the array to the form of those given.
    shapes
        The shape of each variable of a draw, by name; None if a draw is a vector.
    """

    array: np.ndarray
    restore: Callable[[np.ndarray], Any]
    shapes: dict[str, tuple[int, ...]] | None = None

    def of_vector(self, name: str, function: Any, *, returns_draw: bool) -> Any:
        """A function of one draw as a function of a vector.

        The draw has its variables by name, or is an array if the only one is called x, and so is
        what the function returns if `returns_draw`.
        """
        if self.shapes is None or not callable(function):
            return function
        # Names and numbers that `Partial` takes for code, so that programs are remembered.
        shapes = tuple((key, *shape) for key, shape in self.shapes.items())
        return Partial(_of_vector, name, shapes, returns_draw, function)


def _of_vector(
    name: str, named: tuple[tuple[Any, ...], ...], returns_draw: bool, function: Any, z: Any
) -> Any:
    shapes = {key: tuple(shape) for key, *shape in named}
    draw, alone = _split(z, shapes), list(shapes) == ["x"]
    out = function(draw["x"] if alone else draw)
    if not returns_draw:
        return out
    values = {"x": out} if alone else out
    is_dict = isinstance(values, Mapping)
    found = {k: jnp.shape(v) for k, v in values.items()} if is_dict else values
    if found != shapes:
        raise ValueError(
            f"{name} must return values of the shapes that it is given, {shapes}, got {found}"
        )
    return jnp.concatenate([jnp.ravel(values[k]) for k in shapes])


def take(name: str, draws: Any) -> Given:
    """Draws in any form: an array, a dictionary of arrays, a data frame, or a trace of ArviZ."""
    if is_trace(draws):
        groups = groups_of(draws)
        plain = groups["posterior"]
        array, shapes = _joined(name, values_of(plain))
        new = lambda moved: {"posterior": replaced(plain, _split(moved, shapes))}
        return Given(array, lambda moved: with_groups(draws, groups | new(moved)), shapes)
    if is_frame(draws):
        like = {"index": draws.index, "columns": draws.columns}
        return Given(draws.to_numpy(), lambda moved: type(draws)(moved, **like))
    if isinstance(draws, Mapping):
        array, shapes = _joined(name, draws)
        return Given(array, lambda moved: _split(moved, shapes), shapes)
    try:
        return Given(np.asarray(draws), lambda moved: moved)
    except ValueError:
        raise ValueError(f"{name} must be an array, but its rows differ in length") from None


def like(name: str, values: Any, given: Given) -> Any:
    """Numbers that belong to draws, such as their scores, as an array of their shape."""
    array = take(name, values)
    if array.shapes != given.shapes or array.array.shape != given.array.shape:
        raise ValueError(
            f"{name} must have the shape of draws, {given.shapes or given.array.shape}, got "
            f"{array.shapes or array.array.shape}"
        )
    return array.array


def is_frame(draws: Any) -> bool:
    """Whether this is a data frame, with a column per coordinate and a row per draw."""
    return hasattr(draws, "columns") and hasattr(draws, "to_numpy")


def as_tree(draws: Any) -> Any:
    """A trace as a dictionary of arrays, a data frame as an array, and all else as it is."""
    if is_trace(draws):
        return values_of(groups_of(draws)["posterior"])
    return draws.to_numpy() if is_frame(draws) else draws


def _joined(name: str, values: Mapping[str, Any]) -> tuple[np.ndarray, dict[str, tuple[int, ...]]]:
    """Variables (chain, draw, ...) as one array (chain, draw, d), and the shape of each."""
    arrays = {key: np.asarray(x) for key, x in values.items()}
    for key, x in arrays.items():
        if x.ndim < 2 or not np.issubdtype(x.dtype, np.floating):
            raise ValueError(
                f"{name} must be floating-point numbers of shape (chain, draw, ...), got shape "
                f"{x.shape} and dtype {x.dtype} for {key!r}"
            )
    if len({x.shape[:2] for x in arrays.values()}) != 1:
        raise ValueError(f"{name} must be arrays with the same chains and draws")
    flat = [x.reshape(*x.shape[:2], -1) for x in arrays.values()]
    return np.concatenate(flat, axis=2), {key: x.shape[2:] for key, x in arrays.items()}


def _split(flat: Any, shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    """The variables of a vector, or of an array whose last axis has the coordinates."""
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes.values()])
    starts = [0, *ends[:-1]]
    return {
        key: flat[..., start:end].reshape(*flat.shape[:-1], *shape)
        for (key, shape), start, end in zip(shapes.items(), starts, ends, strict=True)
    }
