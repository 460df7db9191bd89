"""Rebalance a whole run: estimate what the scores tell, and match the draws to it."""

import sys
import warnings
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, overload

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from srmc._checks import as_numbers, check_flag
from srmc._programs import keep_programs, pinned
from srmc._progress import Show, progress_bar, quiet
from srmc.coordinates import learn_coordinates
from srmc.coordinates.whiten import Rows
from srmc.rebalance import rule
from srmc.rebalance.as_chains import as_chains
from srmc.rebalance.batched import Batched, is_fresh
from srmc.rebalance.check import check_assumption
from srmc.rebalance.choose import Bank
from srmc.rebalance.errors import active_features
from srmc.rebalance.estimate import estimate
from srmc.rebalance.features import Scored, scored
from srmc.rebalance.gains import gains
from srmc.rebalance.given import like, take
from srmc.rebalance.learned import Turned
from srmc.rebalance.match import match
from srmc.rebalance.report import Expected, Report, chosen, expected, is_nothing, nothing
from srmc.rebalance.support import has_edge, is_outside
from srmc.types import Array, Bool, Float

ScoreFn = Callable[[Float[Array, " d"]], Float[Array, " d"]]
DensityFn = Callable[[Float[Array, " d"]], Float[Array, ""]]
LOOKED_AT = 16  # draws whose scores are evaluated again, one by one, if a check fails
GONE = {
    "form": "what is estimated, and how, is chosen by one criterion",
    "cost": "gradients are evaluated only at the draws and by the checks",
}


@overload
def rebalance(
    draws: Any,
    score_fn: ScoreFn | None = ...,
    *,
    scores: Any = ...,
    logdensity_fn: DensityFn | None = ...,
    pooled: bool = ...,
    report: Literal[False] = ...,
    progress: bool = ...,
) -> Any: ...


@overload
def rebalance(
    draws: Any,
    score_fn: ScoreFn | None = ...,
    *,
    scores: Any = ...,
    logdensity_fn: DensityFn | None = ...,
    pooled: bool = ...,
    report: Literal[True],
    progress: bool = ...,
) -> tuple[Any, Report | list[Report]]: ...


def rebalance(
    draws: Any,
    score_fn: ScoreFn | None = None,
    *,
    scores: Any = None,
    logdensity_fn: DensityFn | None = None,
    pooled: bool = True,
    report: bool = False,
    progress: bool = True,
    **gone: Any,
) -> Any:
    """Move finished draws so that averages over them have smaller errors.

    Stein features, such as the score, have mean 0 under the target. Regressions on them estimate
    means, second moments and marginal distribution functions with smaller errors than averages.
    The draws are moved, as little as possible, so that they have the estimated values.

    Parameters
    ----------
    draws
        Draws of any sampler, of unbounded parameters: an array (chain, draw, d) or (draw, d); a
        data frame with a column per coordinate; or arrays (chain, draw, ...) by name, in a
        dictionary or in the posterior of an ArviZ trace.
    score_fn
        A JAX function that returns the gradient of the log density at one draw: a vector, or a
        dictionary of variables; an array if the only variable is called x. It is evaluated once per
        draw unless `scores` are given. If neither is given, `logdensity_fn` is differentiated.
    scores
        The scores at the draws, in their shape, as NUTS, HMC and MALA compute them.
    logdensity_fn
        The log density at one draw. With it the checks also find jumps, walls and wrong gradients,
        and no draw is moved to where the density is not finite.
    pooled
        Whether one map serves all chains, or each chain gets its own.
    report
        Whether to return a `Report` as well, or one per chain if not `pooled`.
    progress
        Whether to show a progress bar on a terminal.

    Returns
    -------
    The moved draws, in the form and precision of `draws`. If a check of the features fails, they
    are unchanged, with a warning.
    """
    keep_programs()
    refuse("rebalance", gone)
    taken = take("draws", draws)
    given = taken.array
    x = as_chains("draws", given)
    for name, value in (("pooled", pooled), ("report", report), ("progress", progress)):
        check_flag(name, value)
    density, score, known, one = None, None, None, jnp.asarray(x[0, 0])
    if logdensity_fn is not None:
        own = taken.of_vector("logdensity_fn", logdensity_fn, returns_draw=False)
        density = Batched("logdensity_fn", pinned(own, one), x, ())
    if score_fn is not None:
        own = taken.of_vector("score_fn", score_fn, returns_draw=True)
        score = Batched("score_fn", pinned(own, one), x, x.shape[2:])
    elif logdensity_fn is not None:
        score = Batched("the gradient", pinned(gradient_of(own), one), x, x.shape[2:])
    if scores is not None:
        known = as_numbers("scores", like("scores", scores, taken)).reshape(x.shape)
    elif score is None:
        raise ValueError("score_fn, scores or logdensity_fn must be given, got None of the three")
    with progress_bar(progress and sys.stderr.isatty()) as show:
        parts = rebalance_parts(Run(x, known, score, density), pooled, show=show)
    few = [f"the draws are unchanged: {p.report.reason}" for p in parts if x.shape[1] < rule.FEWEST]
    for text in few[:1] or complaints(parts, given.dtype):
        warnings.warn(text, stacklevel=2)
    result = taken.restore(moved(given, parts))
    reports = [part.report for part in parts]
    return (result, reports[0] if pooled else reports) if report else result


