"""From a tuned kernel to a task: the repelled kernel, and what is kept of its draws."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from blackjax.base import SamplingAlgorithm
from jax.flatten_util import ravel_pytree

from srmc._checks import outputs_of
from srmc._programs import Code, parted, remembered
from srmc._types import Array, Float, Position, PRNGKey
from srmc._versions import versions
from srmc.core.kernel import caches
from srmc.core.state import RepelState
from srmc.core.strength import Strength
from srmc.models.labels import check_labels
from srmc.models.problem import Problem, name_leaves
from srmc.run.describe import describe
from srmc.run.devices import lay_out
from srmc.run.loop import ALL_CHAINS, Parameters, Recorded, Task
from srmc.run.plan import Plan
from srmc.store.probe import probe
from srmc.tune import Tuned, Tuner, rule
from srmc.tune.measure import warn_of_offset


def make_task(problem: Problem, plan: Plan, tuner: Tuner, tuned: Tuned, rng_key: PRNGKey) -> Task:
    """The task of running the kernel on all chains and keeping what was asked for."""
    if plan.rebalances(dim_of(tuned.positions)):
        code, data = parted(problem.logdensity_fn)
        given, build = Parameters(tuned.parameters, data), plain_builder(tuner, code)
        layout = lay_out(plan.num_chains, shared=False)
        return Task(build, given, rng_key, layout, unconstrained, plan.keep.thin)
    repellence = _repellence(plan, tuner, tuned)
    repelled = lambda own: tuner.build(problem.logdensity_fn, own, **repellence)
    layout = lay_out(plan.num_chains, shared=repellence.get("history_axis") is not None)
    is_tuned = not plan.is_replaced and "surrogate" in repellence
    with_features = is_tuned and plan.keep.keep == "draws" and plan.keep.thin == 1
    with_features = with_features and plan.repellence is None

    has_base = is_tuned or (plan.repellence or {}).get("frame") == "moving"
    with_base = plan.keep.base or (has_base and plan.keep.keep == "draws" and plan.space is None)

    def record(_: Any, state: RepelState) -> Recorded:
        base = values_of(problem, plan, state.inner_state.position) if with_base else None
        features = _features(plan, tuner.features(state, tuned.loop)) if with_features else None
        return Recorded(values_of(problem, plan, state.position), base, features)

    return Task(repelled, tuned.parameters, rng_key, layout, record, plan.keep.thin)


@remembered
def plain_builder(tuner: Tuner, code: Code) -> Callable[[Parameters], SamplingAlgorithm]:
    """From parameters to the plain kernel; the same function for the same model."""
    return lambda given: tuner.build(code(given.density), given.kernel, alpha=0.0)


def _repellence(plan: Plan, tuner: Tuner, tuned: Tuned) -> dict[str, Any]:
    """The keywords of `repel`: those given, and else those that the tuner chose."""
    axis = {"history_axis": ALL_CHAINS if plan.shared_history else None}
    given = plan.repellence or {}
    if plan.is_replaced:
        return axis | given | ({} if plan.is_auto else {"alpha": plan.alpha})
    is_on = bool(tuner.is_on(tuned.loop))
    if not plan.is_auto:
        is_on = isinstance(plan.alpha, Strength) or float(plan.alpha) > 0
    if plan.is_auto or is_on:
        warn_of_offset(tuned.loop, plan.is_auto)
    if not is_on:
        return {"alpha": 0.0}
    own = tuner.repellence(tuned.loop, plan.num_samples, plan.alpha) | axis
    return own | {k: v for k, v in given.items() if k != "alpha" or plan.is_auto}


def dim_of(positions: Position) -> int:
    """The number of coordinates of a position, of positions (chain, ...)."""
    return sum(leaf[0].size for leaf in jax.tree.leaves(positions))


def unconstrained(_: Any, state: RepelState) -> Recorded:
    """The position, and the score that the kernel cached."""
    inner = state.inner_state
    found = {"position": ravel_pytree(inner.position)[0]}
    if caches(inner, "logdensity_grad"):
        found["score"] = ravel_pytree(inner.logdensity_grad)[0]
    return Recorded(found)


def values_of(problem: Problem, plan: Plan, position: Position) -> dict[str, Array]:
    """A draw's values by name, in the user's space."""
    values = problem.values(position)
    more = plan.keep.statistics
    return values if more is None else values | more(values)


def _features(plan: Plan, features: Float[Array, " k"] | None) -> Float[Array, " k"] | None:
    """The features, or None if they are too many to keep."""
    if features is None or features.size > rule.FEATURES_PER_DRAW:
        return None
    total = features.size * plan.num_draws * plan.num_chains
    return features if total <= rule.FEATURE_NUMBERS else None


def check_names(problem: Problem, plan: Plan, positions: Position) -> None:
    """Raise if two values of a draw have one name, or one that a summary could not tell apart."""
    first = jax.tree.map(lambda x: x[0], positions)
    values = jax.eval_shape(problem.values, first)
    if problem.values is name_leaves and len(values) < len(jax.tree.leaves(first)):
        raise ValueError(
            "initial_position must have leaves with different names, but two of "
            f"{jax.tree.map(jnp.shape, first)} would have the same, one of {', '.join(values)}"
        )
    names, shapes = list(map(str, values)), dict(values)
    if plan.keep.statistics is not None:
        more = outputs_of("statistics", plan.keep.statistics, values, of="values by name")
        if not isinstance(more, dict) or not all(hasattr(x, "shape") for x in more.values()):
            raise TypeError(f"statistics must return a dict of arrays by name, got {more!r}")
        if taken := [name for name in more if name in values]:
            raise ValueError(
                f"statistics must return new names, got {', '.join(taken)}, which the model has"
            )
        names += list(more)
        shapes |= more
    check_labels(problem.labels, {name: x.shape for name, x in shapes.items()})
    for name in names:
        if not isinstance(name, str) or not name or not name.isprintable():
            raise ValueError(f"names of values must be printable text, got {name!r}")
        if name.endswith("]") and name.rpartition("[")[0] in names:
            raise ValueError(
                f"names of values must differ from those of entries, got {name!r} beside "
                f"{name.rpartition('[')[0]!r}"
            )


def identity(problem: Problem, plan: Plan, positions: Position) -> dict[str, Any]:
    """What a checkpoint records about its run; a run that resumes it must match."""
    first = jax.tree.map(lambda x: x[0], positions)
    shapes = jax.eval_shape(lambda x: values_of(problem, plan, x), first)

    def seen(position: Position) -> dict[str, Array]:
        kept = values_of(problem, plan, position)
        mixed = lambda x: jnp.sum(jnp.ravel(x) * jnp.cos(jnp.arange(x.size, dtype=float)))
        density = {"the model's log density": problem.logdensity_fn(position)}
        return density | {f"what is kept of {k}": mixed(jnp.asarray(x)) for k, x in kept.items()}

    return {
        "settings": plan.settings()
        | {
            "own_kernel": None if isinstance(plan.kernel, str) else describe(plan.kernel.algorithm),
            "rebalances": plan.rebalances(dim_of(positions)),
            "processes": jax.process_count(),
            "double_precision": jnp.zeros(()).dtype == "float64",
        },
        "shapes": {k: list(x.shape) for k, x in shapes.items()},
        "probe": probe(seen, positions),
        "versions": versions(),
    }
