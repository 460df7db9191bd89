"""A kernel that adapts itself by Stan's windows until it is told not to.

Warm-up and sampling then are one program, which is compiled once.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from blackjax.adaptation.mass_matrix import mass_matrix_adaptation
from blackjax.adaptation.step_size import dual_averaging_adaptation
from blackjax.adaptation.window_adaptation import build_schedule
from blackjax.base import SamplingAlgorithm

from srmc.repel.state import RepelInfo, RepelState
from srmc.sample.tune.tuner import Parameters
from srmc.types import Array, Feature, Float, Int, KernelState, Position, PRNGKey, PyTree

FIRST_STEP = 1.0


class Windows(NamedTuple):
    """The averaging of the step size, and the estimate of the metric; see BlackJAX."""

    averaging: PyTree[Array]
    metric: PyTree[Array]

    @property
    def step_size(self) -> Float[Array, "*chain"]:
        """The step size that the adaptation found."""
        return jnp.exp(self.averaging.log_step_size_avg)

    @property
    def inverse_mass_matrix(self) -> Float[Array, "*chain d"]:
        """The diagonal metric that it found."""
        found: Array = self.metric.inverse_mass_matrix
        return found


class AdaptingState(NamedTuple):
    """The state of a chain, and that of its adaptation."""

    chain: RepelState
    windows: Windows

    @property
    def position(self) -> Position:
        return self.chain.position

    @property
    def logdensity(self) -> Float[Array, ""]:
        return self.chain.logdensity

    @property
    def theta(self) -> Feature:
        return self.chain.theta

    @property
    def alpha(self) -> Float[Array, ""]:
        return self.chain.alpha

    @property
    def step(self) -> Int[Array, ""]:
        return self.chain.step

    @property
    def inner_state(self) -> KernelState:
        return self.chain.inner_state


def first_parameters(dim: int, num_steps: int, most: int | None = None) -> dict[str, Any]:
    """The parameters of a warm-up of so many steps; its schedule has room for a power of 2.

    One program serves for all lengths up to `most`.
    """
    schedule = np.array(build_schedule(num_steps), np.int32).reshape(num_steps, 2)
    room = 1 << ((most or num_steps) - 1).bit_length()
    real = jnp.zeros(()).dtype
    return {
        "step_size": np.asarray(FIRST_STEP, real),
        "inverse_mass_matrix": np.ones(dim, real),
        "adapts": np.asarray(True),
        "schedule": np.pad(schedule, ((0, room - num_steps), (0, 0))),
    }


def found_parameters(parameters: Parameters, num_steps: int) -> dict[str, Any]:
    """The parameters of the run after a warm-up of so many steps, in the same shapes."""
    found = {k: np.asarray(v) for k, v in parameters.items()}
    like = first_parameters(found["inverse_mass_matrix"].size, num_steps)
    found = {k: v.astype(like[k].dtype) for k, v in found.items()}
    return like | found | {"adapts": np.asarray(False)}


def windowed(
    build: Callable[[Parameters], SamplingAlgorithm], acceptance: float
) -> Callable[[dict[str, Any]], SamplingAlgorithm]:
    """From these parameters to the kernel that `build` makes of a step size and a metric.

    While it adapts, each chain has its own, as in BlackJAX's `window_adaptation`.
    """
    begin_step, update_step, final_step = dual_averaging_adaptation(acceptance)
    begin_metric, update_metric, final_metric = mass_matrix_adaptation()

    def update(windows: Windows, stage: Array, position: Position, rate: Array) -> Windows:
        averaging = update_step(windows.averaging, rate)
        metric = jax.lax.cond(
            stage[0] == 1, lambda m: update_metric(m, position), lambda m: m, windows.metric
        )
        learned = Windows(averaging, metric)
        close = lambda w: _like(
            w, Windows(begin_step(final_step(w.averaging)), final_metric(w.metric))
        )
        closed: Windows = jax.lax.cond(stage[1] == 1, close, lambda w: w, _like(windows, learned))
        return closed

    def with_parameters(own: dict[str, Any]) -> SamplingAlgorithm:
        kernel = lambda step_size, metric: build(
            {"step_size": step_size, "inverse_mass_matrix": metric}
        )

        def init(position: Position, rng_key: PRNGKey | None = None) -> AdaptingState:
            fixed = kernel(own["step_size"], own["inverse_mass_matrix"])
            metric = begin_metric(own["inverse_mass_matrix"].size)
            start = Windows(begin_step(FIRST_STEP), metric)
            return AdaptingState(fixed.init(position, rng_key), jax.tree.map(_strong, start))

        def step(rng_key: PRNGKey, state: AdaptingState) -> tuple[AdaptingState, RepelInfo]:
            windows, adapts = state.windows, own["adapts"]
            step_size = jnp.exp(windows.averaging.log_step_size)
            algorithm = kernel(
                jnp.where(adapts, step_size, own["step_size"]),
                jnp.where(adapts, windows.inverse_mass_matrix, own["inverse_mass_matrix"]),
            )
            chain, info = algorithm.step(rng_key, state.chain)
            stage = own["schedule"][jnp.minimum(state.step, len(own["schedule"]) - 1)]
            rate = jnp.nan_to_num(info.acceptance_rate)
            windows = jax.lax.cond(
                adapts, lambda w: update(w, stage, chain.position, rate), lambda w: w, windows
            )
            return AdaptingState(chain, windows), info

        return SamplingAlgorithm(init, step)

    return with_parameters


def _strong(x: Any) -> Array:
    """A number as an array of the current precision, as which it can be carried in a loop."""
    is_whole = jnp.issubdtype(jnp.result_type(x), jnp.integer)
    return jnp.asarray(x, (jnp.zeros((), int) if is_whole else jnp.zeros(())).dtype)


def _like(old: Windows, new: Windows) -> Windows:
    """The new state in the types of the old one."""
    out: Windows = jax.tree.map(lambda a, b: jnp.asarray(b, a.dtype), old, new)
    return out
