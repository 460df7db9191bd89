"""What a run leaves: draws or moments, statistics, and what made them; on disk as NetCDF."""

import dataclasses
import errno
import json
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import blackjax
import jax
import numpy as np

from srmc._arviz import import_arviz
from srmc.metrics.errors import batch_means_error, repelled_error
from srmc.store.files import write_whole

BLOCK = 2**24  # numbers of draws that are looked at together


def versions() -> dict[str, str]:
    """Of what draws depend on."""
    from srmc import __version__

    return {
        "srmc": __version__,
        "jax": jax.__version__,
        "blackjax": blackjax.__version__,
        "python": platform.python_version(),
    }


@dataclasses.dataclass
class Result:
    """Draws of a run, or their moments.

    kept
        Arrays (chain, draw, ...) by name; those of the base chain are called `base/...`.
    stats
        Statistics (chain, draw), or in a run that kept moments, averages over up to 64 batches of
        draws: acceptance_rate, diverging, alpha, theta_norm, exponent, gradients, hvps, is_finite,
        is_hot and gain. Of tuned repelled runs also features (chain, draw, k): what the history
        saw of each draw, functions with mean 0, scores first.
    moments
        By name, a dictionary of `mean` and `variance` (chain, ...), the `error` of the mean over
        all chains, and `batch_means`; None if draws were kept.
    covariance
        Over all chains, of the coordinates in the order of `summary()`; None unless it was kept.
    about
        What repeats the run and what it took: settings, measured, versions, steps, seconds,
        gradients_of_warmup, interrupted.
    """

    kept: dict[str, Any] | None
    stats: dict[str, np.ndarray]
    moments: dict[str, dict[str, np.ndarray]] | None
    covariance: np.ndarray | None
    about: dict[str, Any]

    @property
    def draws(self) -> dict[str, Any]:
        """Arrays (chain, draw, ...) by name; a bare array position is called "x"."""
        return _part(self._has_draws(), base=False)

    @property
    def base(self) -> dict[str, Any] | None:
        """Draws of the plain kernel, if they were kept."""
        return _part(self._has_draws(), base=True) or None

    @property
    def interrupted(self) -> bool:
        """Whether the run was stopped before its end."""
        return bool(self.about["interrupted"])

    @property
    def gradients(self) -> int:
        """Gradients of the log density that sampling took, over all chains; -1 if unknown."""
        return -1 if np.any(np.asarray(self.stats["gradients"]) < 0) else self.total("gradients")

    def total(self, name: str) -> int:
        """The sum of a statistic over all draws and chains."""
        each = np.asarray(self.stats[name], float)
        return round(float(np.sum(each * np.array(self.about.get("draws_a_batch", 1.0)))))

    def summary(self, base: bool = False) -> Any:
        """Mean, sd, the error of the mean and quantiles of each coordinate, as a DataFrame.

        The error is such that 1.96 of it to each side of the mean are a 95% interval. It is by
        batch means over all chains together, and of a repelled run by what the history saw
        (`metrics.repelled_error`); where that was not kept, batch means are an upper bound. An
        effective sample size, as of Markov chains, would not hold.
        """
        import pandas as pd

        rows = {}
        if self.moments is not None:
            for name, m in _part(self.moments, base).items():
                mean, sd = _pooled(m)
                for label, index in labels(name, mean.shape):
                    rows[label] = (mean[index], sd[index], m["error"][index])
            return pd.DataFrame.from_dict(rows, orient="index", columns=["mean", "sd", "error"])
        for name, array in _part(self._has_draws(), base).items():
            for names, block in blocks(name, array):
                error = batch_means_error(block) if base else self._error(block)
                quantiles = np.quantile(block, (0.05, 0.5, 0.95), axis=(0, 1))
                mean, sd = block.mean(axis=(0, 1)), block.std(axis=(0, 1))
                values = zip(mean, sd, error, *quantiles, strict=True)
                rows |= dict(zip(names, values, strict=True))
        columns = ["mean", "sd", "error", "5%", "50%", "95%"]
        return pd.DataFrame.from_dict(rows, orient="index", columns=columns)

    def _error(self, values: np.ndarray) -> np.ndarray:
        if "features" not in self.stats:
            return batch_means_error(values)
        features, gain, alpha = (
            np.asarray(self.stats[name], float) for name in ("features", "gain", "alpha")
        )
        shared = self.about["settings"]["shared_history"]
        return repelled_error(values, features, gain, alpha, shared)

    def plot(self, path: Any = None) -> Any:
        """Traces, running means, and history over time, as a figure; also saved if a path is given.

        Beside those of the base chain, if they were kept.
        """
        from srmc.results.plots import plot

        figure = plot(self)
        if path is not None:
            figure.savefig(path, dpi=110)
        return figure

    def to_arviz(self) -> Any:
        """The same as ArviZ has it: an InferenceData, or from ArviZ 1.0 on a DataTree."""
        arviz = import_arviz()
        groups = {k: v for k, v in self._groups().items() if k != "moments"}
        attrs = {"about": json.dumps(self.about)}
        if "InferenceData" in vars(arviz):  # later versions answer hasattr with another class
            return arviz.InferenceData(**groups, attrs=attrs)
        import xarray

        tree = xarray.DataTree.from_dict(groups)
        tree.attrs = attrs
        return tree

    def save(self, path: Any) -> None:
        """Write a NetCDF file, which ArviZ and xarray read as well."""
        path = Path(path)
        if not path.parent.is_dir():
            raise ValueError(f"path must be a file in an existing folder, got {path}")

        def write(aside):
            import xarray

            about = {"about": json.dumps(self.about)}
            try:
                xarray.Dataset(attrs=about).to_netcdf(aside, mode="w", engine="h5netcdf")
                for group, data in self._groups().items():
                    data.to_netcdf(aside, mode="a", group=group, engine="h5netcdf")
            except RuntimeError as error:  # which is what HDF5 makes of a full disk
                raise OSError(errno.EIO, f"could not write: {error}", str(path)) from None

        write_whole(path, write)

    def _has_draws(self) -> dict[str, Any]:
        if self.kept is None:
            raise ValueError('this run kept moments alone; sample(..., keep="draws") keeps draws')
        return self.kept

    def _groups(self) -> dict[str, Any]:
        """Datasets by the name of their group."""
        groups = {}
        if self.kept is not None:
            groups["posterior"] = _dataset(self.draws, ("chain", "draw"))
            if self.base is not None:
                groups["base"] = _dataset(self.base, ("chain", "draw"))
        else:
            assert self.moments is not None
            flat = {f"{k}|{n}": x for k, m in self.moments.items() for n, x in m.items()}
            if self.covariance is not None:
                flat["|covariance"] = self.covariance
            groups["moments"] = _dataset({k.replace("/", "|"): x for k, x in flat.items()}, ())
        groups["sample_stats"] = _dataset(self.stats, ("chain", "draw"))
        return groups


