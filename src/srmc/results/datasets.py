"""A result as xarray datasets, by the name of their group."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from srmc.models.labels import RESERVED, Labels
from srmc.results.result import Result

NAME = "name_in_srmc"  # the attribute that holds a name that a file cannot
PLAIN = "posterior_plain"
UNCONSTRAINED = "unconstrained_posterior"
Arrays = Mapping[str, Any]


def groups_of(result: Result) -> dict[str, Any]:
    """Datasets by the name of their group."""
    kept, labels, groups = result.kept, result.labels, {}
    draws = {"posterior": kept.draws, PLAIN: kept.base}
    for name, arrays in draws.items():
        if arrays is not None:
            groups[name] = dataset(arrays, RESERVED, labels)
    if kept.scored is not None:
        groups[UNCONSTRAINED] = dataset(kept.scored, RESERVED)
    for name, moments in (("moments", kept.moments), ("moments_plain", kept.base_moments)):
        if moments is not None:
            groups[name] = dataset(flat(moments))
    if kept.covariance is not None:
        groups["covariance"] = dataset({"covariance": kept.covariance})
    groups["sample_stats"] = dataset(kept.stats, RESERVED)
    for name, data in (("observed_data", labels.observed), ("constant_data", labels.constant)):
        if data:
            groups[name] = dataset(data, (), labels)
    return groups


def flat(moments: dict[str, dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Moments as `name|mean` and so on, to be split at the last bar."""
    return {f"{name}|{what}": x for name, m in moments.items() for what, x in m.items()}


def nested(flat: dict[str, np.ndarray] | None) -> dict[str, dict[str, np.ndarray]] | None:
    """The moments that `flat` returned."""
    if flat is None:
        return None
    moments: dict[str, dict[str, np.ndarray]] = {}
    for key, x in flat.items():
        name, _, what = key.rpartition("|")
        moments.setdefault(name, {})[what] = x
    return moments


def dataset(values: Arrays, leading: tuple[str, ...] = (), labels: Labels | None = None) -> Any:
    """Arrays as a dataset; `leading` are the names of the first axes of all of them."""
    import xarray

    labels = labels or Labels()
    names = _file_names(list(values), leading)
    coords: dict[str, Any] = {}

    def variable(name: str, x: Any) -> Any:
        x = np.asarray(x)
        rest = x.shape[len(leading) :]
        axes = labels.dims.get(name, ())
        if len(axes) != len(rest):
            axes = tuple(f"{names[name]}_dim_{n}" for n in range(len(rest)))
        own = [_axis_name(axis, (*leading, *names.values())) for axis in axes]
        for axis, new, size in zip(axes, own, rest, strict=True):
            coords[new] = labels.coords.get(axis, np.arange(size))
        attrs = {} if names[name] == name else {NAME: name}
        return xarray.Variable((*leading, *own), x, attrs)

    sizes = next(iter(values.values())).shape[: len(leading)]
    coords |= {k: np.arange(n) for k, n in zip(leading, sizes, strict=True)}
    variables = {names[k]: variable(k, x) for k, x in values.items()}
    return xarray.Dataset(variables, coords=coords)


def _axis_name(axis: str, taken: tuple[str, ...]) -> str:
    """The name of an axis in a file, where `/` separates groups and variables have names too."""
    axis = axis.replace("/", ".")
    while axis in taken:
        axis += "_"
    return axis


def _file_names(names: list[str], taken: tuple[str, ...]) -> dict[str, str]:
    """The names of variables in a file, where `/` separates groups and axes have names too.

    >>> _file_names(["a/x", "a.x", "draw", "x", "x_dim_0"], ("chain", "draw"))
    {'a/x': 'a.x_', 'a.x': 'a.x', 'draw': 'draw_', 'x': 'x', 'x_dim_0': 'x_dim_0_'}
    """
    is_free = lambda name: name not in taken and not re.search(r"/|_dim_\d+$", name)
    found = {name: name for name in names if is_free(name)}
    for name in names:
        if name not in found:
            new = name.replace("/", ".")
            while new in found.values() or not is_free(new):
                new += "_"
            found[name] = new
    return {name: found[name] for name in names}
