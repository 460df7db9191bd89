"""Tails that are too heavy for a standard error, seen by the shape of a Pareto tail."""

from typing import NamedTuple

import numpy as np

from srmc.metrics.errors import batch_means_error, size_from
from srmc.types import Bool, Float

Series = Float[np.ndarray, "chain draw k"]
Columns = Float[np.ndarray, " k"]
Rows = Float[np.ndarray, "row n"]
PerRow = Float[np.ndarray, " row"]
UNSEEN = (
    3  # expected number of draws in a tail that independent draws miss with a probability of 5%
)
RELIABLE = 0.7  # largest tail shape for which averages have a usable error estimate
NO_VARIANCE = 0.5  # smallest tail shape without a finite variance
HEAVIEST = 0.95  # upper bound on the fitted shape; at 1 the mean does not exist
FEWEST = 25  # smallest number of values in a tail fit
FAR = 0.2  # a tail is fitted if its farthest value exceeds this times sd sqrt(n)


class Tail(NamedTuple):
    """Upper tails: a generalised Pareto distribution of the excess over `start`."""

    shape: PerRow
    scale: PerRow
    start: PerRow


def tail_shape(ordered: Rows) -> PerRow:
    """The larger shape k of both tails of values in ascending order, as in Pareto smoothing.

    Moments of order 1 / k and above do not exist. A tail is the farthest 3 sqrt(n) values, or a
    fifth of them. The shape is NaN where values are too few, or too many of them are equal.
    """
    if ordered.shape[1] < FEWEST:
        return np.full(len(ordered), np.nan)
    return np.fmax(*(tail.shape for tail in _tails(ordered)))


def plain_error(values: Series, error: Columns | None = None) -> Columns:
    """Errors of means, by default from batch means, that allow for the tail beyond all draws.

    Where the shape k of a tail is above 0.7, no practical number of draws helps (Vehtari et al.,
    2024), and the error is NaN. This takes a tail of 25 independent draws, about 125 in all; with
    fewer, the fit is noise, and the error is widened.
    """
    return error_and_variance(values, error)[0]


def error_and_variance(
    values: Series, error: Columns | None = None
) -> tuple[Columns, Bool[np.ndarray, " k"]]:
    """The errors of `plain_error`, and whether the values have a variance for certain.

    They have none where the shape of a tail is above 1/2; it may be one standard error larger.
    """
    error = batch_means_error(values) if error is None else error
    rows = np.moveaxis(values, 2, 0).reshape(values.shape[2], -1)
    count = rows.shape[1]
    size = size_from(rows.var(axis=1), error, count)
    hidden, shape = hidden_tail(rows, size)
    known = ~((shape > RELIABLE) & (_tail_size(size) >= FEWEST))
    return np.where(known, np.hypot(error, hidden), np.nan), ~(_heavier(shape, count) > NO_VARIANCE)


def hidden_tail(rows: Rows, size: PerRow) -> tuple[PerRow, PerRow]:
    """The error of the mean of a row by the tail beyond all draws, and the shape of the tail.

    `size` is the number of independent draws. With a probability of 5% all of them miss the tail
    of mass 3 / size, and the mean lacks (3 / size) E[f | f in the tail], by a Pareto fit with a
    shape one standard error above its estimate. It is 0, with a shape of NaN, where no value
    is far out; of a tail that is, only its own side counts. It is 0, too, where that shape is below
    1/2: the values have a variance, and their own spread shows what the tail does.
    """
    count = rows.shape[1]
    error, shape = np.zeros(len(rows)), np.full(len(rows), np.nan)
    mean, sd = rows.mean(axis=1), rows.std(axis=1)
    reach = rows.max(axis=1) - mean, mean - rows.min(axis=1)
    upper, lower = (far > FAR * np.sqrt(size) * sd for far in reach)
    seen = np.flatnonzero(upper | lower)
    if not len(seen) or count < FEWEST:
        return error, shape
    scaled = ((rows[seen] - mean[seen, None]) / sd[seen, None]).astype(np.float32)
    for tail, is_far in zip(_tails(_ordered_tails(scaled)), (upper, lower), strict=True):
        heavy = is_far[seen] & (_heavier(tail.shape, count) > NO_VARIANCE)
        lacking = np.where(heavy, _lacking(tail, size[seen], count), 0.0)
        error[seen] = np.fmax(error[seen], sd[seen] * lacking / 1.96)
        shape[seen] = np.fmax(shape[seen], np.where(is_far[seen], tail.shape, np.nan))
    return error, shape


def _tail_size(count: PerRow | int) -> PerRow:
    return np.minimum(np.asarray(count) / 5, 3 * np.sqrt(count))


def _size(count: int) -> int:
    """The number of values in a tail."""
    return int(_tail_size(count))


def _ordered_tails(rows: Rows) -> Rows:
    """Values of which both tails, with where they start, are in order."""
    size = _size(rows.shape[1]) + 1
    parted = np.partition(rows, (size, rows.shape[1] - size), axis=1)
    parted[:, :size].sort(axis=1)
    parted[:, -size:].sort(axis=1)
    return parted


def _tails(ordered: Rows) -> tuple[Tail, Tail]:
    """The upper and, upside down, the lower tail of values in ascending order."""
    return _upper(ordered), _upper(-ordered[:, ::-1])


def _upper(ordered: Rows) -> Tail:
    """The fit of Zhang and Stephens (2009).

    The rate is a mean over a grid of rates, weighted by their profile likelihood.
    """
    size = _size(ordered.shape[1])
    start = ordered[:, -size - 1]
    excess = ordered[:, -size:] - start[:, None]
    grid = 30 + int(np.sqrt(size))
    steps = 1 - np.sqrt(grid / (np.arange(grid) + 0.5))
    with np.errstate(all="ignore"):  # where values are equal
        rate = 1 / excess[:, -1:] + steps / (3 * excess[:, int(size / 4 + 0.5) - 1, None])
        shapes = np.log1p(-rate[..., None] * excess[:, None]).mean(axis=2)
        profile = size * (np.log(-rate / shapes) - shapes - 1)
        weights = np.exp(profile - profile.max(axis=1, keepdims=True))
        rate = np.sum(weights * rate, axis=1) / np.sum(weights, axis=1)
        shape = np.log1p(-rate[:, None] * excess).mean(axis=1)
        return Tail(shape, -shape / rate, start)


def _lacking(tail: Tail, size: PerRow, count: int) -> PerRow:
    """What the tail of mass 3 / size adds to a mean."""
    with np.errstate(all="ignore"):  # where there is no fit
        shape = _heavier(np.minimum(tail.shape, RELIABLE), count)
        odds = _size(count) / count * size / UNSEEN
        beyond = tail.scale * np.expm1(shape * np.log(odds)) / shape
        mean = tail.start + beyond + (tail.scale + shape * beyond) / (1 - shape)
        return np.asarray(UNSEEN / size * mean)


def _heavier(shape: PerRow, count: int) -> PerRow:
    """A shape plus its standard error, below 1."""
    return np.minimum(shape + (1 + shape) / np.sqrt(_size(count)), HEAVIEST)
