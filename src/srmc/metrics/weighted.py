"""Weighted means, covariances and quantiles, for the weights of `srmc.reweight`."""

import numpy as np
from numpy.typing import ArrayLike

from srmc._checks import as_numbers, check_number
from srmc.types import Float


def weighted_mean(draws: ArrayLike, weights: ArrayLike) -> Float[np.ndarray, "..."]:
    """The weighted mean of draws (chain, draw, ...) with weights (chain, draw), or without chains.

    >>> weighted_mean([[0.0], [1.0]], [0.25, 0.75]).tolist()
    [0.75]
    """
    x, w = _flat(draws, weights)
    return np.tensordot(w, x, axes=1)


def weighted_covariance(draws: ArrayLike, weights: ArrayLike) -> Float[np.ndarray, "d d"]:
    """The weighted covariance of draws (chain, draw, d)."""
    x, w = _flat(draws, weights)
    if x.ndim != 2:
        raise ValueError(f"draws must be (chain, draw, d) or (draw, d), got {np.shape(draws)}")
    centred = x - w @ x
    return (w[:, None] * centred).T @ centred


def weighted_quantile(
    draws: ArrayLike, weights: ArrayLike, q: ArrayLike
) -> Float[np.ndarray, "..."]:
    """The weighted quantiles of each coordinate.

    >>> weighted_quantile([[0.0], [1.0], [2.0]], [0.2, 0.2, 0.6], 0.5).tolist()
    [2.0]
    """
    x, w = _flat(draws, weights)
    check_number("q", q, at_least=0.0, at_most=1.0, scalar=False)
    levels = as_numbers("q", q)
    return np.asarray(np.quantile(x, levels, axis=0, weights=w, method="inverted_cdf"))


def _flat(draws: ArrayLike, weights: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    x, w = as_numbers("draws", draws), as_numbers("weights", weights)
    check_number("draws", x, scalar=False)
    if not w.ndim or x.shape[: w.ndim] != w.shape or not w.size:
        raise ValueError(f"weights must be {x.shape[:-1]}, as draws are, got shape {w.shape}")
    if not (np.all(w >= 0) and np.sum(w) > 0 and np.all(np.isfinite(w))):
        raise ValueError("weights must be finite and >= 0, and not all 0")
    return x.reshape(w.size, *x.shape[w.ndim :]), w.ravel() / np.sum(w)