def gradient_of(density: DensityFn) -> ScoreFn:
    """Its gradient, as a function that is the same whenever the density is."""
    return Partial(_gradient, density)


def _gradient(density: DensityFn, x: Array) -> Array:
    gradient: Array = jax.grad(density)(x)
    return gradient


def refuse(function: str, gone: dict[str, Any]) -> None:
    """Refuse keywords, those of older versions with the reason for which they are gone."""
    for name in gone:
        why = f": {GONE[name]}" if name in GONE else ""
        raise TypeError(f"{function} has no keyword {name}{why}")


class Run(NamedTuple):
    """Draws in chains, their scores if they are known, and the functions of a draw.

    `learns` says whether draws may be moved in learned coordinates, which `srmc.sample` has already
    tried in warm-up.
    """

    chains: Float[np.ndarray, "chain draw d"]
    scores: Float[np.ndarray, "chain draw d"] | None
    score: Batched | None
    density: Batched | None = None
    learns: bool = True


class Rebalanced(NamedTuple):
    """The moves of draws under one map, what was done, and the draws with their scores.

    The latter are in learned coordinates if draws were moved there.
    """

    moves: Float[np.ndarray, "chain draw d"]
    report: Report
    chains: Float[np.ndarray, "chain draw d"]
    scores: Float[np.ndarray, "chain draw d"]


def rebalance_parts(
    run: Run, pooled: bool, *, exact: bool = True, show: Show = quiet
) -> list[Rebalanced]:
    """Rebalance all chains together, or each by itself; see `check_assumption` for `exact`."""
    count = 1 if pooled else len(run.chains)
    parts = []
    for n, chains in enumerate(np.array_split(run.chains, count)):
        show("rebalancing", n, count)
        scores = None if run.scores is None else run.scores[n : n + len(chains)]
        parts.append(_rebalanced(run._replace(chains=chains, scores=scores), exact))
    show("rebalancing", count, count)
    return parts


def moved(given: np.ndarray, parts: list[Rebalanced]) -> np.ndarray:
    """The draws after their moves, which are added to what was given: its precision is kept."""
    move = np.concatenate([part.moves for part in parts]).reshape(given.shape)
    result: np.ndarray = given + move.astype(given.dtype)
    return result


def _rebalanced(run: Run, exact: bool) -> Rebalanced:
    """The draws of some chains under one map."""
    chains, dim = run.chains, run.chains.shape[2]
    began = _spent(run)
    if chains.shape[1] < rule.FEWEST:
        scores = np.full_like(chains, np.nan) if run.scores is None else run.scores
        why = f"there are fewer than {rule.FEWEST} draws per chain"
        return Rebalanced(np.zeros_like(chains), nothing(why), chains, scores)
    if run.scores is None:
        assert run.score is not None
        scores = run.score(chains.reshape(-1, dim)).reshape(chains.shape)
    else:
        scores = run.scores
    x, s = chains.reshape(-1, dim), scores.reshape(-1, dim)
    usable, varies = np.all(np.isfinite(s), axis=1), np.ptp(x, axis=0) > 0
    at = scored(x, s) if np.all(usable) and np.all(varies) else None
    findings = check_assumption(chains, scores, run.score, run.density, exact, at)
    if any(finding.failed for finding in findings) and _is_miscompiled(x, s, run.score):
        once_more = _rebalanced(run._replace(scores=None), exact)
        return once_more._replace(report=_with_cost(once_more.report, run, began))
    moves, report = _moves(x, s, usable, varies, at, findings, run.density)
    found = Rebalanced(moves.reshape(chains.shape), report, chains, scores)
    if run.learns and at is not None and not any(finding.failed for finding in findings):
        found = _in_learned(found, run.density, exact) or found
    return found._replace(report=_with_cost(found.report._replace(findings=findings), run, began))


def _in_learned(plain: Rebalanced, density: Batched | None, exact: bool) -> Rebalanced | None:
    """The draws moved in learned coordinates, if these promise smaller errors."""
    coordinates = learn_coordinates(plain.chains, plain.scores)
    if coordinates.is_identity:
        return None
    turned, shape = Turned.by(coordinates), plain.chains.shape
    u, s = turned.forward(*(v.reshape(-1, shape[2]) for v in (plain.chains, plain.scores)))
    chains, scores = u.reshape(shape), s.reshape(shape)
    findings = check_assumption(chains, scores, None, None, exact)
    every = np.ones(len(u), bool), np.ones(shape[2], bool)
    moves, report = _moves(u, s, *every, None, findings, density, turned.inverse)
    if not report.moved:
        return None
    found = Rebalanced(moves.reshape(shape), report, chains, scores)
    new, old = (_expected(plain.chains, part) for part in (found, plain))
    if sum(new) >= sum(old):
        return None
    return found._replace(report=report._replace(coordinates=coordinates, expected=new))


