"""Many settings and replicates of a sampler in one compiled program, run block by block."""

import functools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

PyTree = Any

# One part of a program after the other; see the page on scaling.
_IN_ORDER: dict[str, Any] = {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"}
# For short runs, where compiling is what takes the time.
_LIGHT = {"xla_backend_optimization_level": 0}


class Blocks(NamedTuple):
    """What was kept of each block, (setting, replicate, block, ...), and the time of a step.

    `seconds` is the processor time of one step of one chain, compiling left out.
    """

    kept: PyTree
    seconds: float


def run(
    build: Callable[[Any], Any],
    settings: PyTree,
    starts: Any,
    rng_key: jax.Array,
    *,
    num_blocks: int,
    block: int,
    empty: PyTree,
    fold: Callable[..., PyTree],
    light: bool = False,
    on_block: Callable[[int], None] = lambda n: None,
) -> Blocks:
    """Run `build(setting)` from starts (setting, replicate, ...), for each setting and replicate.

    `fold(kept, setting, state, info, n)` is applied after each step n, counted from 1, beginning
    with `empty` in each block. A replicate has the same random numbers under every setting.
    """
    starts = jnp.asarray(starts)
    keys = jax.random.split(rng_key, starts.shape[1])

    def advance(setting, state, key, first):
        algorithm = build(setting)

        def one(carry, n):
            state, kept = carry
            state, info = algorithm.step(jax.random.fold_in(key, n), state)
            return (state, fold(kept, setting, state, info, n + 1)), None

        return jax.lax.scan(one, (state, empty), first + jnp.arange(block))[0]

    def over_chains(function, *axes):
        inner = jax.vmap(function, [a[1] for a in axes])
        return jax.jit(jax.vmap(inner, [a[0] for a in axes]), compiler_options=_options(light))

    begin = over_chains(lambda s, x: build(s).init(x), (0, None), (0, 0))
    states = begin(settings, starts)
    program = over_chains(advance, (0, None), (0, 0), (None, 0), (None, None))
    compiled = program.lower(settings, states, keys, 0).compile()
    kept, seconds = [], 0.0
    for n in range(num_blocks):
        began = time.process_time()
        states, more = jax.block_until_ready(compiled(settings, states, keys, n * block))
        seconds += time.process_time() - began
        kept.append(jax.tree.map(np.asarray, more))
        on_block(n + 1)
    steps = num_blocks * block * starts.shape[0] * starts.shape[1]
    return Blocks(jax.tree.map(lambda *x: np.stack(x, axis=2), *kept), seconds / steps)


def averages(
    build: Callable[[Any], Any],
    settings: PyTree,
    starts: Any,
    rng_key: jax.Array,
    *,
    block: int,
    record: Callable[[Any, Any], PyTree],
    **options: Any,
) -> Blocks:
    """As `run`, with the averages of `record(state, info)` over each block."""

    def fold(kept, setting, state, info, n):
        return jax.tree.map(lambda a, b: a + b / block, kept, record(state, info))

    def shape(setting, start):
        algorithm = build(setting)
        state, info = algorithm.step(jax.random.key(0), algorithm.init(start))
        return record(state, info)

    first = jax.tree.map(lambda x: x[0], settings)
    shapes = jax.eval_shape(shape, first, jnp.asarray(starts)[0, 0])
    empty = jax.tree.map(lambda x: jnp.zeros(x.shape), shapes)
    return run(build, settings, starts, rng_key, block=block, empty=empty, fold=fold, **options)


@functools.cache
def _options(light: bool) -> dict[str, Any]:
    """Compiler options, where the backend has them."""
    wanted = _IN_ORDER | (_LIGHT if light else {})
    try:
        jax.jit(lambda: 0, compiler_options=wanted).lower().compile()
    except Exception:  # of a backend or a version that does not know them
        return {}
    return wanted
