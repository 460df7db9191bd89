"""Quantiles of many chains from a few numbers of each."""

from collections.abc import Sequence

import numpy as np

from srmc.types import Float

LEVELS = (
    1 - np.cos(np.pi * np.arange(65) / 64)
) / 2  # levels of stored quantiles, dense in the tails


def pooled_quantiles(
    chains: Float[np.ndarray, "chain level k"], levels: Sequence[float]
) -> tuple[Float[np.ndarray, "q k"], Float[np.ndarray, "q k"]]:
    """Pooled quantiles from each chain's quantiles at `LEVELS`, and their standard errors.

    The distribution function of a chain is interpolated between its quantiles, and averaged over
    chains. The errors come from the spread between chains; they are NaN for one chain.
    """
    count, _, size = chains.shape
    found, errors = np.empty((len(levels), size)), np.full((len(levels), size), np.nan)
    for k in range(size):
        x = np.sort(chains[..., k].ravel())
        below = np.mean([np.interp(x, own, LEVELS) for own in chains[..., k]], axis=0)
        found[:, k] = np.interp(levels, below, x)
        if count > 1:
            own = np.array([np.interp(levels, LEVELS, x) for x in chains[..., k]])
            errors[:, k] = own.std(axis=0, ddof=1) / np.sqrt(count)
    return found, errors
