"""Rebalance a whole run: one smooth map for all draws, so that every Stein feature has mean 0."""

import functools
import sys
import warnings
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, overload

import jax.numpy as jnp
import numpy as np

from srmc._checks import as_numbers, check_flag, check_number, check_option
from srmc._programs import keep_programs, pinned
from srmc._progress import Show, progress_bar, quiet
from srmc.metrics.errors import autocorrelation_time
from srmc.rebalance.as_chains import as_chains
from srmc.rebalance.assumption import check_assumption
from srmc.rebalance.batched import Batched, is_fresh
from srmc.rebalance.choose import AT_FIRST, DECLINED, FORMS, PER_TIME, Budget, Part, choose, filled
from srmc.rebalance.coordinates import coordinates
from srmc.rebalance.given import like, take
from srmc.rebalance.report import Report, left, nothing, residual
from srmc.rebalance.solve import apply
from srmc.types import Array, Float

ScoreFn = Callable[[Float[Array, " d"]], Float[Array, " d"]]
DensityFn = Callable[[Float[Array, " d"]], Float[Array, ""]]
FEWEST = 4  # draws per chain, below which nothing is done


@overload
def rebalance(
    draws: Any,
    score_fn: ScoreFn,
    scores: Any = ...,
    pooled: bool = ...,
    form: str = ...,
    logdensity_fn: DensityFn | None = ...,
    *,
    cost: float | None = ...,
    report: Literal[False] = ...,
    progress: bool = ...,
) -> Any: ...


@overload
def rebalance(
    draws: Any,
    score_fn: ScoreFn,
    scores: Any = ...,
    pooled: bool = ...,
    form: str = ...,
    logdensity_fn: DensityFn | None = ...,
    *,
    cost: float | None = ...,
    report: Literal[True],
    progress: bool = ...,
) -> tuple[Any, Report | list[Report]]: ...


def rebalance(
    draws: Any,
    score_fn: ScoreFn,
    scores: Any = None,
    pooled: bool = True,
    form: str = "auto",
    logdensity_fn: DensityFn | None = None,
    *,
    cost: float | None = None,
    report: bool = False,
    progress: bool = True,
) -> Any:
    """Move finished draws so that means, covariances, quantiles and tails come closer.

    Stein features, such as the score, have mean 0 under the target. Over a run of finite length
    their averages are not quite 0, and the errors of all estimates go with them. This finds one
    smooth map, close to the identity, under which the averages are 0, and applies it to all draws.

    Parameters
    ----------
    draws
        Draws of any sampler, of unbounded parameters: an array (chain, draw, d) or (draw, d); a
        data frame with a column per coordinate; or arrays (chain, draw, ...) by name, in a
        dictionary or in the posterior of an ArviZ trace.
    score_fn
        The gradient of the log density at one draw, a JAX function. A draw is a vector, or has its
        variables by name; it is an array if the only variable is called x. The function is
        evaluated at all draws, up to seven times, and up to six times more for each simpler form
        that has to be tried.
    scores
        The scores at the draws, in their shape, if they are known; they save one evaluation.
    pooled
        Whether one map serves all chains, or each chain gets its own.
    form
        The fields along which draws move. "auto" starts with the richest that dimensions and
        draws allow, and takes fewer if the iteration does not converge: "products" (as "full", and
        products of two coordinates along each), "full" (affine maps and Hermite polynomials of each
        coordinate up to order 5; "auto" takes them up to 9 near a Gaussian), "affine", "diagonal"
        (as "full", with scalings of the whitened coordinates in place of all linear maps), "scale",
        "shift".
    logdensity_fn
        The log density at one draw. With it, the assumption is checked more sharply (jumps, walls
        and wrong gradients are found), and no draw is moved to where it is not finite.
    cost
        The number of gradients that the draws took, all chains together, if it is known. Then at
        most 30% of it is spent here, and only where that is expected to lower the errors more than
        as many further draws would. Near a Gaussian iterations may take 60% of it, and very near
        it all; checks, and log densities at moved draws, come on top.
    report
        Whether to return what was done, too: a `Report`, or one per chain if not `pooled`.
    progress
        Whether to show a progress bar on a terminal.

    Returns
    -------
    The moved draws, in the form and precision of `draws`. With form="auto" they stay as they were,
    with a warning, where the features cannot have mean 0 under the target that `score_fn` is of.
    """
    keep_programs()
    taken = take("draws", draws)
    given = taken.array
    x = as_chains("draws", given)
    check_option("form", form, ("auto", *FORMS))
    for name, value in (("pooled", pooled), ("report", report), ("progress", progress)):
        check_flag(name, value)
    density, known, one = None, None, jnp.asarray(x[0, 0])
    if logdensity_fn is not None:
        own = taken.of_vector("logdensity_fn", logdensity_fn, returns_draw=False)
        density = Batched("logdensity_fn", pinned(own, one), x, ())
    own = taken.of_vector("score_fn", score_fn, returns_draw=True)
    score = Batched("score_fn", pinned(own, one), x, x.shape[2:])
    if cost is not None:
        check_number("cost", cost, above=0)
    if scores is not None:
        known = as_numbers("scores", like("scores", scores, taken)).reshape(x.shape)
    with progress_bar(progress and sys.stderr.isatty()) as show:
        parts = rebalance_parts(Run(x, known, score, density, cost), pooled, form, show=show)
    few = [f"the draws stay as they were: {p.report.reason}" for p in parts if x.shape[1] < FEWEST]
    for text in few[:1] or complaints(parts):
        warnings.warn(text, stacklevel=2)
    result = taken.restore(moved(given, parts))
    reports = [part.report for part in parts]
    return (result, reports[0] if pooled else reports) if report else result


