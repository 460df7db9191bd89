"""Estimates with standard errors from replicates, and the running error of a mean."""

from collections.abc import Callable

import numpy as np

from srmc.types import Bool, Float
from srmc_studies.paper._ledger import Estimate


def mean(x: Float[np.ndarray, " replicate"]) -> Estimate:
    """The mean over replicates."""
    x = np.asarray(x, float)
    with np.errstate(over="ignore", invalid="ignore"):
        return Estimate(float(x.mean()), float(x.std(ddof=1) / np.sqrt(len(x))))


def mean_or_inf(x: Float[np.ndarray, " replicate"]) -> float:
    """The mean over replicates, or infinity if it is not finite, for use in comparisons."""
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.nan_to_num(x.mean(), nan=np.inf, posinf=np.inf))


def share(x: Bool[np.ndarray, " replicate"]) -> Estimate:
    """The share of replicates for which `x` is true.

    The standard error adds one success and one failure, so that it is not 0 for a share of 0 or 1.

    >>> share([True, True])
    Estimate(value=1.0, error=0.306...)
    """
    x = np.asarray(x, bool)
    guess = (x.sum() + 1) / (x.size + 2)
    return Estimate(float(x.mean()), float(np.sqrt(guess * (1 - guess) / x.size)))


def median(x: Float[np.ndarray, " replicate"], seed: int = 0) -> Estimate:
    """The median over replicates with its bootstrap error; infinite if half of them are.

    Of an even number of replicates it is the upper of the two in the middle, since infinite ones
    must not be averaged.
    """
    x = np.sort(np.asarray(x, float))
    picks = np.random.default_rng(seed).integers(len(x), size=(400, len(x)))
    medians = np.sort(x[picks], axis=1)[:, len(x) // 2]
    value = x[len(x) // 2]
    if not np.isfinite(value) or not np.all(np.isfinite(medians)):
        return Estimate(float(value), float("inf"))
    return Estimate(float(value), float(medians.std()))


def ratio(
    other: Float[np.ndarray, " replicate"], base: Float[np.ndarray, " replicate"]
) -> Estimate:
    """The ratio of two means over paired replicates, with its jackknife error."""
    other, base = np.asarray(other, float), np.asarray(base, float)
    n = len(base)
    with np.errstate(over="ignore", invalid="ignore"):
        left_out = (other.sum() - other) / (base.sum() - base)
        error = np.sqrt((n - 1) / n * np.sum((left_out - left_out.mean()) ** 2))
        return Estimate(float(other.mean() / base.mean()), float(error))


def below(
    a: Float[np.ndarray, " replicate"], b: Float[np.ndarray, " replicate"], limit: float
) -> bool:
    """Whether the mean of `a` is below that of `b` by two standard errors of the difference.

    Replicates are paired. Values above `limit`, or not finite, count as `limit`, so that neither
    of two diverged samplers is better.
    """
    a, b = (np.minimum(np.nan_to_num(x, nan=np.inf), limit) for x in (a, b))
    difference = mean(b - a)
    return difference.value > 2 * difference.error


def running_errors(
    block_means: Float[np.ndarray, "*batch block d"], truth: Float[np.ndarray, " d"], burn_in: float
) -> Float[np.ndarray, "*batch block"]:
    """The squared error of the mean since burn-in, after each block.

    `burn_in` is the share of blocks that are left out.
    """
    x = np.asarray(block_means, float)
    x = x[..., round(burn_in * x.shape[-2]) :, :]
    with np.errstate(over="ignore", invalid="ignore"):
        means = np.cumsum(x, axis=-2) / np.arange(1, x.shape[-2] + 1)[:, None]
        errors: Float[np.ndarray, "*batch block"] = np.sum((means - truth) ** 2, axis=-1)
        return errors


def jackknife(measure: Callable[[Bool[np.ndarray, " replicate"]], float], count: int) -> Estimate:
    """A function of the replicates that a mask keeps, and its error by leaving out one at a time.

    >>> x = np.array([1.0, 2.0, 6.0])
    >>> bool(np.allclose(jackknife(lambda keep: float(x[keep].mean()), 3), mean(x)))
    True
    """
    everyone = np.ones(count, bool)
    left_out = np.array([measure(np.arange(count) != n) for n in range(count)])
    error = np.sqrt((count - 1) / count * np.sum((left_out - left_out.mean()) ** 2))
    return Estimate(float(measure(everyone)), float(error))


def lower(a: Estimate, b: Estimate) -> bool:
    """Whether `a` is below `b` by two standard errors, for independent estimates."""
    return b.value - a.value > 2 * float(np.hypot(a.error, b.error))
