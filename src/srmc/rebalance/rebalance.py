"""Rebalance a whole run: estimate what the scores tell, and match the draws to it."""

import sys
import warnings
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, overload

import jax
import jax.numpy as jnp
import numpy as np

from srmc._checks import as_numbers, check_flag
from srmc._programs import keep_programs, pinned
from srmc._progress import Show, progress_bar, quiet
from srmc.rebalance import rule
from srmc.rebalance.as_chains import as_chains
from srmc.rebalance.batched import Batched, is_fresh
from srmc.rebalance.check import check_assumption
from srmc.rebalance.choose import Bank
from srmc.rebalance.estimate import estimate
from srmc.rebalance.features import scored
from srmc.rebalance.given import like, take
from srmc.rebalance.match import match
from srmc.rebalance.report import Report, chosen, expected, is_nothing, nothing
from srmc.types import Array, Float

ScoreFn = Callable[[Float[Array, " d"]], Float[Array, " d"]]
DensityFn = Callable[[Float[Array, " d"]], Float[Array, ""]]
GONE = {
    "form": "what is estimated, and how, is chosen by one criterion",
    "cost": "no gradients are spent but those at the draws",
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
        score = Batched("the gradient", pinned(jax.grad(own), one), x, x.shape[2:])
    if scores is not None:
        known = as_numbers("scores", like("scores", scores, taken)).reshape(x.shape)
    elif score is None:
        raise ValueError("score_fn, scores or logdensity_fn must be given, got None of the three")
    with progress_bar(progress and sys.stderr.isatty()) as show:
        parts = rebalance_parts(Run(x, known, score, density), pooled, show=show)
    few = [f"the draws are unchanged: {p.report.reason}" for p in parts if x.shape[1] < rule.FEWEST]
    for text in few[:1] or complaints(parts):
        warnings.warn(text, stacklevel=2)
    result = taken.restore(moved(given, parts))
    reports = [part.report for part in parts]
    return (result, reports[0] if pooled else reports) if report else result


def refuse(function: str, gone: dict[str, Any]) -> None:
    """Refuse keywords, those of older versions with the reason for which they are gone."""
    for name in gone:
        why = f": {GONE[name]}" if name in GONE else ""
        raise TypeError(f"{function} has no keyword {name}{why}")


class Run(NamedTuple):
    """Draws in chains, their scores if they are known, and the functions of a draw."""

    chains: Float[np.ndarray, "chain draw d"]
    scores: Float[np.ndarray, "chain draw d"] | None
    score: Batched | None
    density: Batched | None = None


class Rebalanced(NamedTuple):
    """The moves of draws under one map, what was done, and the draws with their scores."""

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
    findings = check_assumption(chains, scores, run.score, run.density, exact)
    moves, report = _moves(chains.reshape(-1, dim), scores.reshape(-1, dim), findings, run.density)
    gradients, densities = (now - then for now, then in zip(_spent(run), began, strict=True))
    report = report._replace(findings=findings, gradients=gradients, densities=densities)
    return Rebalanced(moves.reshape(chains.shape), report, chains, scores)


def _spent(run: Run) -> tuple[int, int]:
    counts = [0 if f is None else f.count for f in (run.score, run.density)]
    return counts[0], counts[1]


def _moves(
    x: np.ndarray, s: np.ndarray, findings: tuple[Any, ...], density: Batched | None
) -> tuple[np.ndarray, Report]:
    """The moves of draws, and what was done beside the checks."""
    none = np.zeros_like(x)
    usable = np.all(np.isfinite(s), axis=1)
    lost = int(np.sum(~usable))
    varies = np.ptp(x, axis=0) > 0
    if failed := [f.text for f in findings if f.failed]:
        return none, nothing("; ".join(failed), stayed=lost)
    if np.sum(is_fresh(x) & usable) < rule.FEWEST or not np.any(varies):
        return none, nothing("too few different draws have a finite score", stayed=lost)
    where = np.ix_(usable, varies)
    try:
        at = scored(x[where], s[where])
        found = estimate(at, Bank(at))
        z = match(at, found)
    except np.linalg.LinAlgError as error:
        return none, nothing(f"the regressions failed: {error}", stayed=lost)
    if is_nothing(found):
        report = nothing("no regression promises smaller errors than plain averages", stayed=lost)
        return none, report._replace(chosen=chosen(found))
    if not np.all(np.isfinite(z)):
        return none, nothing("the regressions are not finite", stayed=lost)
    moves = none.copy()
    moves[where] = at.at.scale * (z - at.z)
    size = (z - at.z).ravel()
    if density is not None:
        left = ~np.isfinite(density(x + moves))
        moves[left], usable = 0.0, usable & ~left
    report = Report(
        moved=True,
        chosen=chosen(found),
        expected=expected(found),
        typical_move=float(np.sqrt(np.mean(size**2))),
        largest_move=float(np.max(np.abs(size))),
        stayed=int(np.sum(~usable)),
    )
    return moves, report


def complaints(parts: list[Rebalanced]) -> list[str]:
    """What a user must know about rebalancing, with the chains that it is about."""
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
    return found
