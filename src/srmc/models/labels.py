"""Names of the axes of a model's variables, and the model's data."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

Shapes = Mapping[str, tuple[int, ...]]
RESERVED = ("chain", "draw")


class Labels(NamedTuple):
    """Names of axes and of the positions along them, and data; plain arrays, as files hold them.

    dims
        The names of the axes of a variable, by the name of the variable.
    coords
        The names of the positions along an axis, by the name of the axis.
    observed, constant
        The observed data of a model and its other data, by name.
    """

    dims: Mapping[str, tuple[str, ...]] = {}
    coords: Mapping[str, np.ndarray] = {}
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
