"""From what a run kept to its result: rebalanced, named, described, and precise enough."""

import dataclasses
import functools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from srmc._attempt import attempt
from srmc._programs import over_rows, pinned
from srmc._progress import Show
from srmc._versions import versions
from srmc.kernels.discrete.sites import Sites
from srmc.models.problem import Problem
from srmc.rebalance.batched import NUMBERS_AT_ONCE, ROWS_AT_ONCE, Batched
from srmc.rebalance.rebalance import Rebalanced, Run, complaints, moved, rebalance_parts
from srmc.rebalance.report import Report, as_record, nothing
from srmc.rebalance.resample import resample
from srmc.results.kept import Kept
from srmc.results.result import Result
from srmc.results.trouble import troubles
from srmc.sample.learning import described, in_model
from srmc.sample.precision import Aim, Look, look_at, missed
from srmc.sample.running import Begun
from srmc.sample.task import Call, dim_of, first_of, named_values, unraveller
from srmc.sample.tune import Tuned
from srmc.sample.tune.discrete import Discrete
from srmc.sample.tune.kernels import recipe_of
from srmc.types import Array, LogDensity, Position

Unravel = Callable[[Any], Position]
Changed = tuple[np.ndarray, dict[str, np.ndarray], list[Report]]


class How(NamedTuple):
    """How a run is rebalanced."""

    pooled: bool  # whether one map serves all chains
    exact: bool  # whether the kernel leaves the target invariant, as far as is known
    statistics: Any = None  # function of a draw's values that `Keep` has
    # From a log density on a discrete space to its features; None on a continuous one.
    sites: Callable[[LogDensity], Sites] | None = None

    @staticmethod
    def of(call: Call) -> "How":
        """As a plan says."""
        sites = call.tuner.sites if isinstance(call.tuner, Discrete) else None
        exact = recipe_of(call.plan.kernel).is_exact
        return How(call.plan.shared_history, exact, call.plan.keep.statistics, sites)


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
        Batched("the gradient", score, x),
        Batched("the log density", density, x),
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
    features = {name: phi.astype(x.dtype) for name, phi in found.features.items()}
    return chosen, features, [found.report]


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
    return jax.grad(lambda v: logdensity_fn(unravel(v)))(v)


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


class Ending(NamedTuple):
    """From what was kept of a run to its result, at each of its lengths."""

    call: Call
    begun: Begun
    lengths: tuple[int, ...]
    began: float  # when, in seconds

    def result(self, aim: Aim | None) -> Result:
        """The first result that is as precise as was asked for, or the last one."""
        seen: list[Look] = []
        for kept, done in self.begun.kept:
            told: list[str] = []
            end = functools.partial(self.at, kept, done)
            then = "the result has what the chains kept, and nothing else"
            whole = attempt("the end of the run", end, None, then, told)
            result = self._bare(kept, done, told) if whole is None else whole
            if aim is None or result.interrupted:
                break
            look = attempt(
                "the summary",
                functools.partial(look_at, result, aim),
                None,
                "it is not known whether target_error was reached, so that the run ended",
                result.about["warnings"],
            )
            if look is None:
                break
            seen.append(look)
            if look.met:
                break
        if aim is not None:
            result.about["settings"]["target_error"] = aim.errors
            result.about["looks"] = [look._asdict() for look in seen]
            if seen and not result.interrupted:
                result.about["warnings"] += missed(seen[-1], aim)
        return result

    def _bare(self, kept: Kept, done: int, told: list[str]) -> Result:
        """What was kept of a run whose end failed."""
        self.call.stop.at_once = False
        about = {"settings": {"model": self.call.problem.name}, "num_draws": done, "warnings": told}
        return Result(kept, about, interrupted=self.call.stop.signal is not None)

    def at(self, kept: Kept, done: int) -> Result:
        """The result of what was kept so far."""
        call, (inner, coordinates, tuned, _) = self.call, self.begun
        stop, thin = call.stop, call.plan.keep.thin
        length = next(n for n in self.lengths if n // thin >= done)
        plan = dataclasses.replace(call.plan, num_samples=length)
        reports: list[Report] = []
        known: list[str] = []
        stop.at_once = True
        if plan.rebalances(dim_of(tuned.positions)):
            last = call.show if stop.signal is None else stop.show  # a stop does not wait for this
            first = first_of(tuned.positions)
            kept, reports, known = rebalance_run(inner, How.of(call), kept, first, last)
            if coordinates is not None:
                kept = in_model(coordinates, kept)
        elif plan.is_plain:
            kept = kept._replace(base=kept.draws)
        stop.at_once = False
        seconds = time.perf_counter() - self.began
        about = about_run(call._replace(plan=plan), tuned, done, seconds)
        about["coordinates"] = described(coordinates)
        result = Result(
            kept=kept,
            about=about | {"rebalancing": [as_record(report) for report in reports]},
            shared_history=plan.shared_history,
            interrupted=done < plan.num_draws or stop.signal is not None,
            labels=call.problem.labels,
            problem=call.problem,
        )
        return diagnosed(result, known)


def diagnosed(result: Result, known: list[str]) -> Result:
    """The result with its warnings: the known ones and the ones from diagnostics."""
    result.about["warnings"] = known
    known += attempt(
        "diagnostics",
        lambda: troubles(result),
        [],
        "it is not known whether the chains have mixed",
        known,
    )
    return result


def about_run(call: Call, tuned: Tuned, done: int, seconds: float) -> dict[str, Any]:
    """How a run was made, and what it cost."""
    plan, tuner = call.plan, call.tuner
    loops = tuned.loop is not tuner.no_loop and bool(tuner.is_on(tuned.loop))
    measured = tuner.describe(tuned.loop) if loops else {}
    for name in ("step_size", "path_length"):
        if name in tuned.parameters:
            measured[name] = jnp.asarray(tuned.parameters[name])
    return {
        "settings": {"model": call.problem.name} | plan.settings(),
        "controlled": plan.controls,
        "measured": {k: float(x) for k, x in measured.items()},
        "versions": versions(),
        "double_precision": jnp.zeros(()).dtype == "float64",
        "num_draws": done,
        "steps": done * plan.keep.thin,
        "seconds": round(seconds, 3),
        "gradients_of_warmup": int(np.asarray(tuned.gradients)),
    }
