"""Draws as they are given to a measure: an array (chain, draw, ...), or a tree of them."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from srmc._checks import as_numbers
from srmc.types import Float, PyTree


def as_draws(values: Any, name: str = "draws") -> Float[np.ndarray, "chain draw ..."]:
    """Numbers (chain, draw, ...) in double precision, or an error that names them."""
    x = as_numbers(name, values)
    if x.ndim < 2 or not x.shape[0] or not x.shape[1]:
        raise ValueError(f"{name} must be (chain, draw, ...), not empty, got shape {x.shape}")
    return x


def over_leaves(measure: Callable[[Any], Any], draws: PyTree[Any]) -> PyTree[Any]:
    """The measure of each array of a tree."""
    if not jax.tree.leaves(draws):
        raise ValueError(f"draws must be an array, or a tree of arrays, got {draws!r}")
    return jax.tree.map(measure, draws)
