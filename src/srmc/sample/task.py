"""From a tuned kernel to a task: the repelled kernel, and what is kept of its draws."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from blackjax.base import SamplingAlgorithm
from jax.flatten_util import ravel_pytree
from jax.tree_util import Partial

from srmc._programs import Code, parted, pinned, remembered
from srmc._progress import Show
from srmc.models.problem import Problem
from srmc.repel.kernel import caches
from srmc.repel.state import RepelState
from srmc.repel.strength import Strength
from srmc.sample.devices import lay_out, mesh_of
from srmc.sample.loop import ALL_CHAINS, CHAINS, Parameters, Recorded, Task
from srmc.sample.moments import centre_of, recorder
from srmc.sample.plan import Plan
from srmc.sample.stop import Stop
from srmc.sample.tune import Tuned, Tuner, rule
from srmc.sample.tune.measure import warn_of_offset
from srmc.sample.tune.tuner import Alpha
from srmc.types import Array, Position, PRNGKey


class Call(NamedTuple):
    """A call of `srmc.sample`: how which problem is sampled, and who watches."""

    problem: Problem
    plan: Plan
    tuner: Tuner
    seconds: float  # time between two commits to a checkpoint
    show: Show
    stop: Stop


def make_task(call: Call, tuned: Tuned, rng_key: PRNGKey) -> Task:
    """The task of running the kernel on all chains and keeping what was asked for."""
    problem, plan, tuner = call.problem, call.plan, call.tuner
    code, data = parted(problem.logdensity_fn)
    given = Parameters(tuned.parameters, data)
    if plan.rebalances(dim_of(tuned.positions)):
        layout = lay_out(plan.num_together, False, data)
        build = plain_builder(tuner, code)
        return Task(build, given, rng_key, layout, unconstrained, plan.keep.thin)
    named = Partial(named_values, problem.values, plan.keep.statistics)
    values, more = parted(pinned(named, first_of(tuned.positions)))
    given = given._replace(values=more)
    if plan.controls:
        layout = lay_out(plan.num_together, False, data)
        given = given._replace(loop=centre_of(named, tuned.positions))
        return Task(
            plain_builder(tuner, code), given, rng_key, layout, recorder(values), plan.keep.thin
        )
    axis = ALL_CHAINS if mesh_of(data) is None else CHAINS
    way = _way(plan, tuner, tuned, axis)
    repellence = way.repellence(tuner, tuned.loop)
    layout = lay_out(plan.num_together, repellence.get("history_axis") is not None, data)
    is_tuned = not plan.is_replaced and "surrogate" in repellence
    with_features = is_tuned and plan.keep.keep == "draws" and plan.keep.thin == 1
    with_features = with_features and plan.repellence is None
    room = rule.FEATURE_NUMBERS // (plan.num_draws * plan.num_chains) if with_features else 0

    has_base = is_tuned or (plan.repellence or {}).get("frame") == "moving"
    with_base = plan.keep.base or (has_base and plan.keep.keep == "draws" and plan.space is None)
    given = given._replace(loop=tuned.loop)
    record = _recorder(tuner, values, with_base, min(rule.FEATURES_PER_DRAW, room))
    # Functions of the user may read what has changed since; then no program is remembered.
    is_own = plan.repellence is not None or isinstance(plan.alpha, Strength)
    build = (_repelled if is_own else _repelled_builder)(tuner, code, way)
    return Task(build, given, rng_key, layout, record, plan.keep.thin)


@remembered
def plain_builder(tuner: Tuner, code: Code) -> Callable[[Parameters], SamplingAlgorithm]:
    """From parameters to the plain kernel; the same function for the same model."""
    return lambda given: tuner.build(code(given.density), given.kernel, alpha=0.0)


class _Way(NamedTuple):
    """How a run is repelled, but for the numbers of its loop, which are arguments of programs."""

    num_samples: int
    alpha: Alpha
    # Keywords of `repel` that replace all of the tuner's, or None.
    chosen: tuple[tuple[str, Any], ...] | None
    more: tuple[tuple[str, Any], ...] = ()  # keywords added to the tuner's

    def repellence(self, tuner: Tuner, loop: Any) -> dict[str, Any]:
        """The keywords of `repel`."""
        if self.chosen is not None:
            return dict(self.chosen)
        return tuner.repellence(loop, self.num_samples, self.alpha) | dict(self.more)


def _way(plan: Plan, tuner: Tuner, tuned: Tuned, chains: Any) -> _Way:
    """As it was asked for, and else as the tuner chose; `chains` is the axis of all chains."""
    axis = {"history_axis": chains if plan.shared_history else None}
    given = plan.repellence or {}
    way = _Way(plan.num_samples, plan.alpha, None)
    if plan.is_replaced:
        chosen = axis | given | ({} if plan.is_auto else {"alpha": plan.alpha})
        return way._replace(chosen=tuple(chosen.items()))
    is_on = bool(tuner.is_on(tuned.loop))
    if not plan.is_auto:
        is_on = isinstance(plan.alpha, Strength) or float(plan.alpha) > 0
    if plan.is_auto or is_on:
        warn_of_offset(tuned.loop, plan.is_auto)
    if not is_on:
        return way._replace(chosen=(("alpha", 0.0),))
    more = axis | {k: v for k, v in given.items() if k != "alpha" or plan.is_auto}
    return way._replace(more=tuple(more.items()))


def _repelled(tuner: Tuner, code: Code, way: _Way) -> Callable[[Parameters], SamplingAlgorithm]:
    """From parameters to the repelled kernel."""

    def build(given: Parameters) -> SamplingAlgorithm:
        repellence = way.repellence(tuner, given.loop)
        return tuner.build(code(given.density), given.kernel, **repellence)

    return build


_repelled_builder = remembered(_repelled)


@remembered
def _recorder(
    tuner: Tuner, code: Code, with_base: bool, room: int
) -> Callable[[Parameters, RepelState], Recorded]:
    """The function that records a state: values, base values, and features if there is room."""

    def record(given: Parameters, state: RepelState) -> Recorded:
        values = code(given.values)
        base = values(state.inner_state.position) if with_base else None
        features = tuner.features(state, given.loop) if room else None
        fits = features is not None and features.size <= room
        return Recorded(values(state.position), base, features if fits else None)

    return record


def first_of(positions: Position) -> Position:
    """The first of positions (chain, ...)."""
    return jax.tree.map(lambda x: x[0], positions)


def unraveller(first: Position) -> Callable[[Array], Position]:
    """From a vector to a position of this structure; the same function for the same structure."""
    leaves, structure = jax.tree.flatten(jax.tree.map(jnp.asarray, first))
    return _unraveller(structure, tuple((leaf.shape, str(leaf.dtype)) for leaf in leaves))


@remembered
def _unraveller(
    structure: Any, shapes: tuple[tuple[tuple[int, ...], str], ...]
) -> Callable[[Array], Position]:
    zeros = [jnp.zeros(shape, dtype) for shape, dtype in shapes]
    return ravel_pytree(jax.tree.unflatten(structure, zeros))[1]


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


def named_values(values: Any, statistics: Any, position: Position) -> dict[str, Array]:
    """A draw's values by name, in the user's space."""
    found: dict[str, Array] = values(position)
    if statistics is None:
        return found
    return found | {str(k).replace("/", "."): x for k, x in statistics(found).items()}
