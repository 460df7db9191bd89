"""Estimates beside those of a long run: z-scores, and squared errors over the plain ones."""

from typing import Any, NamedTuple

import numpy as np

from srmc._types import Float
from srmc.bench.errors import ratio_error

FUNCTIONALS = ("means", "sds", "quantiles")
QUANTILES = ("5%", "50%", "95%")
COLUMNS = {"means": ("mean",), "sds": ("sd",), "quantiles": QUANTILES}
Names = list[str]


def error_of(column: str) -> str:
    """The column of a summary with the standard error of another one."""
    return "error" if column == "mean" else f"error_{column}"


class Known(NamedTuple):
    """The summary of a long run, and the coordinates that are compared for each functional."""

    summary: Any
    names: dict[str, Names]

    def off(self, summary: Any, what: str) -> Float[np.ndarray, "column name"]:
        """Estimates minus those of the long run."""
        columns, names = COLUMNS[what], self.names[what]
        return np.array([summary.loc[names, c] - self.summary.loc[names, c] for c in columns])

    def noise(self, what: str) -> Float[np.ndarray, "column name"]:
        """The standard errors of the long run."""
        names = self.names[what]
        return np.array([self.summary.loc[names, error_of(c)] for c in COLUMNS[what]])

    def z(self, summary: Any, what: str) -> Float[np.ndarray, "column name"]:
        """The same over the standard errors of both."""
        names = self.names[what]
        own = np.array([summary.loc[names, error_of(c)] for c in COLUMNS[what]])
        return self.off(summary, what) / np.hypot(own, self.noise(what))

    def square(self, summary: Any, what: str) -> float:
        """The mean squared error in posterior variances, without that of the long run."""
        sd = np.asarray(self.summary.loc[self.names[what], "sd"])
        if what == "quantiles":
            spread = self.summary.loc[self.names[what]]
            sd = np.asarray(spread["95%"] - spread["5%"]) / 3.29  # a heavy tail has no sd
        squares = (self.off(summary, what) ** 2 - self.noise(what) ** 2) / sd**2
        return float(np.mean(squares))


def known(summary: Any, heavy: tuple[str, ...]) -> Known:
    """What is compared: coordinates that vary, each once, and of heavy tails only quantiles."""
    varies = summary[summary["sd"] > 1e-6 * (1 + summary["mean"].abs())]
    alike = varies[["mean", "sd"]].apply(lambda x: float(f"{x['mean']:.5g}") + 1j * x["sd"], axis=1)
    names = list(varies.index[~alike.round(8).duplicated()])
    light = [name for name in names if name.partition("[")[0] not in heavy]
    return Known(summary, {"means": light, "sds": light, "quantiles": names})


def root_mean_square(z: list[np.ndarray]) -> dict[str, float]:
    """The root mean square of z-scores, whose error is from the scatter of replicates.

    z-scores that are NaN, of estimates without an error, do not count; `without` is their share.
    """
    squares = np.array([np.nanmean(np.square(one)) for one in z])
    root = float(np.sqrt(squares.mean()))
    scatter = np.std(squares, ddof=1) / np.sqrt(len(squares)) if len(squares) > 1 else np.nan
    without = float(np.mean([np.mean(np.isnan(one)) for one in z]))
    return {"value": root, "error": float(scatter) / (2 * root), "without": without}


def ratio(after: list[float], before: list[float]) -> dict[str, float]:
    """Squared errors after over before, summed over replicates, with the standard error."""
    a, b = np.array(after), np.array(before)
    error = ratio_error(b, a) if len(a) > 1 else np.nan
    return {"value": float(a.mean() / b.mean()), "error": float(error)}