class Run(NamedTuple):
    """Draws in chains, their scores if they are known, and the functions of a draw.

    cost
        The number of gradients that the draws took, if it is known.
    every
        One in so many draws is scored to begin with, if scores are not known.
    """

    chains: Float[np.ndarray, "chain draw d"]
    scores: Float[np.ndarray, "chain draw d"] | None
    score: Batched
    density: Batched | None
    cost: float | None = None
    every: int = 1


def rebalance_parts(
    run: Run, pooled: bool, form: str = "auto", *, exact: bool = True, show: Show = quiet
) -> list["Rebalanced"]:
    """Rebalance all chains together, or each by itself; see `check_assumption` for `exact`."""
    count = 1 if pooled else len(run.chains)
    if run.scores is None and run.density is not None and run.chains.shape[1] >= FEWEST:
        # Of sticky chains, some draws per correlation time tell as much as all.
        time = float(np.min(autocorrelation_time(run.chains)))
        run = run._replace(every=max(1, int(time / PER_TIME)))
    parts = []
    for n, chains in enumerate(np.array_split(run.chains, count)):
        show("rebalancing", n, count)
        scores = None if run.scores is None else run.scores[n : n + len(chains)]
        cost = None if run.cost is None else run.cost / count
        one = run._replace(chains=chains, scores=scores, cost=cost)
        parts.append(_rebalanced(one, form, exact))
    show("rebalancing", count, count)
    return parts


def moved(given: np.ndarray, parts: list["Rebalanced"]) -> np.ndarray:
    """The draws after their moves, which are added to what was given: its precision is kept."""
    move = np.concatenate([part.moves for part in parts]).reshape(given.shape)
    result: np.ndarray = given + move.astype(given.dtype)
    return result


class Rebalanced(NamedTuple):
    """The moves of draws under one map, what was done, and the draws that were scored first."""

    moves: Float[np.ndarray, "chain draw d"]
    report: Report
    part: Part


