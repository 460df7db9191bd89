"""A result as xarray datasets: in a NetCDF file, and in the form of ArviZ."""

import errno
import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from srmc._arviz import import_arviz
from srmc.results.result import Result
from srmc.run.keep import Kept
from srmc.store.files import as_path, write_whole

NAME = "name_in_srmc"  # the attribute that holds a name that a file cannot
OPTIONAL = ("posterior", "base", "scored", "moments", "base_moments", "covariance")


def to_arviz(result: Result) -> Any:
    """Convert to an InferenceData, or to a DataTree from ArviZ 1.0 on."""
    arviz = import_arviz()
    known = ("posterior", "base", "sample_stats")
    groups = {k: v for k, v in _groups(result).items() if k in known}
    attrs = {"about": json.dumps(result.about)}
    if "InferenceData" in vars(arviz):  # later versions answer hasattr with another class
        return arviz.InferenceData(**groups, attrs=attrs)
    import xarray

    tree = xarray.DataTree.from_dict(groups)
    tree.attrs = attrs
    return tree


def save(result: Result, path: Path) -> None:
    """Write a NetCDF file."""
    if not path.parent.is_dir():
        raise ValueError(f"path must be a file in an existing folder, got {path}")
    run = {
        "shared_history": result.shared_history,
        "interrupted": result.interrupted,
        "batch_sizes": result.kept.batch_sizes,
    }
    attrs = {"about": json.dumps(result.about), "run": json.dumps(run)}

    def write(aside: Path) -> None:
        import xarray

        try:
            xarray.Dataset(attrs=attrs).to_netcdf(aside, mode="w", engine="h5netcdf")
            for group, data in _groups(result).items():
                data.to_netcdf(aside, mode="a", group=group, engine="h5netcdf")
        except RuntimeError as error:  # HDF5 raises this on a full disk
            raise OSError(errno.EIO, f"could not write: {error}", str(path)) from None

    write_whole(path, write)


def load(path: str | os.PathLike[str]) -> Result:
    """Read a result that `Result.save` wrote."""
    path = as_path("path", path)
    if not path.is_file():
        raise ValueError(f"path must be a file that Result.save wrote, got {path}")
    attrs = _read(path, None)[1]
    if "about" not in attrs or "run" not in attrs:
        raise ValueError(f"{path} is no result of srmc")
    run = json.loads(attrs["run"])
    stats, _ = _read(path, "sample_stats")
    posterior, base, scored, moments, base_moments, covariance = (
        _read(path, group)[0] for group in OPTIONAL
    )
    kept = Kept(
        stats=stats or {},
        draws=posterior,
        base=base,
        scored=scored,
        moments=_nested(moments),
        base_moments=_nested(base_moments),
        covariance=None if covariance is None else covariance["covariance"],
        batch_sizes=run["batch_sizes"],
    )
    return Result(kept, json.loads(attrs["about"]), run["shared_history"], run["interrupted"])


def _read(path: Path, group: str | None) -> tuple[dict[str, np.ndarray] | None, dict[str, Any]]:
    import xarray

    try:
        with xarray.open_dataset(path, group=group, engine="h5netcdf") as data:
            variables = data.load().data_vars.items()
            return {v.attrs.get(NAME, str(k)): v.values for k, v in variables}, dict(data.attrs)
    except (OSError, ValueError, KeyError) as error:
        if group in OPTIONAL and "group" in str(error).lower():
            return None, {}
        message = f"{path} is damaged, truncated or no result of srmc: {error}"
        raise ValueError(message) from None


def _groups(result: Result) -> dict[str, Any]:
    """Datasets by the name of their group."""
    kept, groups = result.kept, {}
    draws = {"posterior": kept.draws, "base": kept.base, "scored": kept.scored}
    for name, arrays in draws.items():
        if arrays is not None:
            groups[name] = _dataset(arrays, ("chain", "draw"))
    for name, moments in (("moments", kept.moments), ("base_moments", kept.base_moments)):
        if moments is not None:
            groups[name] = _dataset(_flat(moments), ())
    if kept.covariance is not None:
        groups["covariance"] = _dataset({"covariance": kept.covariance}, ())
    groups["sample_stats"] = _dataset(kept.stats, ("chain", "draw"))
    return groups


def _flat(moments: dict[str, dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Moments as `name|mean` and so on, to be split at the last bar."""
    return {f"{name}|{what}": x for name, m in moments.items() for what, x in m.items()}


def _nested(flat: dict[str, np.ndarray] | None) -> dict[str, dict[str, np.ndarray]] | None:
    if flat is None:
        return None
    moments: dict[str, dict[str, np.ndarray]] = {}
    for key, x in flat.items():
        name, _, what = key.rpartition("|")
        moments.setdefault(name, {})[what] = x
    return moments


def _dataset(values: dict[str, Any], leading: tuple[str, ...]) -> Any:
    import xarray

    names = _file_names(list(values), leading)

    def variable(name: str, x: Any) -> Any:
        x = np.asarray(x)
        rest = [f"{names[name]}_dim_{n}" for n in range(x.ndim - len(leading))]
        attrs = {} if names[name] == name else {NAME: name}
        return xarray.Variable((*leading, *rest), x, attrs)

    sizes = next(iter(values.values())).shape[: len(leading)]
    coords = {k: np.arange(n) for k, n in zip(leading, sizes, strict=True)}
    return xarray.Dataset({names[k]: variable(k, x) for k, x in values.items()}, coords=coords)


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
