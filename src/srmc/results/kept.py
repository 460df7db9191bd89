"""What is kept of a run."""

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