def load(path: Any) -> Result:
    """A result that was saved."""
    import xarray

    path = Path(path)
    if not path.is_file():
        raise ValueError(f"path must be a file that Result.save wrote, got {path}")

    def read(group):
        try:
            with xarray.open_dataset(path, group=group, engine="h5netcdf") as data:
                return {str(k): v.values for k, v in data.load().data_vars.items()}, data.attrs
        except (OSError, ValueError, KeyError) as error:
            if group in ("base", "moments", "posterior") and "group" in str(error).lower():
                return None, {}
            message = f"{path} is damaged, truncated or no result of srmc: {error}"
            raise ValueError(message) from None

    about = read(None)[1].get("about")
    if about is None:
        raise ValueError(f"{path} is no result of srmc")
    stats, posterior, base, flat = (
        read(group)[0] for group in ("sample_stats", "posterior", "base", "moments")
    )
    kept = covariance = None
    moments: dict[str, dict[str, np.ndarray]] | None = None
    if posterior is not None:
        kept = posterior | {f"base/{k}": v for k, v in (base or {}).items()}
    if flat is not None:
        covariance = flat.pop("|covariance", None)
        moments = {}
        for key, x in flat.items():
            name, _, what = key.rpartition("|")
            moments.setdefault(name.replace("|", "/"), {})[what] = x
    return Result(kept, stats, moments, covariance, json.loads(about))


def _part(values: dict[str, Any], base: bool) -> dict[str, Any]:
    if base:
        return {k[5:]: v for k, v in values.items() if k.startswith("base/")}
    return {k: v for k, v in values.items() if not k.startswith("base/")}


def _dataset(values: dict[str, Any], leading: tuple[str, ...]) -> Any:
    import xarray

    def variable(name, x):
        x = np.asarray(x)
        rest = [f"{name}_dim_{n}" for n in range(x.ndim - len(leading))]
        return xarray.Variable((*leading, *rest), x)

    sizes = next(iter(values.values())).shape[: len(leading)]
    coords = {k: np.arange(n) for k, n in zip(leading, sizes, strict=True)}
    return xarray.Dataset({k: variable(k, x) for k, x in values.items()}, coords=coords)


def _pooled(moments: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The mean and sd over all chains."""
    mean = moments["mean"].mean(axis=0)
    return mean, np.sqrt(moments["variance"].mean(axis=0) + moments["mean"].var(axis=0))


def labels(name: str, shape: tuple[int, ...]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The name of each entry of an array, such as `theta[3]`, with its index."""
    for index in np.ndindex(shape):
        yield (f"{name}[{','.join(map(str, index))}]" if index else name), index


def blocks(name: str, array: Any) -> Iterator[tuple[list[str], np.ndarray]]:
    """The coordinates of draws, as many at a time as fit, flattened to (chain, draw, k)."""
    shape = array.shape[2:]
    names = [label for label, _ in labels(name, shape)]
    size = int(np.prod(shape[1:])) if shape else 1
    rows = max(1, BLOCK // (array.shape[0] * array.shape[1] * size))
    for start in range(0, shape[0] if shape else 1, rows):
        block = array[:, :, start : start + rows] if shape else array[:, :]
        block = np.asarray(block, float)
        yield (
            names[start * size : (start + rows) * size],
            block.reshape(*block.shape[:2], -1),
        )
