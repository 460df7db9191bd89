"""Draws, scores and features as they are given, checked and with an axis of chains."""

from typing import Any

import numpy as np

from srmc.types import Float


def as_chains(name: str, values: Any) -> Float[np.ndarray, "chain draw k"]:
    """Numbers (chain, draw, k) or (draw, k) in double precision, or an error that names them."""
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different lengths
        array = np.asarray(None)
    if array.ndim not in (2, 3) or not np.issubdtype(array.dtype, np.floating) or not array.size:
        raise ValueError(
            f"{name} must be floating-point numbers of shape (chain, draw, d) or (draw, d), got "
            f"shape {array.shape} and dtype {array.dtype}"
        )
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be finite, got {np.sum(~np.isfinite(array))} NaN or inf")
    chains: np.ndarray = np.asarray(array, float)
    return chains[None] if chains.ndim == 2 else chains
