"""A result in other forms: xarray datasets, a trace of ArviZ, and a NetCDF file."""

import errno
import json
import os
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from srmc._checks import printable
from srmc._extras import extra, import_arviz
from srmc._files import Place, as_path, check_netcdf, local, seal_netcdf, write_whole
from srmc._versions import versions
from srmc.models.draws import over_draws
from srmc.models.problem import RESERVED, Labels
from srmc.results.kept import Kept
from srmc.results.result import Result

NAME = "name_in_srmc"  # attribute for a name that is not valid in a file
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


OF_ARVIZ = ("posterior", PLAIN, "sample_stats", "observed_data", "constant_data")


def to_arviz(result: Result, log_likelihood: bool = False) -> Any:
    """Convert to an InferenceData, or to a DataTree from ArviZ 1.0 on."""
    if not isinstance(log_likelihood, bool):
        raise TypeError(f"log_likelihood must be True or False, got {log_likelihood!r}")
    found = groups_of(result)
    groups = {name: found[name] for name in OF_ARVIZ if name in found}
    groups["sample_stats"] = _known(groups["sample_stats"])
    if log_likelihood:
        groups["log_likelihood"] = _log_likelihood(result)
    if "posterior" in groups:
        groups["posterior"] = groups["posterior"].assign_attrs(_attributes(result))
    if {"posterior", PLAIN} & {*groups}:
        whose = PLAIN if PLAIN in groups and result.is_rebalanced else "posterior"
        note = {"srmc_draws": f"those of the group {whose}"}
        groups["sample_stats"] = groups["sample_stats"].assign_attrs(note)
    return _trace(groups, {"about": json.dumps(result.about)})


def _trace(groups: dict[str, Any], attrs: dict[str, Any]) -> Any:
    arviz = import_arviz()
    if "InferenceData" in vars(arviz):  # later versions answer hasattr with another class
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", f"{PLAIN} group is not defined")
            return arviz.InferenceData(**groups, attrs=attrs)
    import xarray

    tree = xarray.DataTree.from_dict(groups)
    tree.attrs = attrs
    return tree


def _known(stats: Any) -> Any:
    """The statistics that the kernel reports."""
    unknown = [k for k, x in stats.data_vars.items() if x.dtype.kind == "f" and np.all(np.isnan(x))]
    return stats.drop_vars(unknown)


def _attributes(result: Result) -> dict[str, Any]:
    """What the attributes of the posterior say about the run, and about ArviZ's diagnostics."""
    known = {"inference_library": "srmc", "inference_library_version": versions()["srmc"]}
    if "seconds" in result.about:
        known["sampling_time"] = result.about["seconds"]
    if result.is_rebalanced or np.max(result.stats["alpha"]) > 0:
        known["srmc_diagnostics"] = (
            "mcse, ess and r_hat of ArviZ do not apply to these draws, which are not a Markov "
            f"chain; they hold for the group {PLAIN}, if there is one. The standard errors of "
            "these draws are in result.summary() and result.estimate() of srmc"
        )
    else:
        known["srmc_diagnostics"] = "mcse, ess and r_hat of ArviZ hold for these draws"
    return known


def _log_likelihood(result: Result) -> Any:
    """The log likelihood of each observation at each draw."""
    problem = result.problem
    if problem is None:
        raise ValueError(
            "log_likelihood=True needs the model, which a result that was loaded has not; "
            "call to_arviz on the result of srmc.sample, or use pm.compute_log_likelihood or "
            "numpyro.infer.log_likelihood"
        )
    inverse = problem.inverse
    if inverse is None or inverse.log_likelihood is None:
        raise ValueError(
            "log_likelihood=True needs a model of PyMC or NumPyro without discrete variables, "
            f"whose observations are known; {problem.name} is none"
        )
    draws = {name: np.asarray(result.draws[name]) for name in inverse.names}
    found = over_draws(inverse.log_likelihood, draws)
    if not found:
        raise ValueError(f"log_likelihood=True needs observations, which {problem.name} has not")
    return dataset(found, RESERVED, result.labels)


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
            seal_netcdf(aside)
        except RuntimeError as error:  # HDF5 raises this on a full disk
            raise OSError(errno.EIO, f"could not write: {error}", str(path)) from None

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
        check_netcdf(file, REMEDY, shown=path)
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
