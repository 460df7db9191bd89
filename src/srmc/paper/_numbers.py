"""Estimates with errors from replicates, and the running error of a mean."""

import numpy as np

from srmc.paper._ledger import Estimate


def mean(x: np.ndarray) -> Estimate:
    """Over replicates."""
    x = np.asarray(x, float)
    with np.errstate(over="ignore", invalid="ignore"):
        return Estimate(float(x.mean()), float(x.std(ddof=1) / np.sqrt(len(x))))


def share(x: np.ndarray) -> Estimate:
    """Of replicates for which `x` is true; the error of a share of 0 or 1 is not 0."""
    x = np.asarray(x, bool)
    guess = (x.sum() + 1) / (x.size + 2)
    return Estimate(float(x.mean()), float(np.sqrt(guess * (1 - guess) / x.size)))


def median(x: np.ndarray, seed: int = 0) -> Estimate:
    """Over replicates, with the bootstrap's error; infinite if half of them are."""
    x = np.sort(np.asarray(x, float))
    picks = np.random.default_rng(seed).integers(len(x), size=(400, len(x)))
    # Of infinite numbers the middle ones must not be averaged.
    medians = np.sort(x[picks], axis=1)[:, len(x) // 2]
    value = x[len(x) // 2]
    if not np.isfinite(value) or not np.all(np.isfinite(medians)):
        return Estimate(float(value), float("inf"))
    return Estimate(float(value), float(medians.std()))


def ratio(other: np.ndarray, base: np.ndarray) -> Estimate:
    """Of the means over paired replicates, with the jackknife's error."""
    other, base = np.asarray(other, float), np.asarray(base, float)
    n = len(base)
    with np.errstate(over="ignore", invalid="ignore"):
        left_out = (other.sum() - other) / (base.sum() - base)
        error = np.sqrt((n - 1) / n * np.sum((left_out - left_out.mean()) ** 2))
        return Estimate(float(other.mean() / base.mean()), float(error))


def below(a: np.ndarray, b: np.ndarray, limit: float) -> bool:
    """Whether the mean of `a` is below that of `b` by two standard errors of the difference.

    Replicates are paired. What is above `limit` or not finite counts as `limit`, so that of two
    that diverged neither is better.
    """
    a, b = (np.minimum(np.nan_to_num(x, nan=np.inf), limit) for x in (a, b))
    difference = mean(b - a)
    return difference.value > 2 * difference.error


def running_errors(block_means: np.ndarray, truth: np.ndarray, burn_in: float) -> np.ndarray:
    """Squared errors of the mean since burn-in, after each block: (..., block, d) -> (..., block).

    `burn_in` is the share of blocks that are left out.
    """
    x = np.asarray(block_means, float)
    x = x[..., round(burn_in * x.shape[-2]) :, :]
    with np.errstate(over="ignore", invalid="ignore"):
        means = np.cumsum(x, axis=-2) / np.arange(1, x.shape[-2] + 1)[:, None]
        return np.sum((means - truth) ** 2, axis=-1)
