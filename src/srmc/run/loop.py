"""The loop: many chains in lockstep, in chunks whose length follows the clock."""

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from blackjax.base import SamplingAlgorithm

from srmc._checks import check_count
from srmc.run.devices import DEVICES, Layout, lay_out

PyTree = Any
CHAINS = "chains"  # the name of the vmap axis over chains
ALL_CHAINS = (CHAINS, DEVICES)  # of all devices: the axes of a shared history
LARGEST = 2**24  # numbers that a chunk may hold


class Chunk(NamedTuple):
    """A stretch of a run, on the host.

    done
        The number of draws a chain that were made by its end.
    values, stats
        What was kept of it; (draw, chain, ...) for draws.
    carry
        What goes on from here, on the devices, block by block.
    """

    done: int
    values: PyTree
    stats: dict[str, np.ndarray]
    carry: list[Any]


class Task(NamedTuple):
    """What is run: an algorithm, its key, where its chains are, and what a draw is made of.

    record
        What is kept of a state.
    thin
        Steps a draw.
    """

    algorithm: SamplingAlgorithm
    rng_key: jax.Array
    layout: Layout
    record: Callable[[Any], PyTree] = lambda state: state.position
    thin: int = 1


def start(task: Task, rng_key: jax.Array, positions: PyTree) -> list[Any]:
    """The states that chains start in, block by block."""
    keys = jax.random.key_data(jax.random.split(rng_key, task.layout.num_chains))
    wrap = jax.vmap(jax.random.wrap_key_data)
    init = lambda pair: jax.vmap(task.algorithm.init)(pair[0], wrap(pair[1]))
    program = task.layout.program(init, (0,), 0)
    return [program(part) for part in task.layout.spread((positions, keys))]


