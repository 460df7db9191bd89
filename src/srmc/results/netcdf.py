"""A result as a NetCDF file."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from srmc.models.labels import Labels
from srmc.results.datasets import NAME, dataset, groups_of, nested
from srmc.results.result import Result
from srmc.run.keep import Kept
from srmc.store.files import as_path, write_whole

OPTIONAL = (
    *("posterior", "base", "scored", "moments", "base_moments", "covariance"),
    *("observed_data", "constant_data", "coords"),
)


def save(result: Result, path: Path) -> None:
    """Write a NetCDF file."""
    if not path.parent.is_dir():
        raise ValueError(f"path must be a file in an existing folder, got {path}")
    run = {
        "shared_history": result.shared_history,
        "interrupted": result.interrupted,
        "batch_sizes": result.kept.batch_sizes,
        "dims": {name: list(axes) for name, axes in result.labels.dims.items()},
    }
    attrs = {"about": json.dumps(result.about), "run": json.dumps(run)}
    coords = {name: _plain(x) for name, x in result.labels.coords.items()}

    def write(aside: Path) -> None:
        import xarray

        # The coordinates of moments have no dataset that they fit into.
        groups = groups_of(result) | ({"coords": dataset(coords)} if coords else {})
        try:
            xarray.Dataset(attrs=attrs).to_netcdf(aside, mode="w", engine="h5netcdf")
            for group, data in groups.items():
                data = data.assign_coords(
                    {k: (k, _plain(x.values)) for k, x in data.coords.items()}
                )
                data.to_netcdf(aside, mode="a", group=group, engine="h5netcdf")
        except RuntimeError as error:  # HDF5 raises this on a full disk
            raise OSError(errno.EIO, f"could not write: {error}", str(path)) from None

    write_whole(path, write)


def _plain(x: Any) -> np.ndarray:
    """An array that a file can hold: other objects than text as text."""
    array = np.asarray(x)
    return np.array([str(item) for item in array]) if array.dtype == object else array


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
    found = {group: _read(path, group)[0] for group in OPTIONAL}
    covariance = found["covariance"]
    kept = Kept(
        stats=stats or {},
        draws=found["posterior"],
        base=found["base"],
        scored=found["scored"],
        moments=nested(found["moments"]),
        base_moments=nested(found["base_moments"]),
        covariance=None if covariance is None else covariance["covariance"],
        batch_sizes=run["batch_sizes"],
    )
    labels = Labels(
        {name: tuple(axes) for name, axes in run.get("dims", {}).items()},
        *(found[group] or {} for group in ("coords", "observed_data", "constant_data")),
    )
    about = json.loads(attrs["about"])
    return Result(kept, about, run["shared_history"], run["interrupted"], labels)


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
