"""Swaps of neighbouring temperatures, which both kinds of tempering make."""

import jax
import jax.numpy as jnp

from srmc.types import Array, Float, Int, PRNGKey


def swapped(
    rng_key: PRNGKey, heat: Float[Array, " level"], value: Float[Array, " level"], step: Array
) -> tuple[Int[Array, " level"], Float[Array, " pair"]]:
    """The level from which each level takes its state, and the swap rates of all pairs.

    `value` is the log density of the target itself at the state of each level. Even and odd pairs
    have their turn at alternate steps.
    """
    rate = jnp.exp(jnp.minimum(0, jnp.diff(value) * -jnp.diff(1 / heat).astype(value.dtype)))
    turn = jnp.arange(heat.size - 1) % 2 == step % 2
    swaps = (jax.random.uniform(rng_key, rate.shape, rate.dtype) < rate) & turn
    return jnp.arange(heat.size) + jnp.pad(swaps, (0, 1)) - jnp.pad(swaps, (1, 0)), rate
