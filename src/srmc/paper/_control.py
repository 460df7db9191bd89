"""Control variates of first order, computed from draws and their scores."""

import numpy as np


def control_variates(draws: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """The mean of each chain's draws, (chain, draw, d) -> (chain, d), less what scores explain."""
    out = []
    for x, s in zip(draws, scores, strict=True):
        x, s = np.asarray(x, float), np.asarray(s, float)
        mean_x, mean_s = x.mean(axis=0), s.mean(axis=0)
        s = s - mean_s
        beta = np.linalg.lstsq(s.T @ s, s.T @ (x - mean_x), rcond=None)[0]
        out.append(mean_x - mean_s @ beta)
    return np.array(out)
