"""What rebalancing does to the estimates of each variable of a trace."""

from typing import NamedTuple

import numpy as np

from srmc.metrics.tails import plain_error
from srmc.rebalance.errors import error_beside
from srmc.rebalance.regress import Features
from srmc.types import Float

ELEMENTS = 8  # of a variable that are looked at
LEVELS = (0.05, 0.5, 0.95)
WORSE = 1.5  # ratio of squared errors, which two estimates from 30 batches exceed 1 time in 7
Block = Float[np.ndarray, "chain draw k"]


class Gain(NamedTuple):
    """Expected variances of the estimates of one variable, after rebalancing over before.

    They are averages over some elements of the variable; quantiles are at 5, 50 and 95%.
    """

    means: float
    sds: float
    quantiles: float

    @property
    def is_loss(self) -> bool:
        """Whether the three get worse on average, by more than chance."""
        return sum(self) > WORSE * len(self)


def gains(
    before: dict[str, np.ndarray], after: dict[str, np.ndarray], features: Features
) -> dict[str, Gain]:
    """The gain for each variable, (chain, draw, ...)."""
    old, new = ({name: _elements(x) for name, x in values.items()} for values in (before, after))
    whole = lambda parts: np.concatenate(list(parts.values()), axis=2)
    ratio = _ratios(whole(old), whole(new), features)
    ends = np.cumsum([x.shape[2] for x in old.values()])[:-1]
    parts = zip(old, np.split(ratio, ends, axis=1), strict=True)
    return {
        name: Gain(*(float(np.mean(v)) for v in (part[0], part[1], part[2:])))
        for name, part in parts
    }


def _elements(x: np.ndarray) -> Block:
    columns = np.asarray(x, float).reshape(*x.shape[:2], -1)
    count = columns.shape[2]
    return columns[..., np.linspace(0, count - 1, min(count, ELEMENTS)).astype(int)]


def _ratios(old: Block, new: Block, features: Features) -> Float[np.ndarray, "f k"]:
    """The ratios for the mean, the variance and the quantiles of each column; 1 if unknown."""
    finite = np.all(np.isfinite(old) & np.isfinite(new), axis=(0, 1))
    old, new = np.where(finite, old, 0.0), np.where(finite, new, 0.0)
    centre = new.mean(axis=(0, 1))
    levels = np.quantile(new, LEVELS, axis=(0, 1))

    def functions(x: Block) -> Block:
        below = [(x <= level).astype(float) for level in levels]
        return np.concatenate([x - centre, (x - centre) ** 2, *below], axis=2)

    f = functions(old)
    plain = plain_error(f)  # it allows for tails, as the error of moved draws does
    moved = error_beside(f, features, functions(new))
    known = (plain > 1e-9 * np.max(np.abs(f), axis=(0, 1))) & np.isfinite(moved)
    ratio = np.where(known, moved / np.where(known, plain, 1.0), 1.0) ** 2
    return ratio.reshape(2 + len(LEVELS), -1)
