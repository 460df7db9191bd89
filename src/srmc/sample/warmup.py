"""Warm-up of all chains: pilots are tuned, the rest follow, and a checkpoint stores the outcome."""

from typing import Any

import jax
import numpy as np

from srmc._progress import Show, quiet
from srmc.models.problem import Problem
from srmc.sample import windows
from srmc.sample.checkpoint import Checkpoint
from srmc.sample.plan import Plan
from srmc.sample.processes import of_all, together
from srmc.sample.settle import settle
from srmc.sample.stop import Stop
from srmc.sample.task import dim_of
from srmc.sample.tune import Tuned, Tuner, rule, tune
from srmc.sample.tune.continuous import check_step
from srmc.sample.tune.tuner import Alpha
from srmc.types import Position, PRNGKey


def warm_up(
    problem: Problem,
    plan: Plan,
    tuner: Tuner,
    rng_key: PRNGKey,
    positions: Position,
    store: Checkpoint | None,
    stop: Stop,
    show: Show = quiet,
) -> Tuned:
    """Tune the chains, or load the tuned chains from the checkpoint.

    Every process tunes the same pilots on one device, so that all processes agree bit for bit. A
    signal raises KeyboardInterrupt; the run can then be resumed from its start.
    """
    found = None if store is None else together(store.load_warmup)
    is_known = bool(of_all(found is not None).all())
    if found is None or not is_known:
        tuned = _tuned(problem, plan, tuner, rng_key, positions, stop, show)
        found = {
            "positions": _numbered(tuned.positions),
            "parameters": {k: np.asarray(v) for k, v in tuned.parameters.items()},
            "loop": _numbered(tuned.loop),
            "cost": {
                "gradients": np.asarray(tuned.gradients),
                "extra_gradients": np.asarray(tuned.extra_gradients),
            },
        }
        if store is not None:
            outcome = found
            together(lambda: store.save_warmup(outcome))
    like = lambda tree, name: jax.tree.unflatten(jax.tree.structure(tree), found[name].values())
    return Tuned(
        positions=like(positions, "positions"),
        parameters=found.get("parameters", {}),
        loop=like(tuner.no_loop, "loop"),
        gradients=found["cost"]["gradients"],
        extra_gradients=int(found["cost"]["extra_gradients"]),
    )


def _tuned(
    problem: Problem,
    plan: Plan,
    tuner: Tuner,
    rng_key: PRNGKey,
    positions: Position,
    stop: Stop,
    show: Show,
) -> Tuned:
    """Warm up all chains, in the program that samples them if that can be done."""
    if windows.is_shared(plan, dim_of(positions)):
        tuned = windows.adapt(problem, plan, tuner, rng_key, positions, stop, show)
        check_step(tuned.parameters["step_size"])
        return tuned
    pilots, rest = (
        jax.tree.map(lambda x, s=side: x[s], positions)
        for side in (slice(rule.NUM_PILOTS), slice(rule.NUM_PILOTS, None))
    )
    tuned = tune(
        tuner,
        problem.logdensity_fn,
        rng_key,
        pilots,
        num_warmup=plan.num_warmup,
        num_samples=plan.num_samples,
        alpha=_strength(problem, plan, tuner, positions),
        together=plan.num_chains if plan.shared_history else 1,
    )
    show("warm-up", 0, None, f"{plan.num_warmup} steps")  # compiled by now
    stop.wait_for(tuned)
    if "step_size" in tuned.parameters:
        check_step(tuned.parameters["step_size"])
    half = plan.num_warmup // 2
    return settle(tuner, problem.logdensity_fn, rng_key, tuned, rest, half, stop)


def _strength(problem: Problem, plan: Plan, tuner: Tuner, positions: Position) -> Alpha:
    """The strength to tune for: none, if draws are rebalanced or the features are biased."""
    first = jax.tree.map(lambda x: x[0], positions)
    is_open = plan.is_auto and plan.repellence is None
    if plan.rebalances(dim_of(positions)):
        return 0.0
    return 0.0 if is_open and tuner.is_biased(problem.logdensity_fn, first) else plan.alpha


def _numbered(tree: Any) -> dict[str, np.ndarray]:
    return {str(n): np.asarray(x) for n, x in enumerate(jax.tree.leaves(tree))}
