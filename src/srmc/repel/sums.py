"""Sums over coordinates, which a step takes many of."""

import jax
import jax.numpy as jnp

from srmc.types import Array, Float


def sums(*terms: Array) -> Float[Array, " term"]:
    """The sum of all entries of each array.

    These are products with a vector of ones, all at once if the arrays are of one size: on a CPU,
    XLA takes several times as long for reductions.
    """
    rows = [jnp.ravel(term) for term in terms]
    if len({row.size for row in rows}) > 1:
        return jnp.stack([sums(row)[0] for row in rows])
    ones = jnp.ones(rows[0].size, rows[0].dtype)
    total: Array = jnp.matmul(jnp.stack(rows), ones, precision=jax.lax.Precision.HIGHEST)
    return total
