"""The loop: many chains in lockstep, in chunks, on one device."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from blackjax.base import SamplingAlgorithm
from jax.flatten_util import ravel_pytree

from srmc._checks import check_count
from srmc._target import all_finite, as_position, check_start

PyTree = Any
CHAINS = "chains"  # the name of the vmap axis over chains


class Run(NamedTuple):
    """What a run leaves: draws (chain, draw, ...), statistics (chain, draw), the last states."""

    draws: PyTree
    stats: dict[str, np.ndarray]
    states: Any
    interrupted: bool


def run(
    algorithm: SamplingAlgorithm,
    rng_key: jax.Array,
    states: Any,
    num_steps: int,
    *,
    chunk: int = 100,
    on_chunk: Callable[[int, dict[str, np.ndarray]], None] | None = None,
) -> Run:
    """Run chains from `states`, whose leaves have a leading axis of chains.

    The draws do not depend on `chunk`. After each chunk `on_chunk(steps_made, stats)` is called.
    An interrupt ends the run; what was drawn by then is returned.
    """
    check_count("num_steps", num_steps)
    check_count("chunk", chunk)
    num_chains = len(jax.tree.leaves(states)[0])
    chain_keys = jax.random.split(rng_key, num_chains)
    step = jax.vmap(algorithm.step, axis_name=CHAINS)

    @jax.jit
    def advance(states, steps):
        def one(states, n):
            keys = jax.vmap(lambda key: jax.random.fold_in(key, n))(chain_keys)
            states, info = step(keys, states)
            return states, (states.position, _statistics(states, info))

        return jax.lax.scan(one, states, steps)

    kept: list[PyTree] = []
    interrupted = False
    try:
        for start in range(0, num_steps, chunk):
            steps = jnp.arange(start, min(start + chunk, num_steps))
            following, out = advance(states, steps)
            out = jax.tree.map(np.asarray, out)
            states, kept = following, [*kept, out]
            if on_chunk is not None:
                on_chunk(start + len(steps), out[1])
    except KeyboardInterrupt:
        if not kept:
            raise
        interrupted = True
    draws, stats = jax.tree.map(lambda *x: np.swapaxes(np.concatenate(x), 0, 1), *kept)
    return Run(draws, stats, states, interrupted)


def _statistics(state, info) -> dict[str, jax.Array]:
    chains = state.step.shape
    return {
        "acceptance_rate": getattr(info.inner_info, "acceptance_rate", jnp.full(chains, jnp.nan)),
        "alpha": state.alpha,
        "theta_norm": jax.vmap(optax.tree.norm)(state.theta),
        "exponent": info.exponent,
        "gradients": info.gradients,
        "hvps": info.hvps,
        "is_finite": info.is_finite,
        "is_hot": info.is_hot,
    }


def stack_positions(positions: list[PyTree]) -> PyTree:
    """The starts of several chains as one pytree with a leading axis of chains."""
    if not positions:
        raise ValueError("positions must hold the start of at least one chain, got none")
    shapes = [jax.tree.map(jnp.shape, position) for position in positions]
    for chain, shape in enumerate(shapes):
        if shape != shapes[0]:
            raise ValueError(
                "positions must have the same structure and shapes in every chain, "
                f"got {shapes[0]} in chain 0 and {shape} in chain {chain}"
            )
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *positions)


def scatter(
    logdensity_fn: Callable, rng_key: jax.Array, position: PyTree, num_chains: int, tries: int = 100
) -> PyTree:
    """Starts for chains: a position moved by uniform(-2, 2), where density and score are finite.

    Each new try keeps closer to the position.
    """
    check_count("num_chains", num_chains)
    flat, unravel = ravel_pytree(as_position(position))

    def draw(key, n):
        move = jax.random.uniform(jax.random.fold_in(key, n), flat.shape, flat.dtype, -2.0, 2.0)
        return unravel(flat + 0.9 ** n.astype(flat.dtype) * move)

    def search(key):
        def bad(carry):
            n, x = carry
            return (n < tries) & ~all_finite(jax.value_and_grad(logdensity_fn)(x))

        def again(carry):
            n, _ = carry
            return n + 1, draw(key, n + 1)

        first = jnp.zeros((), int)
        _, x = jax.lax.while_loop(bad, again, (first, draw(key, first)))
        return x, all_finite(jax.value_and_grad(logdensity_fn)(x))

    check_start(logdensity_fn, position)
    starts, found = jax.jit(jax.vmap(search))(jax.random.split(rng_key, num_chains))
    if not jnp.all(found):
        raise ValueError(
            f"logdensity_fn must be finite where chains start, but {int(jnp.sum(~found))} of "
            f"{num_chains} chains found no such place in {tries} tries within 2 of the position"
        )
    return starts
