"""Tails that are too heavy for a standard error, seen by the shape of a Pareto tail."""

import numpy as np

from srmc._types import Float
from srmc.metrics.errors import batch_means_error

UNSEEN = 3  # independent draws, of which a tail that all draws miss weighs less, with 95%
RELIABLE = 0.7  # shape up to which averages over any number of draws have a useful error
FEWEST = 25  # values of which a tail is fitted
FAR = 0.2  # standard deviations times sqrt(n): values that all are nearer have no heavy tail


def tail_shape(ordered: Float[np.ndarray, "row n"]) -> Float[np.ndarray, " row"]:
    """The larger shape k of both tails of values in ascending order, as in Pareto smoothing.

    Moments of order 1 / k and above do not exist. The tail are the farthest 3 sqrt(n) values, or a
    fifth of them. The shape is NaN where values are too few, or too many of them are equal.
    """
    count = ordered.shape[1]
    size = _size(count)
    if count < FEWEST:
        return np.full(len(ordered), np.nan)
    upper = ordered[:, -size:] - ordered[:, -size - 1, None]
    lower = (ordered[:, size, None] - ordered[:, :size])[:, ::-1]
    larger: np.ndarray = np.fmax(_shape(upper), _shape(lower))
    return larger


def with_tails(
    values: Float[np.ndarray, "chain draw k"], error: Float[np.ndarray, " k"]
) -> Float[np.ndarray, " k"]:
    """Errors of means that allow for heavy tails of the values.

    Where the shape k, or k plus its standard error, is above 1/2, the variance may be infinite.
    The error is then at least that of batch means, whatever features explain, and what the tail may
    hide beyond all draws: as much as the three farthest make up, divided by 1 - k. Where k is above
    0.7, or 1 - 1 / log10(n) if that is less, no practical number of draws helps (Vehtari et al.,
    2024), and the error is NaN.
    """
    count = values.shape[0] * values.shape[1]
    rows = np.moveaxis(values - values.mean(axis=(0, 1)), 2, 0).reshape(-1, count)
    farthest = np.maximum(rows.max(axis=1), -rows.min(axis=1))
    seen = np.flatnonzero(farthest > FAR * np.sqrt(count) * rows.std(axis=1))
    if not len(seen) or count < FEWEST:
        return error
    shape = tail_shape(np.sort(rows[seen], axis=1))
    upper = shape + (1 + shape) / np.sqrt(_size(count))
    heavy = upper > 0.5
    seen, shape, upper = seen[heavy], shape[heavy], np.minimum(upper[heavy], 0.9)
    plain = batch_means_error(values[..., seen])
    rows = rows[seen]
    time = np.maximum(1.0, count * plain**2 / np.maximum(rows.var(axis=1), 1e-300))
    far = np.sum(np.partition(np.abs(rows), -UNSEEN, axis=1)[:, -UNSEEN:], axis=1) * time / count
    widened = error.copy()
    widened[seen] = np.maximum(np.maximum(error[seen], plain), far / (1 - upper) / 1.96)
    widened[seen[shape > min(RELIABLE, 1 - 1 / np.log10(count))]] = np.nan
    return widened


def _size(count: int) -> int:
    """The number of values in a tail."""
    return int(min(count / 5, 3 * np.sqrt(count)))


def _shape(excess: Float[np.ndarray, "row m"]) -> Float[np.ndarray, " row"]:
    """The shape of a generalised Pareto distribution by Zhang and Stephens (2009).

    It is that of a mean over a grid of rates, weighted by their profile likelihood.
    """
    size = excess.shape[1]
    grid = 30 + int(np.sqrt(size))
    steps = 1 - np.sqrt(grid / (np.arange(grid) + 0.5))
    with np.errstate(all="ignore"):  # where values are equal
        rate = 1 / excess[:, -1:] + steps / (3 * excess[:, int(size / 4 + 0.5) - 1, None])
        shapes = np.log1p(-rate[..., None] * excess[:, None]).mean(axis=2)
        profile = size * (np.log(-rate / shapes) - shapes - 1)
        weights = np.exp(profile - profile.max(axis=1, keepdims=True))
        rate = np.sum(weights * rate, axis=1) / np.sum(weights, axis=1)
        shape: np.ndarray = np.log1p(-rate[:, None] * excess).mean(axis=1)
    return shape
