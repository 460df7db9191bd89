"""Runs many settings and replicates of a sampler in one compiled program, block by block."""

import functools
import time
from collections.abc import Callable
from typing import NamedTuple, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from blackjax.base import SamplingAlgorithm

from srmc.repel import RepelInfo, RepelState
from srmc.sample import in_order
from srmc.types import Array, ArrayLike, Float, Int, PRNGKey, PyTree
from srmc_studies.paper._progress import OnBlock, no_report

Setting = TypeVar("Setting")  # a tree of numbers
Number: TypeAlias = float  # a number of a setting, which is traced
Kept: TypeAlias = dict[str, Array]
Fold: TypeAlias = Callable[[Kept, Setting, RepelState, RepelInfo, Int[Array, ""]], Kept]

# For short runs, where compiling is what takes the time.
_LIGHT: dict[str, str | int] = {"xla_backend_optimization_level": 0}


class Plan(NamedTuple):
    """The number of blocks, the steps per block, and how to compile and report.

    `light` compiles without optimisation, for short runs that mostly wait for the compiler.
    """

    num_blocks: int
    block: int
    light: bool = False
    on_block: OnBlock = no_report


class Trial(NamedTuple):
    """The size of an experiment, and its seed.

    `steps` is the number of steps per chain, burn-in included, counted as the paper does: an HMC
    transition counts as its number of leapfrog steps.
    """

    steps: int
    replicates: int
    blocks: int
    seed: int
    light: bool = False

    def plan(self, on_block: OnBlock, leapfrogs: int = 1) -> Plan:
        """The same in transitions of `leapfrogs` leapfrog steps."""
        return Plan(self.blocks, self.steps // leapfrogs // self.blocks, self.light, on_block)


class Blocks(NamedTuple):
    """What was kept of each block, with axes (setting, replicate, block, ...).

    `seconds` is the processor time of one step of one chain, without compilation.
    """

    kept: dict[str, np.ndarray]
    seconds: float


def run(
    build: Callable[[Setting], SamplingAlgorithm],
    settings: PyTree[Float[ArrayLike, " setting"]],
    starts: Float[ArrayLike, "setting replicate d"],
    rng_key: PRNGKey,
    plan: Plan,
    *,
    empty: Kept,
    fold: Fold[Setting],
) -> Blocks:
    """Run `build(setting)` for every setting and replicate.

    Each block begins with `empty`, to which `fold(kept, setting, state, info, n)` is applied after
    each step n, counted from 1. A replicate has the same random numbers under every setting.
    """
    starts = jnp.asarray(starts)
    keys = jax.random.split(rng_key, starts.shape[1])

    def start(setting: Setting, position: Float[Array, " d"]) -> RepelState:
        state: RepelState = build(setting).init(position)
        return state

    def advance(
        setting: Setting, state: RepelState, key: PRNGKey, first: Int[Array, ""]
    ) -> tuple[RepelState, Kept]:
        algorithm = build(setting)

        def one(
            carry: tuple[RepelState, Kept], n: Int[Array, ""]
        ) -> tuple[tuple[RepelState, Kept], None]:
            state, kept = carry
            state, info = algorithm.step(jax.random.fold_in(key, n), state)
            return (state, fold(kept, setting, state, info, n + 1)), None

        return jax.lax.scan(one, (state, empty), first + jnp.arange(plan.block))[0]

    def over_chains(
        function: Callable[..., object], *axes: tuple[int | None, int | None]
    ) -> jax.stages.Wrapped:
        inner = jax.vmap(function, [a[1] for a in axes])
        outer = jax.vmap(inner, [a[0] for a in axes])
        return jax.jit(outer, compiler_options=compiler_options(plan.light))

    states = over_chains(start, (0, None), (0, 0))(settings, starts)
    program = over_chains(advance, (0, None), (0, 0), (None, 0), (None, None))
    compiled = program.lower(settings, states, keys, 0).compile()
    kept, seconds = [], 0.0
    for n in range(plan.num_blocks):
        began = time.process_time()
        states, more = compiled(settings, states, keys, n * plan.block)
        kept.append(jax.tree.map(np.asarray, more))  # waits for the program to end
        seconds += time.process_time() - began
        plan.on_block(n + 1)
    steps = plan.num_blocks * plan.block * starts.shape[0] * starts.shape[1]
    return Blocks(jax.tree.map(lambda *x: np.stack(x, axis=2), *kept), seconds / steps)


def averages(
    build: Callable[[Setting], SamplingAlgorithm],
    settings: PyTree[Float[ArrayLike, " setting"]],
    starts: Float[ArrayLike, "setting replicate d"],
    rng_key: PRNGKey,
    plan: Plan,
    record: Callable[[RepelState, RepelInfo], Kept],
) -> Blocks:
    """Run as `run` does, and keep the averages of `record(state, info)` over each block."""

    def fold(
        kept: Kept, setting: Setting, state: RepelState, info: RepelInfo, n: Int[Array, ""]
    ) -> Kept:
        new = record(state, info)
        return {name: kept[name] + new[name] / plan.block for name in kept}

    def first_record(setting: Setting, start: Float[Array, " d"]) -> Kept:
        algorithm = build(setting)
        return record(*algorithm.step(jax.random.key(0), algorithm.init(start)))

    first = jax.tree.map(lambda x: x[0], settings)
    shapes = jax.eval_shape(first_record, first, jnp.asarray(starts)[0, 0])
    empty = {name: jnp.zeros(x.shape) for name, x in shapes.items()}
    return run(build, settings, starts, rng_key, plan, empty=empty, fold=fold)


@functools.cache
def compiler_options(light: bool) -> dict[str, str | int]:
    """The compiler options that this backend understands: all of them, or none."""
    wanted: dict[str, str | int] = in_order() | (_LIGHT if light else {})
    try:
        jax.jit(lambda: 0, compiler_options=wanted).lower().compile()
    except Exception:  # another backend, or a version of XLA without these options
        return {}
    return wanted
