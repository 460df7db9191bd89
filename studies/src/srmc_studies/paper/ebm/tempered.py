"""Parallel tempering on binary images, from a base with independent pixels to the energy."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import srmc
from srmc.repel import RepelState
from srmc.types import Array, Float, PRNGKey, Scalar
from srmc_studies.paper._chains import Plan, compiler_options
from srmc_studies.paper.ebm.sampling import Path

if TYPE_CHECKING:
    from srmc_studies.paper.ebm.networks import BinaryEnergy  # which needs Equinox

MOVES = 10  # of each level between two swaps


class Ladder(NamedTuple):
    """A path of the cold level, and the rates of swaps between neighbours."""

    path: Path
    swaps: Float[np.ndarray, " pair"]


def temper(
    model: "BinaryEnergy",
    starts: Float[Array, "chain pixel"],
    rng_key: PRNGKey,
    betas: Float[np.ndarray, " level"],
    plan: Plan,
    step_size: float,
) -> Ladder:
    """Run log pi_b = b log pi + (1 - b) log base at all levels; neighbours swap by turns.

    The state of the cold level is kept after each block of rounds. Each round makes ten DLP moves
    at each level, which with their first gradient cost eleven.
    """
    heat = jnp.asarray(betas, jnp.float32)
    excess = lambda x: model(x) - model.base_logdensity(x)

    def moves(beta: Scalar, x: Array, key: PRNGKey) -> Array:
        f = lambda x: model.base_logdensity(x) + beta * excess(x)
        algorithm = srmc.dlp(f, srmc.Binary(), step_size, alpha=0.0)
        step: Callable[[RepelState, PRNGKey], tuple[RepelState, None]] = lambda state, key: (
            algorithm.step(key, state)[0],
            None,
        )
        state, _ = jax.lax.scan(step, algorithm.init(x), jax.random.split(key, MOVES))
        position: Array = state.position
        return position

    def round_(x: Array, key: PRNGKey, n: Array) -> tuple[Array, Array]:
        move_key, swap_key = jax.random.split(jax.random.fold_in(key, n))
        x = jax.vmap(moves)(heat, x, jax.random.split(move_key, heat.size))
        value = jax.vmap(excess)(x)
        rate = jnp.exp(jnp.minimum(0, -jnp.diff(value) * jnp.diff(heat)))
        turn = jnp.arange(heat.size - 1) % 2 == n % 2
        swaps = (jax.random.uniform(swap_key, rate.shape) < rate) & turn
        source = jnp.arange(heat.size) + jnp.pad(swaps, (0, 1)) - jnp.pad(swaps, (1, 0))
        return x[source], rate

    def advance(x: Array, key: PRNGKey, first: Array) -> tuple[Array, Array]:
        x, rates = jax.lax.scan(lambda x, n: round_(x, key, n), x, first + jnp.arange(plan.block))
        return x, rates.mean(axis=0)

    options = compiler_options(plan.light)
    program = jax.jit(jax.vmap(advance, (0, 0, None)), compiler_options=options)
    keys = jax.random.split(rng_key, len(starts))
    x = jnp.repeat(jnp.asarray(starts)[:, None], heat.size, axis=1)
    kept, rates = [np.asarray(starts, np.uint8)], []
    for n in range(plan.num_blocks):
        x, rate = program(x, keys, n * plan.block)
        kept.append(np.asarray(x[:, 0], np.uint8))
        rates.append(np.asarray(rate.mean(axis=0)))
        plan.on_block(n + 1)
    rounds = np.arange(plan.num_blocks + 1.0) * plan.block
    path = Path(np.stack(kept), rounds * (MOVES + 1) * heat.size, rounds * MOVES, np.nan, np.nan)
    return Ladder(path, np.mean(rates, axis=0))
