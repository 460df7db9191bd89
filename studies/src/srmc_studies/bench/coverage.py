"""Do the 95% intervals of a result contain the truth 95% of the time?"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

import srmc
from srmc.targets import Moments, Target
from srmc.types import Array, PRNGKey
from srmc_studies.bench.errors import QUANTILES, Truth
from srmc_studies.bench.rebalance import find_rebalanced_truth, plain_runs, rebalanced
from srmc_studies.bench.study import Case, flatten


def log_gamma(shape: float, dim: int = 5) -> Target:
    """Logarithms of independent gamma variables, strongly skewed where the shape is small."""
    one = jnp.ones(dim)
    exact = (special.digamma(shape), special.polygamma(1, shape), 0.0)

    def sample(key: PRNGKey) -> Array:
        drawn: Array = jax.random.loggamma(key, shape * one)
        return drawn

    return Target(
        name=f"log gamma, shape {shape:g}",
        about="logarithms of gamma variables",
        logdensity_fn=lambda x: jnp.sum(shape * x - jnp.exp(x)),
        position=0 * one,
        sample=sample,
        find_moments=lambda: Moments(*(np.full(dim, value) for value in exact)),
    )


class Setting(NamedTuple):
    """A target, and the numbers of draws per chain and of chains, if it is not that of others."""

    target: Callable[[], Target]
    num_samples: int = 1000
    chains: int | None = None


TARGETS = {
    "gaussian-10": Setting(lambda: srmc.targets.gaussian(10)),
    "logistic": Setting(srmc.targets.logistic),
    "eight-schools": Setting(srmc.targets.eight_schools),
    "log-gamma": Setting(lambda: log_gamma(0.3)),
    "student-t": Setting(lambda: srmc.targets.student_t(degrees=4.0)),
    "logistic, 100 draws": Setting(srmc.targets.logistic, 100),
    "logistic, 32 chains": Setting(srmc.targets.logistic, 100, 32),
}


def coverage(
    targets: Sequence[str] | None = None,
    kernels: Sequence[str] | None = None,
    *,
    replicates: int = 500,
    chains: int = 4,
    seed: int = 0,
    quick: bool = False,
    on_progress: Callable[..., None] = lambda *args: None,
) -> list[dict[str, Any]]:
    """The coverage of 95% intervals for means, standard deviations and quantiles."""
    names = targets or (["gaussian-10"] if quick else list(TARGETS))
    kernels = kernels or ["nuts"]
    unknown = [name for name in names if name not in TARGETS]
    if unknown:
        raise ValueError(f"targets must be among {', '.join(TARGETS)}, got {unknown}")
    rows: list[dict[str, Any]] = []
    for name in names:
        make, num_samples, own = TARGETS[name]
        target = make()
        truth = find_rebalanced_truth(target, quick)
        for kernel in kernels:
            on_progress("coverage", len(rows), len(names) * len(kernels), f"{kernel} on {name}")
            case = Case(kernel, 300, 100) if quick else Case(kernel, 1000, num_samples)
            row = _row(target, truth, case, own or chains, 6 if quick else replicates, seed)
            rows.append({"target": name, "kernel": kernel} | row)
    on_progress("coverage", len(rows), len(rows), "")
    return rows


def _row(
    target: Target, truth: Truth, case: Case, chains: int, replicates: int, seed: int
) -> dict[str, Any]:
    flat = flatten(target)
    offs: dict[str, list[np.ndarray]] = {}  # in units of the reported errors
    alarms = 0
    for x, s, _ in plain_runs(flat, case, chains, replicates, seed):
        moved, report = rebalanced(flat, x, s)
        alarms += any(finding.failed for finding in report.findings)
        result = srmc.Result.of_rebalanced(moved, x, s, report)
        for side, base in (("plain", True), ("rebalanced", False)):
            for what, off in offs_of(result.summary(base), truth).items():
                offs.setdefault(f"{side}, {what}", []).append(off)
    row: dict[str, Any] = {
        "replicates": replicates,
        "chains": chains,
        "draws_per_chain": case.num_samples,
        "failed_checks": alarms,
    }
    return row | {name: covered(found) for name, found in offs.items()}


def covered(found: list[np.ndarray]) -> dict[str, float]:
    """The coverage of 95% intervals, from how far off replicates are, in standard errors.

    Without a standard error, where tails are too heavy for one, there is no interval.
    """
    off = np.array(found)
    known = np.isfinite(off)
    off = off[known.any(axis=1)]
    # Coordinates are not independent, and replicates are.
    share = np.nanmean(np.where(np.isfinite(off), np.abs(off) < 1.96, np.nan), axis=1)
    return {
        "coverage": float(np.mean(share)),
        "error": float(np.std(share, ddof=1) / np.sqrt(len(share))),
        "off_over_reported": float(np.sqrt(np.nanmedian(np.nanmean(np.square(off), axis=0)))),
        "without_error": float(np.mean(~known)),
    }


def offs_of(summary: Any, truth: Truth) -> dict[str, np.ndarray]:
    """Estimates minus the truth over their standard errors, as `result.summary()` has them."""
    assert truth.quantiles is not None
    known = np.asarray(truth.quantiles, float)[[QUANTILES.index(q) for q in (0.05, 0.5, 0.95)]]
    off = lambda what, error, value: (summary[what] - np.asarray(value, float)) / summary[error]
    quantiles = [
        off(name, f"error_{name}", value)
        for name, value in zip(("5%", "50%", "95%"), known, strict=True)
    ]
    return {
        "means": np.asarray(off("mean", "error", truth.mean)),
        "sds": np.asarray(off("sd", "error_sd", np.sqrt(truth.variance))),
        "quantiles": np.concatenate(quantiles),
    }
