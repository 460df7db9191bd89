"""Parallel tempering of a kernel on a discrete space, itself such a kernel.

To temper a target is to bend it, after it was bent by the history: what is evaluated at a state
depends neither on theta nor on the temperature, so that swaps and moves of theta cost nothing.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from blackjax.base import SamplingAlgorithm

from srmc.kernels.discrete._sitewise import SiteAlgorithm, SiteInfo, Transition
from srmc.kernels.discrete.space import Space
from srmc.kernels.discrete.view import Local, View
from srmc.kernels.swaps import swapped
from srmc.types import (
    Array,
    Bool,
    Float,
    Int,
    KernelState,
    LogDensity,
    PRNGKey,
    Scalar,
)


class TemperedState(NamedTuple):
    """The state of all levels of a tempered chain on a discrete space.

    position, local
        Of the cold chain: its position, and what is known about the target there.
    levels
        The states of the kernel at all temperatures, coldest first.
    replica
        The number, at each level, of the replica that is there now; swaps exchange them.
    step
        The number of steps taken.
    """

    position: Array
    local: Local
    levels: KernelState
    replica: Int[Array, " level"]
    step: Int[Array, ""]


class TemperedInfo(NamedTuple):
    """What a tempered step on a discrete space did.

    inner_info
        The reports of the kernel at all temperatures.
    swap_rate
        The probability of a swap of each two neighbours, whether or not it was their turn.
    is_finite
        Whether the proposals of all levels had finite log densities.
    evaluations
        The evaluations of all levels.
    """

    inner_info: SiteInfo
    swap_rate: Float[Array, " pair"]
    is_finite: Bool[Array, ""]
    evaluations: Int[Array, ""]

    @property
    def acceptance_rate(self) -> Scalar:
        """The acceptance probability of the cold chain."""
        rate: Scalar = self.inner_info.acceptance_rate[0]
        return rate


@dataclasses.dataclass(frozen=True)
class TemperedAlgorithm(SiteAlgorithm):
    """A tempered kernel on discrete spaces."""

    def repel(
        self, logdensity_fn: LogDensity, space: Space, *args: Any, **options: Any
    ) -> SamplingAlgorithm:
        """The repelled sampler, all of whose levels are bent by the history of the cold one."""
        if "surrogate" in options:
            raise ValueError("surrogate is for kernels that are not tempered; leave it out")
        return super().repel(logdensity_fn, space, *args, **options)


def tempered(algorithm: SiteAlgorithm, heat: Float[Array, " level"]) -> TemperedAlgorithm:
    """The kernel at all temperatures, with swaps after each step."""

    def init(position: Array, view: View) -> TemperedState:
        one = algorithm.init(position, view)
        levels = jax.tree.map(lambda leaf: jnp.stack([leaf] * heat.size), one)
        return _state(levels, jnp.arange(heat.size), jnp.zeros((), int))

    def build_kernel() -> Transition:
        base = algorithm.build_kernel()

        def kernel(
            rng_key: PRNGKey, state: TemperedState, view: View, **arguments: Any
        ) -> tuple[TemperedState, TemperedInfo]:
            move_key, swap_key = jax.random.split(rng_key)
            move = lambda t, key, start: base(key, start, _at(view, t), **arguments)
            keys = jax.random.split(move_key, heat.size)
            levels, info = jax.vmap(move)(heat, keys, state.levels)
            value = jax.vmap(lambda x, local: view.bend(x, local).logdensity)
            values = value(levels.position, levels.local)
            source, rate = swapped(swap_key, heat, values, state.step)
            levels = jax.tree.map(lambda leaf: leaf[source], levels)
            new = _state(levels, state.replica[source], state.step + 1)
            finite, spent = jnp.all(info.is_finite), jnp.sum(info.evaluations)
            return new, TemperedInfo(info, rate, finite, spent)

        return kernel

    name = f"tempered {algorithm.name}"
    parts = algorithm.guide, build_kernel, algorithm.check, init, algorithm.sweeps
    return TemperedAlgorithm(name, *parts)


def _at(view: View, temperature: Scalar) -> View:
    """The view of the target to the power of 1 / temperature."""

    def bend(x: Array, local: Local, site: Int[Array, ""] | None = None) -> Local:
        bent, t = view.bend(x, local, site), temperature.astype(x.dtype)
        guide = None if bent.guide is None else bent.guide / t
        return bent._replace(logdensity=bent.logdensity / t, guide=guide)

    return view._replace(bend=bend)


def _state(levels: KernelState, replica: Array, step: Array) -> TemperedState:
    position, local = jax.tree.map(lambda leaf: leaf[0], (levels.position, levels.local))
    return TemperedState(position, local, levels, replica, step)