def _expected(x: Float[np.ndarray, "chain draw d"], part: Rebalanced) -> Expected:
    """The gains for the draws themselves, in whatever coordinates they were moved."""
    if not part.report.moved:
        return Expected(1.0, 1.0, 1.0)
    features = active_features(part.chains, part.scores)
    return Expected(*gains({"x": x}, {"x": x + part.moves}, features)["x"])


def _is_miscompiled(x: Rows, s: Rows, score: Batched | None) -> bool:
    """Whether scores change when they are evaluated one by one, which goes on if they do.

    XLA 0.9 has compiled the gradients of squared distances, as in the kernels of Gaussian
    processes, to programs that are wrong by orders of magnitude for 64 draws at once.
    """
    if score is None or score.is_one_by_one:
        return False
    some = np.linspace(0, len(x) - 1, LOOKED_AT).astype(int)
    score.one_by_one()
    again = score(x[some])
    tolerance = 1e-2 * np.maximum(np.std(again, axis=0), np.abs(again))
    return bool(np.mean(np.abs(again - s[some]) > tolerance) > 0)


def _with_cost(report: Report, run: Run, began: tuple[int, int]) -> Report:
    gradients, densities = (now - then for now, then in zip(_spent(run), began, strict=True))
    return report._replace(gradients=gradients, densities=densities)


def _spent(run: Run) -> tuple[int, int]:
    counts = [0 if f is None else f.count for f in (run.score, run.density)]
    return counts[0], counts[1]


def _moves(
    x: np.ndarray,
    s: np.ndarray,
    usable: Bool[np.ndarray, " n"],
    varies: Bool[np.ndarray, " d"],
    at: Scored | None,
    findings: tuple[Any, ...],
    density: Batched | None,
    back: Callable[[Rows], Rows] = lambda x: x,
) -> tuple[np.ndarray, Report]:
    """The moves of draws, and what was done; `back` leads to the coordinates of the density."""
    none = np.zeros_like(x)
    lost = int(np.sum(~usable))
    if np.sum(is_fresh(x) & usable) < rule.FEWEST or not np.any(varies):
        return none, nothing("too few different draws have a finite score", stayed=lost)
    if failed := [f.text for f in findings if f.failed]:
        return none, nothing("; ".join(failed), stayed=lost)
    where = np.ix_(usable, varies)
    try:
        draws = scored(x[where], s[where]) if at is None else at
        found = estimate(draws, Bank.of(draws))
        z = match(draws, found)
    except np.linalg.LinAlgError as error:
        return none, nothing(f"the regressions failed: {error}", stayed=lost)
    if is_nothing(found):
        report = nothing("no regression promises smaller errors than plain averages", stayed=lost)
        return none, report._replace(chosen=chosen(found))
    if not np.all(np.isfinite(z)):
        return none, nothing("the regressions are not finite", stayed=lost)
    moves = none.copy()
    moves[where] = draws.at.scale * (z - draws.z)
    size = (z - draws.z).ravel()
    if density is not None:
        before, after = back(x), back(x + moves)
        left = is_outside(density, before, after)
        if np.all(left) or has_edge(density, before, after, np.flatnonzero(left)):
            why = f"the support has an edge within reach: {np.sum(left)} moves would leave it"
            return none, nothing(why, stayed=lost)
        moves[left], usable = 0.0, usable & ~left
    report = Report(
        moved=True,
        chosen=chosen(found),
        expected=expected(found),
        typical_move=float(np.sqrt(np.mean(size**2))),
        largest_move=float(np.max(np.abs(size))),
        stayed=int(np.sum(~usable)),
    )
    return back(x + moves) - back(x), report


def complaints(parts: list[Rebalanced], dtype: Any = float) -> list[str]:
    """What a user must know about rebalancing, with the chains that it is about.

    `dtype` is the precision of the moved draws.
    """
    found: list[str] = []
    reports = [part.report for part in parts]
    num_draws = sum(part.moves[..., 0].size for part in parts)
    of = lambda found: "" if len(reports) == 1 else f" of chain {', '.join(map(str, found))}"
    if parts[0].moves.shape[1] < rule.FEWEST:  # of a run that was stopped at once, say
        return found
    stay = [n for n, one in enumerate(reports) if not one.moved]
    if stay:
        found.append(f"the draws{of(stay)} are unchanged: {reports[stay[0]].reason}")
    stayed = sum(r.stayed for r in reports if r.moved)
    if stayed > 0.01 * num_draws:
        found.append(
            f"{stayed} of {num_draws} draws are unchanged, since their moves left the target "
            "or had no score; rebalance draws of unbounded parameters"
        )
    if any(_is_coarse(part, dtype) for part in parts):
        found.append(
            "moves are lost in rounding: they are smaller than the steps of floats at these draws. "
            "Use double precision, or subtract the location"
        )
    return found


def _is_coarse(part: Rebalanced, dtype: Any) -> bool:
    size = np.sqrt(np.mean(np.square(part.moves), axis=(0, 1)))
    step = np.spacing(np.max(np.abs(part.chains), axis=(0, 1)).astype(dtype))
    return bool(np.any((size > 0) & (step > size)))
