"""A result as a NetCDF file."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from srmc._checks import printable
from srmc._extras import extra
from srmc._files import Place, as_path, check_seal, local, seal, write_whole
from srmc.models.labels import Labels
from srmc.results.datasets import NAME, PLAIN, UNCONSTRAINED, groups_of, nested
from srmc.results.kept import Kept
from srmc.results.result import Result

GROUPS = (
    *("posterior", PLAIN, UNCONSTRAINED, "moments", "moments_plain", "covariance"),
    *("observed_data", "constant_data"),
)
# The names of groups in files of version 0.2.
OLD = {PLAIN: "base", UNCONSTRAINED: "scored", "moments_plain": "base_moments"}
OPTIONAL = (*GROUPS, *OLD.values(), "coords")
REMEDY = "put back a copy of it; what is left of it xarray.open_datatree may read"


def save(result: Result, path: Place) -> None:
    """Write a NetCDF file."""
    run = {
        "shared_history": result.shared_history,
        "interrupted": result.interrupted,
        "batch_sizes": result.kept.batch_sizes,
        "dims": {name: list(axes) for name, axes in result.labels.dims.items()},
        "coords": {name: _as_json(_plain(x)) for name, x in result.labels.coords.items()},
    }
    attrs = {"about": json.dumps(result.about), "run": json.dumps(run)}

    def write(aside: Path) -> None:
        with extra("result.save"):
            import h5netcdf  # noqa: F401
        import xarray

        groups = groups_of(result)
        try:
            xarray.Dataset(attrs=attrs).to_netcdf(aside, mode="w", engine="h5netcdf")
            for group, data in groups.items():
                data = data.assign_coords(
                    {k: (k, _plain(x.values)) for k, x in data.coords.items()}
                )
                data.to_netcdf(aside, mode="a", group=group, engine="h5netcdf")
        except RuntimeError as error:  # HDF5 raises this on a full disk
            raise OSError(errno.EIO, f"could not write: {error}", str(path)) from None
        seal(aside)

    write_whole(path, write)


def _plain(x: Any) -> np.ndarray:
    """An array that a file can hold: other objects than text as text."""
    array = np.asarray(x)
    return np.array([str(item) for item in array]) if array.dtype == object else array


def _as_json(x: np.ndarray) -> dict[str, Any]:
    return {
        "dtype": x.dtype.str,
        "values": (x if x.dtype.kind in "biuf" else x.astype(str)).tolist(),
    }


def load(path: str | os.PathLike[str]) -> Result:
    """Read a result that `Result.save` wrote."""
    path = as_path("path", path)
    if not path.is_file():
        raise ValueError(f"path must be a file that Result.save wrote, got {path}")
    with local(path) as file:
        check_seal(file, REMEDY, shown=path)
        try:
            return _loaded(file)
        except Exception as error:  # of many kinds, in a file without a checksum
            message = f"{path} is damaged, truncated or no result of srmc: {error}; {REMEDY}"
            raise ValueError(message) from None


def _loaded(path: Path) -> Result:
    attrs = _read(path, None)[1]
    if "about" not in attrs or "run" not in attrs:
        raise ValueError("it has no attributes of one")
    run = json.loads(attrs["run"])
    stats = _read(path, "sample_stats")[0]
    found = {group: _read(path, group)[0] for group in GROUPS}
    found |= {group: _read(path, OLD[group])[0] for group in OLD if found[group] is None}
    covariance = found["covariance"]
    kept = Kept(
        stats=stats or {},
        draws=found["posterior"],
        base=found[PLAIN],
        scored=found[UNCONSTRAINED],
        moments=nested(found["moments"]),
        base_moments=nested(found["moments_plain"]),
        covariance=None if covariance is None else covariance["covariance"],
        batch_sizes=run["batch_sizes"],
    )
    if "coords" in run:
        coords = {name: np.array(x["values"], x["dtype"]) for name, x in run["coords"].items()}
    else:
        coords = _read(path, "coords")[0] or {}
    dims = {name: tuple(axes) for name, axes in run.get("dims", {}).items()}
    labels = Labels(dims, coords, found["observed_data"] or {}, found["constant_data"] or {})
    about = _printable(json.loads(attrs["about"]))
    return Result(kept, about, run["shared_history"], run["interrupted"], labels)


def _printable(record: Any) -> Any:
    """A record of JSON whose text is safe to print on a terminal, whoever wrote the file."""
    if isinstance(record, dict):
        return {printable(key): _printable(value) for key, value in record.items()}
    if isinstance(record, list):
        return [_printable(value) for value in record]
    return printable(record) if isinstance(record, str) else record


def _read(path: Path, group: str | None) -> tuple[dict[str, np.ndarray] | None, dict[str, Any]]:
    with extra("srmc.load"):
        import h5netcdf  # noqa: F401
    import xarray

    try:
        with xarray.open_dataset(path, group=group, engine="h5netcdf") as data:
            variables = data.load().data_vars.items()
            named = {printable(str(v.attrs.get(NAME, k))): v.values for k, v in variables}
            return named, dict(data.attrs)
    except (OSError, ValueError, KeyError) as error:
        if group in OPTIONAL and "group" in str(error).lower():
            return None, {}
        raise
