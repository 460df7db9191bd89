"""First-order control variates for many chains."""

import numpy as np

import srmc
from srmc.types import Float


def control_variates(
    draws: Float[np.ndarray, "chain draw d"], scores: Float[np.ndarray, "chain draw d"]
) -> Float[np.ndarray, "chain d"]:
    """Estimate the mean of each chain separately, with the scores as control variates."""
    pairs = zip(draws, scores, strict=True)
    return np.stack([srmc.zv(x, s, order=1).mean for x, s in pairs])
