"""Errors of averages over draws, from the draws themselves, valid for repelled chains."""

from typing import Any

import jax
import numpy as np
from scipy import stats

from srmc._checks import check_count

PyTree = Any


def batch_means_error(draws: PyTree, num_batches: int | None = None) -> PyTree:
    """The error of the mean over all draws, by batch means; 1.96 of it to each side are 95%.

    Draws have the axes (chain, draw, ...). The chains are averaged first, so that it holds for
    chains that push one another. A repelled run has less error than its batches tell: there it is
    an upper bound, and `repelled_error` the better one. Without `num_batches` the batches are as
    long as each coordinate's autocorrelation asks for. Where chains disagree by far more than
    their batches tell, it is the error between chains. NaN for a single draw.

    >>> white = np.random.default_rng(0).normal(size=(4, 10_000))
    >>> bool(abs(batch_means_error(white) / 0.005 - 1) < 0.3)
    True
    """
    if num_batches is not None:
        check_count("num_batches", num_batches, at_least=2)

    def error(x):
        x = np.asarray(x, float)
        if x.ndim < 2 or x.shape[1] < (num_batches or 1):
            raise ValueError(
                f"draws must be (chain, draw, ...), at least {num_batches or 1} a chain, got shape "
                f"{x.shape}"
            )
        values = x.reshape(*x.shape[:2], -1)
        if x.shape[1] == 1:
            return np.full(x.shape[2:], np.nan)
        return _at_least_between(values, _error(values.mean(axis=0), num_batches)).reshape(
            x.shape[2:]
        )

    return jax.tree.map(error, draws)


def between_chains_error(draws: PyTree) -> PyTree:
    """The error of the mean over all draws, from the means of independent chains.

    For chains with own histories, four or more of them; 1.96 of it to each side are 95%.
    """

    def error(x):
        means = np.asarray(x, float).mean(axis=1)
        if len(means) < 2:
            raise ValueError(f"draws must be of at least 2 chains, got {len(means)}")
        return _widen(len(means) - 1) * means.std(axis=0, ddof=1) / np.sqrt(len(means))

    return jax.tree.map(error, draws)


def autocorrelation_time(draws: PyTree) -> PyTree:
    """The integrated autocorrelation time of each coordinate, from batch means.

    It is 1 for independent draws, and never less here.
    """

    def time(x):
        x = np.asarray(x, float)
        flat = np.moveaxis(x, 1, 0).reshape(x.shape[1], x.shape[0], -1).mean(axis=1)
        variance = x.reshape(-1, flat.shape[1]).var(axis=0, ddof=1)
        long_run = len(x) * _long_run_variance(flat, None)[0]
        times = long_run / np.where(variance > 0, variance, np.inf)
        return np.maximum(1.0, times).reshape(x.shape[2:])

    return jax.tree.map(time, draws)


def repelled_error(
    values: np.ndarray, scores: np.ndarray, gain: np.ndarray, alpha: np.ndarray, shared: bool
) -> np.ndarray:
    """The error of the mean of `values` (chain, draw, k) of a repelled run.

    `gain` and `alpha` are (chain, draw), as in `result.stats`.

    Along the scores u (chain, draw, d), whitened, the loop takes back what a moving average has
    seen: u = n - alpha theta and theta' = theta + gamma (u - theta), where n is what the base
    chain would have done. So the mean of f = r + beta u is that of r + w beta n, with weights w
    from the same recursion backwards. r and n have a base chain's memory, for which batch means
    hold, and w varies slowly.
    """
    if not np.all(np.isfinite(scores)):
        return batch_means_error(values)
    if not shared:
        errors = [
            repelled_error(
                values[c : c + 1], scores[c : c + 1], gain[c : c + 1], alpha[c : c + 1], True
            )
            for c in range(len(values))
        ]
        return np.sqrt(np.sum(np.square(errors), axis=0)) / len(values)
    u, f = scores.reshape(-1, scores.shape[2]), values.reshape(-1, values.shape[2])
    u, f = u[:, np.any(u != 0, axis=0)], f - f.mean(axis=0)
    if u.shape[1] == 0 or 5 * u.shape[1] * np.mean(autocorrelation_time(scores)) > len(u):
        return batch_means_error(values)  # the regression would fit noise
    u = u / np.sqrt(np.mean(u**2, axis=0))
    beta = np.linalg.lstsq(u - u.mean(axis=0), f, rcond=1e-6)[0]
    shape = values.shape[:2]
    rest = (f - u @ beta).reshape(*shape, -1).mean(axis=0)
    base, weights = _unwind(
        u.reshape(*shape, -1).mean(axis=0), gain.mean(axis=0), alpha.mean(axis=0)
    )
    base = base @ beta
    variance, count = _long_run_variance(rest + weights.mean() * base, None)
    variance = variance + weights.var() * _long_run_variance(base, None)[0]
    return _at_least_between(values, _widen(count - 1) * np.sqrt(variance / len(rest)))


