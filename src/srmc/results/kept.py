"""What is kept of a run."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

Named = dict[str, dict[str, np.ndarray]]  # mean, variance, error and batch_means of each value


class Kept(NamedTuple):
    """What was kept of a run."""

    # Statistics (chain, draw), or (chain, batch) in a run that kept moments.
    stats: dict[str, np.ndarray]
    # Arrays (chain, draw, ...) by name: the draws, and the base chain if there is one.
    draws: dict[str, Any] | None = None
    base: dict[str, Any] | None = None
    # In a rebalanced run, plain draws of the unconstrained position and their scores, (chain, draw,
    # d), from which errors are computed: all of them, or a subset for sticky chains. With learned
    # coordinates both are in these coordinates, and `model_score` is the score of the model.
    scored: dict[str, np.ndarray] | None = None
    # Kept in place of draws.
    moments: Named | None = None
    base_moments: Named | None = None
    covariance: np.ndarray | None = None
    batch_sizes: list[int] | None = None  # number of draws per chain in each batch of moments


def same(one: Any, other: Any) -> bool:
    """Whether two records hold the same numbers and words; NaN equals NaN."""
    if isinstance(one, Mapping):
        alike = isinstance(other, Mapping) and one.keys() == other.keys()
        return alike and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list | tuple):
        alike = isinstance(other, list | tuple) and len(one) == len(other)
        return alike and all(map(same, one, other))
    x, y = np.asarray(one), np.asarray(other)
    return np.array_equal(x, y, equal_nan=x.dtype.kind in "fc" and y.dtype.kind in "fc")
