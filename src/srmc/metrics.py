"""Errors of what a run estimates, valid for chains that share a history."""

from typing import Any

import jax
import numpy as np

from srmc._checks import check_count

PyTree = Any


def batch_means_error(draws: PyTree, num_batches: int | None = None) -> PyTree:
    """The standard error of the mean over all draws, by batch means.

    Draws have the axes (chain, draw, ...). The chains are averaged first, so that the error holds
    for chains that push one another; their average is then cut into `num_batches` batches, the
    root of its length by default.

    >>> white = np.random.default_rng(0).normal(size=(4, 10_000))
    >>> bool(abs(batch_means_error(white) / 0.005 - 1) < 0.3)
    True
    """
    if num_batches is not None:
        check_count("num_batches", num_batches, at_least=2)

    def error(x):
        series = np.asarray(x, float).mean(axis=0)
        batches = num_batches or max(2, int(len(series) ** 0.5))
        if len(series) < batches:
            raise ValueError(f"draws must be at least {batches} a chain, got {len(series)}")
        length = len(series) // batches
        means = series[-batches * length :].reshape(batches, length, *series.shape[1:]).mean(axis=1)
        return means.std(axis=0, ddof=1) / np.sqrt(batches)

    return jax.tree.map(error, draws)


def autocorrelation_time(draws: PyTree) -> PyTree:
    """The integrated autocorrelation time of each coordinate, from batch means.

    It is 1 for independent draws, and never less here.
    """

    def time(x, error):
        x = np.asarray(x, float)
        variance = x.var(axis=(0, 1), ddof=1)
        size = x.shape[0] * x.shape[1]
        return np.maximum(1.0, size * error**2 / np.where(variance > 0, variance, np.inf))

    return jax.tree.map(time, draws, batch_means_error(draws))
