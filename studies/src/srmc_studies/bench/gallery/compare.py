"""Estimates beside those of long runs: z-scores, and squared errors over the plain ones."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from srmc.types import Float
from srmc_studies.bench.errors import ratio_error

FUNCTIONALS = ("mean", "sd", "5%", "50%", "95%")  # columns of a summary
GROUPS = {"means": ("mean",), "sds": ("sd",), "quantiles": ("5%", "50%", "95%")}
NORMAL_RANGE = 3.29  # from the 5% to the 95% quantile of a normal distribution, in sds
Columns = Float[np.ndarray, "functional name"]


def error_of(column: str) -> str:
    """The column of a summary with the standard error of another one."""
    return "error" if column == "mean" else f"error_{column}"


class Known(NamedTuple):
    """Estimates of long runs with their errors, of coordinates that vary, each once.

    summary
        Means over the long runs of what `summary()` has.
    light
        For each coordinate, whether it has a variance; if not, only quantiles are compared.
    """

    summary: Any
    light: np.ndarray

    @property
    def names(self) -> list[str]:
        return list(self.summary.index)

    @property
    def noise(self) -> Columns:
        """The standard errors of the long runs."""
        return _columns(self.summary, [error_of(column) for column in FUNCTIONALS])

    @property
    def unit(self) -> Float[np.ndarray, " name"]:
        """The spread of coordinates: that of their quantiles, as some have no variance."""
        spread: np.ndarray = np.asarray(self.summary["95%"] - self.summary["5%"]) / NORMAL_RANGE
        return spread

    def off(self, summary: Any) -> Columns:
        """Estimates minus those of the long runs; NaN where there is nothing to compare."""
        found = _columns(summary.reindex(self.names), FUNCTIONALS)
        found[:2, ~self.light] = np.nan
        difference: np.ndarray = found - _columns(self.summary, FUNCTIONALS)
        return difference

    def error(self, summary: Any) -> Columns:
        """The standard errors of both; NaN where an estimate has none."""
        own = _columns(summary.reindex(self.names), [error_of(column) for column in FUNCTIONALS])
        both: np.ndarray = np.hypot(np.where(np.isfinite(own), own, np.nan), self.noise)
        return both


def _columns(summary: Any, columns: Sequence[str]) -> Columns:
    return np.array([summary[column] for column in columns], float)


def known(summaries: list[Any], heavy: tuple[str, ...]) -> Known:
    """What long runs say together."""
    mean = sum(summaries) / len(summaries)
    for column in FUNCTIONALS:
        squares = sum(s[error_of(column)] ** 2 for s in summaries)
        mean[error_of(column)] = np.sqrt(squares) / len(summaries)
    mean = mean[mean["sd"] > 1e-6 * (1 + mean["mean"].abs())]
    digits = mean[["mean", "sd"]].map(lambda x: f"{x:.6g}")
    mean = mean[~digits.duplicated()]
    light = np.array([name.partition("[")[0] not in heavy for name in mean.index])
    return Known(mean, light)


def z_scores(truth: Known, summaries: list[Any]) -> dict[str, dict[str, float]]:
    """For each group of functionals, the root mean square of z-scores over replicates.

    Its standard error is from the scatter of replicates, which does not show the errors of the long
    runs, since all replicates share them. These add `long`, their mean share in the squared errors,
    over the root of twice the number of estimates. `without` is the share of estimates that have no
    standard error.
    """
    off = np.array([truth.off(summary) for summary in summaries])
    error = np.array([truth.error(summary) for summary in summaries])
    z = off / error
    found = {}
    for group, columns in GROUPS.items():
        rows = [FUNCTIONALS.index(column) for column in columns]
        squares, there = z[:, rows] ** 2, np.isfinite(z[:, rows])
        if not there.any():
            continue
        asked = np.isfinite(off[:, rows])
        each = [float(np.mean(s[t])) for s, t in zip(squares, there, strict=True) if t.any()]
        root = float(np.sqrt(np.mean(each)))
        share = float(np.mean((truth.noise[rows] / error[:, rows])[there] ** 2))
        common = share * root / np.sqrt(2 * there.any(axis=0).sum())
        found[group] = {
            "value": root,
            "error": float(np.hypot(_scatter(each) / (2 * root), common)),
            "without": 1 - float(there.sum() / asked.sum()),
            "long": share,
        }
    return found


def _scatter(values: Sequence[float]) -> float:
    """The standard error of a mean, NaN for a single value."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.nan


def ratios(truth: Known, before: list[Any], after: list[Any]) -> dict[str, dict[str, float]]:
    """For each functional, squared errors after over before, summed over replicates.

    The squared errors of the long runs are subtracted. That is right on average only, so that
    their share of the plain ones is part of the standard error.
    """
    plain, moved = (
        np.array([(truth.off(s) / truth.unit) ** 2 for s in summaries])
        for summaries in (before, after)
    )
    noise = (truth.noise / truth.unit) ** 2
    found = {}
    for n, column in enumerate(FUNCTIONALS):
        there = np.isfinite(plain[:, n] + moved[:, n] + noise[n]).all(axis=0)
        if not there.any():
            continue
        subtracted = noise[n, there].mean()
        b, a = (x[:, n, there].mean(axis=1) - subtracted for x in (plain, moved))
        scatter = ratio_error(b, a) if len(a) > 1 else np.nan
        share = subtracted / b.mean()
        found[column] = {
            "value": float(a.mean() / b.mean()),
            "error": float(np.hypot(scatter, share)),
        }
    return found


def worse(truth: Known, before: list[Any], after: list[Any]) -> list[dict[str, Any]]:
    """Variables with a functional that got worse, by more than three standard errors."""
    variables: dict[str, list[str]] = {}
    for name in truth.names:
        variables.setdefault(name.partition("[")[0], []).append(name)
    found = []
    for variable, names in variables.items():
        place = [truth.names.index(name) for name in names]
        own = Known(truth.summary.loc[names], truth.light[place])
        for column, ratio in ratios(own, before, after).items():
            if ratio["value"] - 3 * ratio["error"] > 1:
                found.append({"variable": variable, "functional": column} | ratio)
    return found