def draws(
    task: Task,
    states: list[Any],
    num_draws: int,
    *,
    first: int = 0,
    seconds: float = 0.5,
    grain: int = 1,
    most: int | None = None,
) -> Iterator[Chunk]:
    """Draws `first` to `num_draws`, in chunks that take so many seconds, about.

    The length of a chunk is a multiple of `grain`, and `most` at most. States are those of all
    chains, block by block.
    """
    one_draw = drawing(task)
    one = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), states[0])
    size = sum(x.size for x in jax.tree.leaves(jax.eval_shape(task.record, one)))
    capacity = max(1, LARGEST // (task.layout.num_chains * size)) if most is None else most
    capacity = max(grain, min(capacity, num_draws - first) // grain * grain)

    def fill(states, keys, first, count):
        values = jax.eval_shape(jax.vmap(task.record), states)
        stats = {k: jnp.zeros(states.step.shape, t) for k, t in STATISTICS.items()}
        out = jax.tree.map(lambda s: jnp.zeros((capacity, *s.shape), s.dtype), (values, stats))

        def body(i, carry):
            states, out = carry
            states, *new = one_draw(states, first + i, keys)
            return states, jax.tree.map(lambda o, x: o.at[i].set(x), out, tuple(new))

        return jax.lax.fori_loop(0, count, body, (states, out))

    program = task.layout.program(fill, (0, 0, None, None), (0, 1))
    for done, count, carry, out in paced(
        program, task, states, first, num_draws, seconds, capacity, grain
    ):
        values, stats = task.layout.collect(out, axis=1)
        # Copied, since a slice would keep all of the capacity alive.
        values, stats = jax.tree.map(lambda x, n=count: x[:n].copy(), (values, stats))
        yield Chunk(done, values, stats, carry)


def paced(program, task, carry, first, last, seconds, most, grain=1, boundary=None):
    """Call the program on stretches of draws that take so many seconds, about."""
    chain_keys = jax.random.split(task.rng_key, task.layout.num_chains)
    keys = task.layout.spread(jax.random.key_data(chain_keys))

    def call(carry, done, count):
        span = np.int32(done), np.int32(count)
        pairs = [program(part, key, *span) for part, key in zip(carry, keys, strict=True)]
        return [p[0] for p in pairs], [p[1] for p in pairs]

    done, count = first, grain
    if first < last:
        call(carry, first, 0)  # compiles, so that the clock need not wait for it
    while done < last:
        ends = [last - done, most] + ([] if boundary is None else [boundary - done % boundary])
        count = min(count, *ends)
        began = time.perf_counter()
        carry, out = call(carry, done, count)
        jax.block_until_ready(carry)
        speed = count / max(time.perf_counter() - began, 1e-6)
        done += count
        yield done, count, carry, out
        # A first, short chunk tells little of the speed.
        count = max(1, min(int(seconds * speed), 10 * count) // grain) * grain


def drawing(task: Task) -> Callable:
    """A function of states, the number of the draw and the chains' keys: one draw of each."""
    step = jax.vmap(task.algorithm.step, axis_name=CHAINS)

    def one_step(states, n, keys):
        fold = lambda data: jax.random.fold_in(jax.random.wrap_key_data(data), n)
        states, info = step(jax.vmap(fold)(keys), states)
        return states, _statistics(states, info)

    def one_draw(states, i, keys):
        if task.thin == 1:
            states, stats = one_step(states, i, keys)
        else:
            steps = i * task.thin + jnp.arange(task.thin)
            states, stats = jax.lax.scan(lambda s, n: one_step(s, n, keys), states, steps)
            stats = {name: _OVER_STEPS.get(name, _last)(x, axis=0) for name, x in stats.items()}
        return states, jax.vmap(task.record)(states), stats

    return one_draw


def _last(x, axis):
    return jnp.take(x, -1, axis)


# How a statistic of several steps becomes that of the draw which they lead to.
_OVER_STEPS: dict[str, Callable] = {
    "acceptance_rate": jnp.mean,
    "gradients": jnp.sum,
    "hvps": jnp.sum,
    "diverging": jnp.any,
    "is_finite": jnp.all,
    "is_hot": jnp.any,
    "gain": jnp.sum,
}

STATISTICS: dict[str, type] = {
    "acceptance_rate": float,
    "diverging": bool,
    "alpha": float,
    "theta_norm": float,
    "exponent": float,
    "gradients": int,
    "hvps": int,
    "is_finite": bool,
    "is_hot": bool,
    "gain": float,
}


def _statistics(state, info) -> dict[str, jax.Array]:
    chains = state.step.shape
    inner = info.inner_info
    values = (
        getattr(inner, "acceptance_rate", jnp.full(chains, jnp.nan)),
        getattr(inner, "is_divergent", jnp.zeros(chains, bool)),
        state.alpha,
        jax.vmap(optax.tree.norm)(state.theta),
        info.exponent,
        info.gradients,
        info.hvps,
        info.is_finite,
        info.is_hot,
        info.gain,
    )
    pairs = zip(STATISTICS.items(), values, strict=True)
    return {name: jnp.asarray(x, dtype) for (name, dtype), x in pairs}


class Run(NamedTuple):
    """What a run leaves: draws (chain, draw, ...), statistics (chain, draw), the last states."""

    draws: PyTree
    stats: dict[str, np.ndarray]
    states: Any


def run(
    algorithm: SamplingAlgorithm, rng_key: jax.Array, states: Any, num_steps: int, **options: Any
) -> Run:
    """Run chains from `states`, whose leaves have a leading axis of chains, and keep all draws."""
    check_count("num_steps", num_steps)
    layout = lay_out(len(jax.tree.leaves(states)[0]), shared=True)
    task = Task(algorithm, rng_key, layout)
    chunks = list(draws(task, layout.spread(states), num_steps, **options))
    join = lambda *x: np.swapaxes(np.concatenate(x), 0, 1)
    values, stats = jax.tree.map(join, *((c.values, c.stats) for c in chunks))
    return Run(values, stats, layout.collect(chunks[-1].carry))
