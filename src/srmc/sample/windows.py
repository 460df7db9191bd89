"""Warm-up by Stan's windows in the program that later samples, which is compiled once."""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from blackjax.adaptation.mass_matrix import mass_matrix_adaptation
from blackjax.adaptation.step_size import dual_averaging_adaptation
from blackjax.adaptation.window_adaptation import build_schedule
from blackjax.base import SamplingAlgorithm
from jax.tree_util import Partial

from srmc._programs import Code, parted, pinned, remembered
from srmc.repel.state import RepelInfo, RepelState
from srmc.sample.devices import lay_out
from srmc.sample.loop import Carry, Parameters, Recorded, Task, chunks, start
from srmc.sample.plan import Plan
from srmc.sample.task import Call, dim_of, first_of, named_values, plain_builder, unconstrained
from srmc.sample.tune import Tuned, Tuner, rule
from srmc.sample.tune.continuous import Continuous
from srmc.sample.tune.kernels import recipe_of
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
        return self.metric.inverse_mass_matrix


class AdaptingState(NamedTuple):
    """The state of a chain and of its adaptation."""

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
    """The parameters of a warm-up of `num_steps`; its schedule is padded to a power of 2.

    One program serves for all lengths up to `most`.
    """
    schedule = _schedule(num_steps)
    room = 1 << ((most or num_steps) - 1).bit_length()
    real = jnp.zeros(()).dtype
    return {
        "step_size": np.asarray(FIRST_STEP, real),
        "inverse_mass_matrix": np.ones(dim, real),
        "adapts": np.asarray(True),
        "schedule": np.pad(schedule, ((0, room - num_steps), (0, 0))),
    }


@functools.lru_cache(2)
def _schedule(num_steps: int) -> np.ndarray:
    """The stage of each step, and whether its window closes."""
    return np.array(build_schedule(num_steps), np.int32).reshape(num_steps, 2)


def found_parameters(parameters: Mapping[str, Any], num_steps: int) -> dict[str, Any]:
    """The parameters of the run after a warm-up of `num_steps`, in the same shapes."""
    found = {k: np.asarray(v) for k, v in parameters.items()}
    like = first_parameters(found["inverse_mass_matrix"].size, num_steps)
    found = {k: v.astype(like[k].dtype) for k, v in found.items()}
    return like | found | {"adapts": np.asarray(False)}


def windowed(
    build: Callable[[dict[str, Any]], SamplingAlgorithm], acceptance: float
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
        return jax.lax.cond(stage[1] == 1, close, lambda w: w, _like(windows, learned))

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
    return jax.tree.map(lambda a, b: jnp.asarray(b, a.dtype), old, new)


def is_shared(plan: Plan, dim: int) -> bool:
    """Whether warm-up and sampling run one program: plain chains, all of which are tuned."""
    alone = plan.is_plain and plan.repellence is None
    few = plan.num_together <= rule.NUM_PILOTS and plan.metric == "diag"
    return few and recipe_of(plan.kernel).adapts_itself and (alone or plan.rebalances(dim))


def _task(call: Call, kernel: dict[str, Any], positions: Position, rng_key: PRNGKey) -> Task:
    """The task of running the kernel with these parameters; one program for all of them."""
    plan, (code, data) = call.plan, parted(call.problem.logdensity_fn)
    layout = lay_out(plan.num_together, False, data)
    build, given = _builder(call.tuner, code), Parameters(kernel, data)
    record: Callable[[Parameters, Any], Recorded] = unconstrained
    if not plan.rebalances(dim_of(positions)):
        # All names of a draw, even if they are computed from others.
        named = Partial(named_values, call.problem.values, plan.keep.statistics)
        code, data = parted(pinned(named, first_of(positions)))
        record, given = _recorder(code, plan.keep.base), given._replace(values=data)
    return Task(build, given, rng_key, layout, record)


@remembered
def _recorder(code: Code, with_base: bool) -> Callable[[Parameters, Any], Recorded]:
    def record(given: Parameters, state: Any) -> Recorded:
        found = code(given.values)(state.position)
        return Recorded(found, found if with_base else None)

    return record


@remembered
def _builder(tuner: Tuner, code: Code) -> Callable[[Parameters], SamplingAlgorithm]:
    assert isinstance(tuner, Continuous)
    acceptance = tuner.acceptance
    build = plain_builder(tuner, code)

    def with_windows(given: Parameters) -> SamplingAlgorithm:
        plain = lambda own: build(given._replace(kernel=own))
        return windowed(plain, acceptance)(given.kernel)

    return with_windows


class Adapting(NamedTuple):
    """Chains whose warm-up has come to step `done`."""

    task: Task
    states: Carry
    done: int = 0
    spent: int = 0  # gradients so far, over all chains
    # Those of the last stretch, (chain, draw, d), if it was asked to record them.
    draws: np.ndarray | None = None
    scores: np.ndarray | None = None


def adapting(call: Call, rng_key: PRNGKey, positions: Position, num_steps: int) -> Adapting:
    """Chains at the beginning of a window adaptation of `num_steps`."""
    first = first_parameters(dim_of(positions), num_steps, call.plan.num_warmup)
    task = _task(call, first, positions, rng_key)
    return Adapting(task, start(task, rng_key, positions))


def go_on(call: Call, chains: Adapting, until: int, after: int | None = None) -> Adapting:
    """Go on with the warm-up to a step, with what is recorded from step `after` on, if not None."""
    layout, states, done = chains.task.layout, chains.states, chains.done
    spent, parts = np.zeros(sum(map(len, layout.chains)), int), []
    for chunk in chunks(chains.task, states, until, first=done, room=call.plan.num_draws):
        call.stop.wait_for(())
        call.show("warm-up", chunk.done, call.plan.num_warmup)
        states, spent = chunk.carry, spent + chunk.stats.gradients.sum(axis=0)
        if after is not None and chunk.done > after:
            values = chunk.recorded.values
            rows = slice(max(0, after - done), None)
            parts.append([values[name][rows] for name in ("position", "score")])
        done = chunk.done
    total = int(layout.of_all_processes(spent).sum())
    chains = chains._replace(states=states, done=until, spent=chains.spent + total)
    if not parts:
        return chains
    both = (np.concatenate(part).swapaxes(0, 1) for part in zip(*parts, strict=True))
    draws, scores = layout.of_all_processes(tuple(both))
    return chains._replace(draws=draws, scores=scores)


def positions_of(chains: Adapting) -> Position:
    """Where all chains are."""
    layout = chains.task.layout
    return layout.of_all_processes(layout.collect(chains.states).position)


def adapted(call: Call, chains: Adapting) -> Tuned:
    """What was found: the median step size and the mean metric."""
    layout, given = chains.task.layout, call.plan.step_size
    mine = layout.collect(chains.states)
    found = mine.position, mine.windows.step_size, mine.windows.inverse_mass_matrix
    last, steps, metrics = layout.of_all_processes(jax.tree.map(np.asarray, found))
    step_size = np.asarray(np.median(steps) if given is None else given, steps.dtype)
    parameters = {"step_size": step_size, "inverse_mass_matrix": np.mean(metrics, axis=0)}
    return Tuned(last, parameters, call.tuner.no_loop, chains.spent, 0)


def sampling_task(call: Call, tuned: Tuned, rng_key: PRNGKey) -> Task:
    """The task of sampling with what was found, by the same program."""
    found = found_parameters(tuned.parameters, call.plan.num_warmup)
    return _task(call, found, tuned.positions, rng_key)._replace(thin=call.plan.keep.thin)
