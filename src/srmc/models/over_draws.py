"""A function of one draw, at all draws of a trace."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

AT_ONCE = 1024  # draws that are transformed together


def over_draws(function: Callable[[Any], Any], draws: Any) -> Any:
    """A function of one draw at all draws, (chain, draw, ...)."""
    leaves, structure = jax.tree.flatten(draws)
    shape = leaves[0].shape[:2]
    rows = [np.asarray(x, float).reshape(-1, *x.shape[2:]) for x in leaves]
    count = len(rows[0])
    size = min(AT_ONCE, 1 << (count - 1).bit_length())
    program = jax.jit(jax.vmap(lambda leaves: function(jax.tree.unflatten(structure, leaves))))
    parts = []
    for start in range(0, count, size):  # all of one size, so that one program serves
        some = np.minimum(np.arange(start, start + size), count - 1)
        out = program([jnp.asarray(x[some]) for x in rows])
        parts.append(jax.tree.map(lambda x, n=count - start: np.asarray(x)[:n], out))
    whole = jax.tree.map(lambda *x: np.concatenate(x), *parts)
    return jax.tree.map(lambda x: x.reshape(*shape, *x.shape[1:]), whole)
