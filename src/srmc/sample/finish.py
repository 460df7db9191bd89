"""From the plain chain of a run to its rebalanced draws."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from srmc._attempt import attempt
from srmc._programs import over_rows, pinned
from srmc._progress import Show
from srmc.kernels.discrete.sites import Sites
from srmc.models.problem import Problem
from srmc.rebalance.batched import NUMBERS_AT_ONCE, ROWS_AT_ONCE, Batched
from srmc.rebalance.rebalance import Rebalanced, Run, complaints, moved, rebalance_parts
from srmc.rebalance.report import Report, nothing
from srmc.rebalance.resample import resample
from srmc.results.kept import Kept
from srmc.sample.plan import Plan
from srmc.sample.task import named_values, unraveller
from srmc.sample.tune import Tuner
from srmc.sample.tune.continuous import UNADJUSTED
from srmc.sample.tune.discrete import Discrete
from srmc.types import Array, LogDensity, Position

Unravel = Callable[[Any], Position]
Changed = tuple[np.ndarray, dict[str, np.ndarray], list[Report]]


class How(NamedTuple):
    """How a run is rebalanced.

    pooled
        Whether one map serves all chains.
    exact
        Whether the kernel leaves the target invariant, as far as is known.
    statistics
        The function of a draw's values that `Keep` has.
    sites
        From a log density on a discrete space to its features; None on a continuous one.
    """

    pooled: bool
    exact: bool
    statistics: Any = None
    sites: Callable[[LogDensity], Sites] | None = None

    @staticmethod
    def of(plan: Plan, tuner: Tuner) -> "How":
        """As a plan says."""
        sites = tuner.sites if isinstance(tuner, Discrete) else None
        exact = plan.kernel not in UNADJUSTED
        return How(plan.shared_history, exact, plan.keep.statistics, sites)


def rebalance_run(
    problem: Problem, how: How, kept: Kept, first: Position, show: Show
) -> tuple[Kept, list[Report], list[str]]:
    """Rebalance what a run kept, unconstrained draws and their scores; return draws by name.

    On a discrete space, resample them. `first` is some position. There is one report, or one for
    each chain if these do not share a map; the last result is what a user must know.
    """
    assert kept.draws is not None
    unravel = unraveller(first)
    x = kept.draws["position"]
    known: list[str] = []
    way = _moved if how.sites is None else _resampled
    plain: Changed = x, {}, [nothing("rebalancing failed")]
    after, scored, reports = attempt(
        "rebalancing",
        lambda: way(problem, how, kept, unravel, show, known),
        plain,
        "the draws are those of the plain kernel",
        known,
    )
    changed = any(report.moved for report in reports)

    def named() -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        base = _by_name(problem, how, unravel, x)
        return base, _by_name(problem, how, unravel, after) if changed else base

    base, draws = attempt(
        "naming the draws",
        named,
        ({"position": x}, {"position": after}),
        "result.draws has unconstrained vectors, called position",
        known,
    )
    return kept._replace(draws=draws, base=base, scored=scored or None), reports, known


def _moved(
    problem: Problem, how: How, kept: Kept, unravel: Unravel, show: Show, known: list[str]
) -> Changed:
    """The draws moved, the draws and scores that errors are computed from, and reports."""
    assert kept.draws is not None
    x = kept.draws["position"]
    parts = _moved_draws(problem, how, kept, unravel, show)
    known += complaints(parts, x.dtype)
    scored = {
        "position": np.concatenate([p.chains for p in parts]).astype(x.dtype),
        "score": np.concatenate([p.scores for p in parts]).astype(x.dtype),
    }
    return moved(x, parts), scored, [p.report for p in parts]


def _moved_draws(
    problem: Problem, how: How, kept: Kept, unravel: Unravel, show: Show
) -> list[Rebalanced]:
    """The moves of the draws, or none if rebalancing was interrupted or failed."""
    assert kept.draws is not None
    x, scores = kept.draws["position"], kept.draws.get("score")
    density, score = (Partial(f, problem.logdensity_fn, unravel) for f in (_density, _score))
    run = Run(
        np.asarray(x, float),
        None if scores is None else np.asarray(scores, float),
        Batched("the gradient", score, x, x.shape[2:]),
        Batched("the log density", density, x, ()),
        learns=False,
    )
    try:
        return rebalance_parts(run, how.pooled, exact=how.exact, show=show)
    except (KeyboardInterrupt, MemoryError, jax.errors.JaxRuntimeError) as error:
        return [_untouched(run, error)]


def _resampled(problem: Problem, how: How, kept: Kept, unravel: Unravel, *_: Any) -> Changed:
    """The draws that stand for all, the features that they balance, and a report."""
    assert kept.draws is not None
    assert how.sites is not None
    x = kept.draws["position"]
    states = x.reshape(*x.shape[:2], *unravel(x[0, 0]).shape)
    found = resample(how.sites(problem.logdensity_fn), states)
    chosen = x.reshape(-1, x.shape[2])[found.chosen].reshape(x.shape)
    return chosen, {"features": found.phi.astype(x.dtype)}, [found.report]


def _untouched(run: Run, error: BaseException) -> Rebalanced:
    """What stands if rebalancing was interrupted or failed: the plain draws."""
    reason = f"rebalancing ended early, {type(error).__name__} {error}".rstrip()
    gradients = 0 if run.score is None else run.score.count
    report = nothing(reason)._replace(gradients=gradients)
    scores = np.full_like(run.chains, np.nan) if run.scores is None else run.scores
    return Rebalanced(np.zeros_like(run.chains), report, run.chains, scores)


def _density(logdensity_fn: LogDensity, unravel: Unravel, v: Array) -> Array:
    """The log density of a vector."""
    return logdensity_fn(unravel(v))


def _score(logdensity_fn: LogDensity, unravel: Unravel, v: Array) -> Array:
    gradient: Array = jax.grad(lambda v: logdensity_fn(unravel(v)))(v)
    return gradient


def _named(values: Any, statistics: Any, unravel: Unravel, v: Array) -> dict[str, Array]:
    return named_values(values, statistics, unravel(v))


def _by_name(
    problem: Problem, how: How, unravel: Unravel, draws: np.ndarray
) -> dict[str, np.ndarray]:
    """The values of draws (chain, draw, d) by name, in the user's space."""
    rows = draws.reshape(-1, draws.shape[2])
    named = Partial(_named, problem.values, how.statistics, unravel)
    program = over_rows(pinned(named, rows[0]))
    size = max(1, min(ROWS_AT_ONCE, NUMBERS_AT_ONCE // draws.shape[2]))
    padded = np.concatenate([rows, np.repeat(rows[-1:], -len(rows) % size, axis=0)])
    parts = [
        jax.tree.map(np.asarray, program(jnp.asarray(part)))
        for part in np.split(padded, len(padded) // size)
    ]
    join = lambda *v: np.concatenate(v)[: len(rows)].reshape(*draws.shape[:2], *v[0].shape[1:])
    return {name: join(*(part[name] for part in parts)) for name in parts[0]}
