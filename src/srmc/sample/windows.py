"""Warm-up of chains in the program that later samples them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from blackjax.base import SamplingAlgorithm
from jax.tree_util import Partial

from srmc._programs import Code, parted, pinned, remembered
from srmc._progress import Show
from srmc.models.problem import Problem
from srmc.sample.devices import lay_out
from srmc.sample.loop import Carry, Parameters, Recorded, Task, chunks, start
from srmc.sample.plan import Plan
from srmc.sample.stop import Stop
from srmc.sample.task import dim_of, first_of, named_values, plain_builder, unconstrained
from srmc.sample.tune import Tuned, Tuner, rule
from srmc.sample.tune.continuous import RECIPES, Continuous
from srmc.sample.tune.windows import first_parameters, found_parameters, windowed
from srmc.types import Position, PRNGKey

SHARING = ("nuts", "hmc")  # kernels that find their own step size; others use a proxy


def is_shared(plan: Plan, dim: int) -> bool:
    """Whether warm-up and sampling run one program: plain chains, all of which are tuned."""
    alone = plan.is_plain and plan.repellence is None
    few = plan.num_together <= rule.NUM_PILOTS and plan.metric == "diag"
    return few and plan.kernel in SHARING and (alone or plan.rebalances(dim))


def _task(
    problem: Problem,
    plan: Plan,
    tuner: Tuner,
    kernel: dict[str, Any],
    positions: Position,
    rng_key: PRNGKey,
) -> Task:
    """The task of running the kernel with these parameters; one program for all of them."""
    code, data = parted(problem.logdensity_fn)
    build, given = _builder(tuner, code), Parameters(kernel, data)
    record: Callable[[Parameters, Any], Recorded] = unconstrained
    if not plan.rebalances(dim_of(positions)):
        # All names of a draw, not what they are computed from in the end.
        named = Partial(named_values, problem.values, plan.keep.statistics)
        code, data = parted(pinned(named, first_of(positions)))
        record, given = _recorder(code, plan.keep.base), given._replace(values=data)
    layout = lay_out(plan.num_together, shared=False)
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
    acceptance = tuner.target_acceptance or RECIPES[str(tuner.kernel)].acceptance
    build = plain_builder(tuner, code)

    def with_windows(given: Parameters) -> SamplingAlgorithm:
        plain = lambda own: build(given._replace(kernel=own))
        return windowed(plain, acceptance)(given.kernel)

    return with_windows


class Adapting(NamedTuple):
    """Chains whose warm-up has come to step `done`.

    draws, scores
        Those of the last stretch, (chain, draw, d), if it was asked to record them.
    spent
        The gradients so far, over all chains.
    """

    task: Task
    states: Carry
    num_steps: int
    done: int = 0
    spent: int = 0
    draws: np.ndarray | None = None
    scores: np.ndarray | None = None


def adapting(
    problem: Problem,
    plan: Plan,
    tuner: Tuner,
    rng_key: PRNGKey,
    positions: Position,
    num_steps: int | None = None,
) -> Adapting:
    """Chains at the beginning of a warm-up by windows, of `num_steps` if not of all."""
    count = plan.num_warmup if num_steps is None else num_steps
    first = first_parameters(dim_of(positions), count, plan.num_warmup)
    task = _task(problem, plan, tuner, first, positions, rng_key)
    return Adapting(task, start(task, rng_key, positions), count)


def go_on(
    chains: Adapting, plan: Plan, until: int, stop: Stop, show: Show, after: int | None = None
) -> Adapting:
    """Go on with the warm-up to a step, with what is recorded from step `after` on, if not None."""
    layout, states = chains.task.layout, chains.states
    spent, parts = np.zeros(sum(map(len, layout.chains)), int), []
    done = chains.done
    for chunk in chunks(chains.task, states, until, first=done, room=plan.num_draws):
        stop.wait_for(())
        show("warm-up", chunk.done, plan.num_warmup)
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
    found: Position = layout.of_all_processes(layout.collect(chains.states).position)
    return found


def adapted(chains: Adapting, plan: Plan, tuner: Tuner) -> Tuned:
    """What was found: the median step size and the mean metric."""
    layout = chains.task.layout
    mine = layout.collect(chains.states)
    found = mine.position, mine.windows.step_size, mine.windows.inverse_mass_matrix
    last, steps, metrics = layout.of_all_processes(jax.tree.map(np.asarray, found))
    step_size = np.median(steps) if plan.step_size is None else plan.step_size
    return Tuned(
        positions=last,
        parameters={
            "step_size": np.asarray(step_size, steps.dtype),
            "inverse_mass_matrix": np.mean(metrics, axis=0),
        },
        loop=tuner.no_loop,
        gradients=chains.spent,
        extra_gradients=0,
    )


def sampling_task(
    problem: Problem, plan: Plan, tuner: Tuner, tuned: Tuned, rng_key: PRNGKey
) -> Task:
    """The task of sampling with what was found, by the same program."""
    found = found_parameters(tuned.parameters, plan.num_warmup)
    task = _task(problem, plan, tuner, found, tuned.positions, rng_key)
    return task._replace(thin=plan.keep.thin)