def _rebalanced(run: Run, form: str, exact: bool) -> Rebalanced:
    """The draws of some chains under one map."""
    chains, score, density = run.chains, run.score, run.density
    few = chains.shape[1] < FEWEST
    if few or (form == "auto" and _is_dear(run)):
        scores = np.full_like(chains, np.nan) if run.scores is None else run.scores
        reason = f"there are fewer than {FEWEST} draws per chain" if few else DECLINED
        return Rebalanced(np.zeros_like(chains), nothing(reason), Part(chains, scores))
    spent = _meter(score, density)
    part = _scored(run)
    usable = np.all(np.isfinite(part.s), axis=1)
    checked = functools.cache(
        lambda: check_assumption(part.chains, part.scores, score, density, exact)
    )
    x, found, why = chains.reshape(-1, chains.shape[2]), None, "too few draws have a finite score"
    if np.sum(usable) >= 2:
        whole = part if len(part.x) == len(x) else filled(chains, part, run.every)
        usable = np.all(np.isfinite(whole.s), axis=1)
        at = coordinates(whole.x[usable], whole.s[usable])
        last = 0 if density is None else np.sum(is_fresh(x)) / 2  # to see that no draw left
        budget = Budget(run.cost, lambda: spent().cost, float(last))
        is_sound = lambda: not any(f.failed for f in checked())
        found, why = choose(at, form, whole, score, density is not None, budget, is_sound)
    findings = () if why == DECLINED else checked()  # which takes gradients
    if found is None:
        why = "; ".join(f.text for f in findings if f.failed) or why
        report = nothing(why, findings, int(np.sum(~usable)))
        report = report._replace(every=run.every, **spent()._asdict())
        return Rebalanced(np.zeros_like(chains), report, part)
    solved = found.solved
    moved = at.restore(apply(at, solved.weights, at.standardise(x)))
    stays = solved.stays if density is None else ~np.isfinite(density(moved))
    if len(usable) == len(x):
        stays = stays | ~usable
    out = np.where(stays[:, None], x, moved)
    moves = (out - x) / at.scale
    before, after, noise = (residual(w) for w in (solved.before, solved.after, solved.noise))
    report = Report(
        form=str(found.form),
        reason=why,
        iterations=solved.iterations,
        before=before,
        after=after,
        left=left(before, after, noise),
        typical_move=float(np.sqrt(np.mean(moves**2))),
        largest_move=float(np.max(np.abs(moves))),
        every=run.every,
        stayed=int(np.sum(np.all(out == x, axis=1))),
        findings=findings,
        expected=found.expected,
        **spent()._asdict(),
    )
    return Rebalanced((out - x).reshape(chains.shape), report, part)


class _Spent(NamedTuple):
    """What was evaluated since a meter was set."""

    gradients: int
    densities: int

    @property
    def cost(self) -> float:
        return self.gradients + self.densities / 2


def _meter(score: Batched, density: Batched | None) -> Callable[[], _Spent]:
    count = lambda: _Spent(score.count, 0 if density is None else density.count)
    began = count()
    return lambda: _Spent(*(now - then for now, then in zip(count(), began, strict=True)))


def _is_dear(run: Run) -> bool:
    """Whether scoring the draws to begin with would take too large a part of what they took."""
    if run.scores is not None or run.cost is None:
        return False
    some = run.chains[:, :: run.every].reshape(-1, run.chains.shape[2])
    return bool(np.sum(is_fresh(some)) > AT_FIRST * run.cost)


def _scored(run: Run) -> Part:
    """The draws whose scores are known, or those that are scored now."""
    if run.scores is not None:
        return Part(run.chains, run.scores)
    chains = run.chains[:, :: run.every]
    return Part(chains, run.score(chains.reshape(-1, chains.shape[2])).reshape(chains.shape))


def complaints(parts: list[Rebalanced]) -> list[str]:
    """What a user must know about rebalancing, with the chains that it is about."""
    found: list[str] = []
    reports = [part.report for part in parts]
    num_draws = sum(part.moves[..., 0].size for part in parts)
    of = lambda found: "" if len(reports) == 1 else f" of chain {', '.join(map(str, found))}"
    if parts[0].moves.shape[1] < FEWEST:  # of a run that was stopped at once, say
        return found
    stay = [n for n, one in enumerate(reports) if one.form == "none"]
    odd = [n for n in stay if reports[n].reason != DECLINED]
    if odd:
        found.append(f"the draws{of(odd)} stay as they were: {reports[odd[0]].reason}")
    failures = {
        n: [f.text for f in one.findings if f.failed]
        for n, one in enumerate(reports)
        if n not in stay and any(f.failed for f in one.findings)
    }
    if failures:
        first = "; ".join(next(iter(failures.values())))
        found.append(f"rebalanced draws{of(failures)} may be off the target: {first}")
    stayed = sum(r.stayed for r in reports if r.form != "none")
    if stayed > 0.01 * num_draws:
        found.append(
            f"{stayed} of {num_draws} draws stayed as they were, since their moves left the target "
            "or had no score; rebalance draws of unbounded parameters"
        )
    return found