def _at_least_between(values, error):
    """The error, or that between chains if these are stuck in different places."""
    chains, draws, _ = values.shape
    if chains < 2 or draws < 4:
        return error
    within = np.mean([_long_run_variance(x, None)[0] for x in values], axis=0) / draws
    stuck = values.mean(axis=1).var(axis=0, ddof=1) > 20 * within
    return np.where(stuck, np.maximum(error, between_chains_error(values)), error)


def long_run_covariance(series: np.ndarray, num_batches: int | None = None) -> np.ndarray:
    """n Cov(mean) over (chain, draw, k), by batch means; chains are independent."""
    chains, draws, size = series.shape
    if num_batches is None:
        centred = series - series.mean(axis=(0, 1))
        columns = np.moveaxis(centred, 1, 0).reshape(draws, -1)
        length = int(np.max(_lengths(columns)))
    else:
        check_count("num_batches", num_batches, at_least=2)
        length = max(1, draws // num_batches)
    count = draws // length
    means = series[:, -count * length :].reshape(chains * count, length, size).mean(axis=1)
    return length * np.cov(means, rowvar=False).reshape(size, size)


def _error(series, num_batches):
    """Of the mean of each column of (draw, k), widened for the few batches that tell of it."""
    variance, count = _long_run_variance(series, num_batches)
    return _widen(count - 1) * np.sqrt(variance / len(series))


def _widen(freedom):
    return stats.t.ppf(0.975, freedom) / stats.norm.ppf(0.975)


def _long_run_variance(series, num_batches):
    """n Var(mean) of each column of (draw, k), and how many batches it comes from.

    Batch means are too small by a share that falls as one over the batches' length, so that
    2 BM(b) - BM(b/3) corrects it ("lugsail", Vats and Flegal, 2022).
    """
    if num_batches is not None:
        return _batch_means(series, len(series) // num_batches), num_batches
    lengths = _lengths(series)
    out = np.empty(series.shape[1])
    for length in np.unique(lengths):
        columns = lengths == length
        long, short = (_batch_means(series[:, columns], b) for b in (length, max(1, length // 3)))
        out[columns] = np.maximum(2 * long - short, long)
    return out, len(series) // lengths


def _lengths(series):
    """Of the batches of each column: longer than its autocorrelation, on a grid of few values."""
    draws = len(series)
    variance = series.var(axis=0)
    pilot = _batch_means(series, max(1, int(draws**0.5)))
    time = np.maximum(1.0, pilot / np.where(variance > 0, variance, np.inf))
    ideal = 1.5 * np.cbrt(np.nan_to_num(time, nan=1.0) ** 2 * draws)
    return np.clip(2 ** (np.round(4 * np.log2(ideal)) / 4), 1, max(1, draws // 10)).astype(int)


def _batch_means(series, length):
    count = len(series) // length
    means = series[-count * length :].reshape(count, length, -1).mean(axis=1)
    return length * means.var(axis=0, ddof=1)


def _unwind(u, gain, alpha):
    """The series n of a base chain, and the weight of each of its terms in the sum of u."""
    theta, base = np.zeros(u.shape[1]), np.empty_like(u)
    for k in range(len(u)):
        base[k] = u[k] + alpha[k] * theta
        theta = theta + gain[k] * (u[k] - theta)
    pull, weights = 0.0, np.empty(len(u))
    for k in reversed(range(len(u))):
        weights[k] = 1 + gain[k] * pull
        pull = -alpha[k] + (1 - gain[k] * (1 + alpha[k])) * pull
    return base, weights
