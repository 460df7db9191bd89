"""Where chains start: given, drawn, or scattered until the density is finite."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.tree_util import Partial

from srmc._checks import check_count, outputs_of
from srmc._programs import over_rows, program_of
from srmc.kernels.discrete.space import Space
from srmc.repel.target import all_finite, as_position, check_density
from srmc.types import Array, Bool, LogDensity, Position, PRNGKey


def find_starts(
    logdensity_fn: LogDensity, initial_position: Any, rng_key: PRNGKey, num_chains: int
) -> Position:
    """The starts of all chains, with a leading axis of chains.

    `initial_position` is one position for all chains, a list of one for each, or a function of a
    key that draws one.
    """
    check_count("num_chains", num_chains)
    if callable(initial_position):
        outputs_of("initial_position", initial_position, rng_key, of="a key")
        draw = jax.vmap(lambda key: as_position(initial_position(key), "initial_position"))
        positions = draw(jax.random.split(rng_key, num_chains))
    elif isinstance(initial_position, list):
        if len(initial_position) != num_chains:
            numbers = all(np.ndim(x) == 0 and not isinstance(x, dict) for x in initial_position)
            wanted = f"; for one position write jnp.array({initial_position}, float)" * numbers
            raise ValueError(
                f"initial_position must be a list of {num_chains} positions, one per chain, got "
                f"{len(initial_position)}{wanted}"
            )
        positions = stack_positions(initial_position, "initial_position")
    else:
        positions = stack_positions([initial_position] * num_chains, "initial_position")
    positions = _in_one_precision(positions)
    check_density(logdensity_fn, jax.tree.map(lambda x: x[0], positions))
    finite = over_rows(Partial(_is_good, logdensity_fn))(positions)
    if not jnp.all(finite):
        bad = [int(chain) for chain in jnp.flatnonzero(~finite)]
        where = jax.tree.map(lambda x: x[bad[0]], positions)
        value = logdensity_fn(where)
        raise ValueError(
            "logdensity_fn and its gradient must be finite at the start, but they are not in "
            f"chain {', '.join(map(str, bad[:5]))}{' ...' if bad[5:] else ''}: the log density is "
            f"{value} at initial_position {where!r}"
        )
    return positions


def find_states(
    logdensity_fn: LogDensity,
    space: Space,
    initial_position: Any,
    like: Array | None,
    rng_key: PRNGKey,
    num_chains: int,
    tries: int = 100,
) -> Array:
    """The starts of all chains on a discrete space; if none are given, uniform states `like` one.

    These are drawn again until the log density is finite.
    """
    check_count("num_chains", num_chains)
    density = program_of(Partial(jax.lax.map, logdensity_fn))
    if callable(initial_position):
        outputs_of("initial_position", initial_position, rng_key, of="a key")
        draws = [initial_position(key) for key in jax.random.split(rng_key, num_chains)]
    elif isinstance(initial_position, list):
        if len(initial_position) != num_chains:
            raise ValueError(
                f"initial_position must be a list of {num_chains} states, one per chain, got "
                f"{len(initial_position)}; give a single state as an array"
            )
        draws = initial_position
    elif initial_position is not None:
        draws = [initial_position] * num_chains
    else:
        model = jnp.asarray(like, float)
        check_density(logdensity_fn, model)
        batch = over_rows(Partial(_uniform, space, model))
        draws = []
        for n in range(tries):
            states = batch(jax.random.split(jax.random.fold_in(rng_key, n), num_chains))
            draws += list(states[jnp.isfinite(density(states))])
            if len(draws) >= num_chains:
                draws = draws[:num_chains]
                break
        else:
            raise ValueError(
                "logdensity_fn must be finite where chains start, but few uniform states have a "
                "probability; give initial_position"
            )
    states = stack_positions(
        [space.as_state(x, "initial_position").astype(float) for x in draws], "initial_position"
    )
    if like is not None and states[0].shape != jnp.shape(like):
        raise ValueError(
            f"initial_position must have the shape of the target's states, {jnp.shape(like)}, got "
            f"{states[0].shape}"
        )
    check_density(logdensity_fn, states[0])
    values = density(states)
    if not jnp.all(jnp.isfinite(values)):
        chain = int(jnp.argmin(jnp.isfinite(values)))
        raise ValueError(
            f"logdensity_fn must be finite at the start, got {values[chain]} in chain {chain}"
        )
    return jnp.asarray(states)


def _uniform(space: Space, like: Array, rng_key: PRNGKey) -> Array:
    return space.random(rng_key, like)


def stack_positions(positions: list[Position], name: str = "positions") -> Position:
    """The starts of several chains as one pytree with a leading axis of chains."""
    positions = [as_position(position, name) for position in positions]
    if not positions:
        raise ValueError(f"{name} must hold the start of at least one chain, got none")
    shapes = [jax.tree.map(jnp.shape, position) for position in positions]
    for chain, shape in enumerate(shapes):
        if shape != shapes[0]:
            raise ValueError(
                f"{name} must have the same structure and shapes in every chain, "
                f"got {shapes[0]} in chain 0 and {shape} in chain {chain}"
            )
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *positions)


def scatter(
    logdensity_fn: LogDensity,
    rng_key: PRNGKey,
    position: Position,
    num_chains: int,
    tries: int = 100,
) -> Position:
    """A position moved by uniform(-2, 2), again until density and score are finite there.

    Each new try keeps closer to the position.
    """
    check_count("num_chains", num_chains)
    position = _in_one_precision(as_position(position))
    check_density(logdensity_fn, position)
    flat, place = ravel_pytree(position)[0], over_rows(Partial(_placed, logdensity_fn, position))
    # NumPy's random numbers are used, since JAX's take long to compile.
    rng = np.random.default_rng(np.asarray(jax.random.key_data(rng_key)))
    found, rows = np.zeros(num_chains, bool), np.repeat(np.asarray(flat)[None], num_chains, axis=0)
    for n in range(tries):
        moved = np.asarray(flat) + 0.9**n * rng.uniform(-2.0, 2.0, rows.shape)
        rows = np.where(found[:, None], rows, moved.astype(rows.dtype))
        starts, good = place(jnp.asarray(rows))
        found = np.asarray(good)
        if np.all(found):
            return starts
    raise ValueError(
        f"logdensity_fn must be finite where chains start, but {int(np.sum(~found))} of "
        f"{num_chains} chains found no such place in {tries} tries within 2 of the position; "
        "give initial_position"
    )


def _placed(
    logdensity_fn: LogDensity, like: Position, flat: Array
) -> tuple[Position, Bool[Array, ""]]:
    """The position of these numbers, and whether a chain can start there."""
    x = ravel_pytree(like)[1](flat)
    return x, _is_good(logdensity_fn, x)


def _in_one_precision(position: Position) -> Position:
    """JAX's default, since BlackJAX's kernels do not mix several."""
    return jax.tree.map(lambda x: x.astype(float), position)


def _is_good(logdensity_fn: LogDensity, x: Position) -> Bool[Array, ""]:
    return all_finite(jax.value_and_grad(logdensity_fn)(x))
