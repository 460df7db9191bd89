"""A log density, where its chains start, the names of its draws and of their axes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.tree_util import Partial

from srmc.types import Array, LogDensity, Position, PRNGKey, PyTree

Shapes = Mapping[str, tuple[int, ...]]
RESERVED = ("chain", "draw")


class Labels(NamedTuple):
    """Names of axes and of the positions along them, and data; plain arrays, as files hold them."""

    # The names of the axes of a variable, by the name of the variable.
    dims: Mapping[str, tuple[str, ...]] = {}
    # The names of the positions along an axis, by the name of the axis.
    coords: Mapping[str, np.ndarray] = {}
    # The observed data of a model and its other data, by name.
    observed: Mapping[str, np.ndarray] = {}
    constant: Mapping[str, np.ndarray] = {}

    def along(self, name: str, shape: tuple[int, ...]) -> list[Sequence[Any]]:
        """Names of the positions along each axis of a variable; numbers, if unknown."""
        axes = self.dims.get(name, ())
        if len(axes) != len(shape):
            return [range(size) for size in shape]
        return [self._texts(axis, size) for axis, size in zip(axes, shape, strict=True)]

    def _texts(self, axis: str, size: int) -> Sequence[Any]:
        known = np.asarray(self.coords.get(axis, np.arange(size)))
        texts = np.datetime_as_string(known, "auto") if known.dtype.kind == "M" else known
        found = [str(text) for text in texts]
        return found if len({*found}) == size else range(size)  # rows of a summary must differ


def given_labels(own: Labels, dims: Any, coords: Any) -> Labels:
    """The labels of a model, with `dims` and `coords` that a user gave in addition."""
    axes = {name: _axes(name, value) for name, value in (dims or {}).items()}
    known = {name: np.asarray(value) for name, value in (coords or {}).items()}
    used = {axis for named in (own.dims, axes) for x in named.values() for axis in x}
    if unused := [name for name in known if name not in {*used, *own.coords}]:
        raise ValueError(
            f"coords must be of axes that dims name, {', '.join(sorted(used)) or 'none'}, got "
            f"{unused[0]!r}"
        )
    for name, values in known.items():
        if values.ndim != 1:
            raise ValueError(f"coords of {name} must be a list of names, got {values!r}")
    return own._replace(dims={**own.dims, **axes}, coords={**own.coords, **known})


def _axes(name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, str | Sequence):
        raise TypeError(f"dims of {name} must be a name or a list of names, got {value!r}")
    axes = (value,) if isinstance(value, str) else tuple(value)
    bad = [axis for axis in axes if not isinstance(axis, str) or axis in RESERVED]
    if bad:
        raise ValueError(f"dims of {name} must be names other than chain and draw, got {bad[0]!r}")
    return axes


def check_labels(labels: Labels, values: Shapes) -> None:
    """Raise if dims or coords do not fit the shapes of the model's values and data."""
    data = {k: np.shape(x) for k, x in {**labels.constant, **labels.observed}.items()}
    shapes = {**data, **values}
    sizes: dict[str, tuple[str, int]] = {}
    for name, axes in labels.dims.items():
        shape = shapes.get(name)
        if shape is None:
            known = ", ".join(shapes)
            raise ValueError(f"dims must be of variables of the model, {known}, got {name}")
        if len(axes) != len(shape):
            raise ValueError(f"dims of {name} must name its {len(shape)} axes, got {list(axes)}")
        for axis, size in zip(axes, shape, strict=True):
            other, before = sizes.setdefault(axis, (name, size))
            if before != size:
                raise ValueError(
                    f"dims must give an axis one length, but {axis} has {size} entries in {name} "
                    f"and {before} in {other}"
                )
            if axis in labels.coords and len(labels.coords[axis]) != size:
                raise ValueError(
                    f"coords of {axis} must have {size} entries, as many as {name} along it, got "
                    f"{len(labels.coords[axis])}"
                )


class Inverse(NamedTuple):
    """The way back from named values to a position, for draws that another program made."""

    names: tuple[str, ...]  # variables that determine the position
    # From these variables at one draw to the position.
    unconstrain: Callable[[dict[str, Array]], Position]
    # From these variables at one draw to the log likelihood of each observation, by name; None if
    # unknown.
    log_likelihood: Callable[[dict[str, Array]], dict[str, Array]] | None = None
    # Names in `values` that are drawn anew each time, such as predictions.
    random: tuple[str, ...] = ()
    shapes: Mapping[str, tuple[int, ...]] = {}  # shapes of these variables, where they are known


class Problem(NamedTuple):
    """What `srmc.sample` samples from, for a model of any kind."""

    name: str  # name of the model
    logdensity_fn: LogDensity  # log density of an unconstrained position
    # From a key and a number of chains to their starts, (chain, ...).
    starts: Callable[[PRNGKey, int], Position]
    # From a position to named arrays, in the user's space.
    values: Callable[[Position], dict[str, Array]]
    inverse: Inverse | None = None  # from named arrays to a position, where that is known
    labels: Labels = Labels()  # names of the axes of the named arrays, and the data of the model


def without_slashes(problem: Problem, position: Position) -> Problem:
    """The problem with `.` for `/` in all names, since `/` separates groups in ArviZ and in files.

    NumPyro's `scope` makes such names.
    """
    names = list(jax.eval_shape(problem.values, position))
    if not any("/" in name for name in names):
        return problem
    new = {name: name for name in names if "/" not in name}
    for name in names:
        if name not in new:
            own = name.replace("/", ".")
            while own in new.values():
                own += "_"
            new[name] = own
    inverse, labels = problem.inverse, problem.labels
    named = lambda arrays: {new.get(k, k.replace("/", ".")): x for k, x in arrays.items()}
    dims = {k: tuple(axis.replace("/", ".") for axis in axes) for k, axes in labels.dims.items()}
    if inverse is not None:
        old = {new[name]: name for name in inverse.names}
        back = lambda values: {old.get(k, k): x for k, x in values.items()}
        likelihood, unconstrain = inverse.log_likelihood, inverse.unconstrain
        inverse = Inverse(
            tuple(old),
            lambda values: unconstrain(back(values)),
            None if likelihood is None else lambda values: named(likelihood(back(values))),
            tuple(new.get(name, name) for name in inverse.random),
        )
    return problem._replace(
        values=Partial(_renamed, problem.values, tuple(new.items())),
        inverse=inverse,
        labels=Labels(*(named(part) for part in (dims, *labels[1:]))),
    )


def _renamed(
    values: Callable[[Position], dict[str, Array]],
    names: tuple[tuple[str, str], ...],
    position: Position,
) -> dict[str, Array]:
    found = values(position)
    return {new: found[old] for old, new in names}


def name_leaves(position: PyTree[Array]) -> dict[str, Array]:
    """The leaves of a position by name; a bare array is called "x".

    >>> list(name_leaves({"a": 1.0, "b": [2.0, 3.0]}))
    ['a', 'b.0', 'b.1']
    """
    leaves = jax.tree.leaves_with_path(position)
    name = lambda path: jax.tree_util.keystr(path, simple=True, separator=".") or "x"
    return {name(path).replace("/", "_"): leaf for path, leaf in leaves}
