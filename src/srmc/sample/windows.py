"""Warm-up of chains in the program that later samples them."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from blackjax.base import SamplingAlgorithm
from jax.tree_util import Partial

from srmc._programs import Code, parted, pinned, remembered
from srmc._progress import Show
from srmc.models.problem import Problem
from srmc.sample.devices import lay_out
from srmc.sample.loop import Parameters, Recorded, Task, chunks, start
from srmc.sample.plan import Plan
from srmc.sample.stop import Stop
from srmc.sample.task import dim_of, first_of, named_values, plain_builder, unconstrained
from srmc.sample.tune import Tuned, Tuner, rule
from srmc.sample.tune.continuous import RECIPES, Continuous
from srmc.sample.tune.windows import first_parameters, found_parameters, windowed
from srmc.types import Position, PRNGKey

SHARING = ("nuts", "hmc")  # which warm up by themselves, not by another kernel


def is_shared(plan: Plan, dim: int) -> bool:
    """Whether warm-up and sampling run one program: plain chains, all of which are tuned."""
    alone = plan.is_plain and plan.repellence is None
    few = plan.num_chains <= rule.NUM_PILOTS and plan.metric == "diag"
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
    layout = lay_out(plan.num_chains, shared=False)
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
    first = first_parameters(dim_of(positions), plan.num_warmup)
    task = _task(problem, plan, tuner, first, positions, rng_key)
    layout, states = task.layout, start(task, rng_key, positions)
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
    task = _task(problem, plan, tuner, found, tuned.positions, rng_key)
    return task._replace(thin=plan.keep.thin)
