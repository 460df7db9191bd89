"""Warm-up of chains in the program that later samples them."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from blackjax.base import SamplingAlgorithm

from srmc._programs import remembered
from srmc._progress import Show
from srmc._types import Array, LogDensity, Position, PRNGKey
from srmc.models.problem import Problem
from srmc.run.devices import lay_out
from srmc.run.loop import Recorded, Task, chunks, start
from srmc.run.plan import Plan
from srmc.run.stop import Stop
from srmc.run.task import dim_of, plain_builder, unconstrained
from srmc.tune import Tuned, Tuner, rule
from srmc.tune.continuous import RECIPES
from srmc.tune.windows import first_parameters, found_parameters, windowed

SHARING = ("nuts", "hmc")  # which warm up by themselves, not by another kernel


def is_shared(plan: Plan, dim: int) -> bool:
    """Whether warm-up and sampling run one program: plain chains, all of which are tuned."""
    few = plan.num_chains <= rule.NUM_PILOTS
    alone = plan.is_plain and plan.repellence is None
    return few and plan.kernel in SHARING and (alone or plan.rebalances(dim))


def _record(problem: Problem, plan: Plan, dim: int) -> Callable[[Any], Recorded]:
    """What is kept of a draw: all of its names, or what they are computed from in the end."""
    if plan.rebalances(dim):
        return unconstrained
    return _named(problem.values, plan.keep.statistics, plan.keep.base)


@remembered
def _named(
    values: Callable[[Position], dict[str, Array]],
    statistics: Callable[[dict[str, Array]], dict[str, Array]] | None,
    with_base: bool,
) -> Callable[[Any], Recorded]:
    def record(state: Any) -> Recorded:
        found = values(state.position)
        found = found if statistics is None else found | statistics(found)
        return Recorded(found, found if with_base else None)

    return record


@remembered
def _builder(
    tuner: Tuner, logdensity_fn: LogDensity
) -> Callable[[dict[str, Any]], SamplingAlgorithm]:
    acceptance = RECIPES[tuner.kernel].acceptance
    return windowed(plain_builder(tuner, logdensity_fn), acceptance)


def adapt(
    problem: Problem,
    plan: Plan,
    tuner: Tuner,
    rng_key: PRNGKey,
    positions: Position,
    stop: Stop,
    show: Show,
) -> Tuned:
    """Adapt every chain by windows; then the median step size and the mean metric."""
    layout = lay_out(plan.num_chains, shared=False)
    first = first_parameters(dim_of(positions), plan.num_warmup)
    build = _builder(tuner, problem.logdensity_fn)
    record = _record(problem, plan, dim_of(positions))
    task = Task(build, first, rng_key, layout, record)
    states = start(task, rng_key, positions)
    spent = np.zeros(sum(map(len, layout.chains)), int)
    for chunk in chunks(task, states, plan.num_warmup, room=plan.num_draws):
        stop.wait_for(())
        show("warm-up", chunk.done, plan.num_warmup)
        states, spent = chunk.carry, spent + chunk.stats.gradients.sum(axis=0)
    mine = layout.collect(states)
    found = mine.position, mine.windows.step_size, mine.windows.inverse_mass_matrix, spent
    last, steps, metrics, spent = layout.of_all_processes(jax.tree.map(np.asarray, found))
    step_size = np.median(steps) if plan.step_size is None else plan.step_size
    return Tuned(
        positions=last,
        parameters={
            "step_size": np.asarray(step_size, first["step_size"].dtype),
            "inverse_mass_matrix": np.mean(metrics, axis=0),
        },
        loop=tuner.no_loop,
        gradients=int(spent.sum()),
        extra_gradients=0,
    )


def sampling_task(
    problem: Problem, plan: Plan, tuner: Tuner, tuned: Tuned, rng_key: PRNGKey
) -> Task:
    """The task of sampling with what was found, by the same program."""
    found = found_parameters(tuned.parameters, plan.num_warmup)
    layout = lay_out(plan.num_chains, shared=False)
    build = _builder(tuner, problem.logdensity_fn)
    record = _record(problem, plan, dim_of(tuned.positions))
    return Task(build, found, rng_key, layout, record, plan.keep.thin)
