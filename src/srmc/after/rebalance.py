"""Rebalance a whole run: one smooth map for all draws, so that every Stein feature has mean 0."""

import sys
import warnings
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, overload

import jax.numpy as jnp
import numpy as np

from srmc._checks import as_numbers, check_flag, check_option
from srmc._programs import keep_programs, pinned
from srmc._progress import Show, progress_bar, quiet
from srmc._types import Array, Float
from srmc.after.as_chains import as_chains
from srmc.after.assumption import check_assumption
from srmc.after.batched import Batched
from srmc.after.foresee import regression
from srmc.after.given import like, take
from srmc.after.report import Expected, Report, expect, left, nothing, residual
from srmc.after.solve import Solved, apply, solve
from srmc.after.transport import Coordinates, Form, Rows, coordinates
from srmc.metrics.errors import autocorrelation_time
from srmc.tune import rule

ScoreFn = Callable[[Float[Array, " d"]], Float[Array, " d"]]
DensityFn = Callable[[Float[Array, " d"]], Float[Array, ""]]
CONVERGED = 0.35  # residual over that before, above which fewer fields are tried
SCORED = 250  # draws at least that are scored again in each iteration; half of it where
LITTLE = 0.3  # this share of the errors, or more, is expected to be left
FEWEST = 4  # draws per chain, below which nothing is done
PER_TIME = 5  # draws per autocorrelation time that are scored, where scores are not known
FARTHEST = 1.0  # of 1 + |z|, by which a draw may be moved; a map that goes farther was overfitted
FARTHEST_FORESEEN = 1.5  # the same where scores are foreseen, and maps can be trusted
DRAWS_PER_FEATURE = 40  # at least, for products to be tried
FORMS = {
    "products": Form("full", 5, products=True),
    "full": Form("full", 5),
    "affine": Form("full"),
    "diagonal": Form("diagonal", 5),
    "scale": Form("diagonal"),
    "shift": Form("shift"),
}


@overload
def rebalance(
    draws: Any,
    score_fn: ScoreFn,
    scores: Any = ...,
    pooled: bool = ...,
    form: str = ...,
    logdensity_fn: DensityFn | None = ...,
    *,
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
        coordinate up to order 5), "affine", "diagonal" (as "full", with scalings of the whitened
        coordinates in place of all linear maps), "scale", "shift".
    logdensity_fn
        The log density at one draw. With it, the assumption is checked more sharply (jumps, walls
        and wrong gradients are found), and no draw is moved to where it is not finite.
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
    if scores is not None:
        known = as_numbers("scores", like("scores", scores, taken)).reshape(x.shape)
    with progress_bar(progress and sys.stderr.isatty()) as show:
        parts = rebalance_parts(Run(x, known, score, density), pooled, form, show=show)
    for text in complaints(parts):
        warnings.warn(text, stacklevel=2)
    result = taken.restore(moved(given, parts))
    reports = [part.report for part in parts]
    return (result, reports[0] if pooled else reports) if report else result


class Run(NamedTuple):
    """Draws in chains, their scores if they are known, and the functions of a draw.

    every
        One in so many draws is scored to begin with, if scores are not known.
    """

    chains: Float[np.ndarray, "chain draw d"]
    scores: Float[np.ndarray, "chain draw d"] | None
    score: Batched
    density: Batched | None
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
        parts.append(_rebalanced(run._replace(chains=chains, scores=scores), form, exact))
    show("rebalancing", count, count)
    return parts


def moved(given: np.ndarray, parts: list["Rebalanced"]) -> np.ndarray:
    """The draws after their moves, which are added to what was given: its precision is kept."""
    move = np.concatenate([part.moves for part in parts]).reshape(given.shape)
    result: np.ndarray = given + move.astype(given.dtype)
    return result


class Part(NamedTuple):
    """Draws whose scores are known: in chains, and as rows x with scores s."""

    chains: Float[np.ndarray, "chain draw d"]
    scores: Float[np.ndarray, "chain draw d"]

    @property
    def x(self) -> Rows:
        return self.chains.reshape(-1, self.chains.shape[2])

    @property
    def s(self) -> Rows:
        return self.scores.reshape(-1, self.chains.shape[2])


class Rebalanced(NamedTuple):
    """The moves of draws under one map, what was done, and the draws that were scored first."""

    moves: Float[np.ndarray, "chain draw d"]
    report: Report
    part: Part


def _rebalanced(run: Run, form: str, exact: bool) -> Rebalanced:
    """The draws of some chains under one map."""
    chains, score, density = run.chains, run.score, run.density
    if chains.shape[1] < FEWEST:
        scores = np.full_like(chains, np.nan) if run.scores is None else run.scores
        few = nothing(f"there are fewer than {FEWEST} draws per chain", 0)
        return Rebalanced(np.zeros_like(chains), few, Part(chains, scores))
    began = score.count
    part = _scored(run)
    usable = np.all(np.isfinite(part.s), axis=1)
    findings = check_assumption(part.chains, part.scores, score, density, exact)
    failed = [f for f in findings if f.failed]
    why, found = "; ".join(f.text for f in failed), None
    if np.sum(usable) < 2:
        why = why or "too few draws have a finite score"
    elif not failed or form != "auto":
        at = coordinates(part.x[usable], part.s[usable])
        found, why = _first_that_converges(at, form, part, score, density is not None)
    if found is None:
        report = nothing(why, score.count - began, findings, int(np.sum(~usable)))
        return Rebalanced(np.zeros_like(chains), report._replace(every=run.every), part)
    taken, solved, expected = found
    x = chains.reshape(-1, chains.shape[2])
    moved = at.restore(apply(at, solved.weights, at.standardise(x)))
    stays = solved.stays if density is None else ~np.isfinite(density(moved))
    if len(part.x) == len(x):
        stays = stays | ~usable
    out = np.where(stays[:, None], x, moved)
    moves = (out - x) / at.scale
    before, after, noise = (residual(w) for w in (solved.before, solved.after, solved.noise))
    report = Report(
        form=str(taken),
        reason=why,
        iterations=solved.iterations,
        gradients=score.count - began,
        before=before,
        after=after,
        left=left(before, after, noise),
        typical_move=float(np.sqrt(np.mean(moves**2))),
        largest_move=float(np.max(np.abs(moves))),
        every=run.every,
        stayed=int(np.sum(np.all(out == x, axis=1))),
        findings=findings,
        expected=expected,
    )
    return Rebalanced((out - x).reshape(chains.shape), report, part)


def _scored(run: Run) -> Part:
    """The draws whose scores are known, or those that are scored now."""
    if run.scores is not None:
        return Part(run.chains, run.scores)
    chains = run.chains[:, :: run.every]
    return Part(chains, run.score(chains.reshape(-1, chains.shape[2])).reshape(chains.shape))


def _candidates(form: str, num_draws: int, dim: int) -> list[Form]:
    """The forms to try, the richest first."""
    if form != "auto":
        return [FORMS[form]]
    dense = dim <= rule.DENSE_UP_TO and num_draws >= 4 * dim
    order = 5 if num_draws >= 200 else 3
    full = [Form("full", order), Form("full")] if dense else []
    richest = FORMS["products"]
    if num_draws >= DRAWS_PER_FEATURE * richest.size(dim):
        full = [richest, *full]
    return [*full, Form("diagonal", order), Form("diagonal"), Form("shift")]


def _first_that_converges(
    at: Coordinates, form: str, part: Part, score: Batched, thinned: bool
) -> tuple[tuple[Form, Solved, Expected] | None, str]:
    """The first form whose residual falls enough, and why others before it were not taken."""
    reasons: list[str] = []
    foresee = regression(at, at.standardise(part.x), part.s * at.scale)
    bound = FARTHEST if foresee is None else FARTHEST_FORESEEN
    for candidate in _candidates(form, *part.x.shape):
        expected = expect(at, candidate, part.chains.shape, part.x, part.s)
        count = _again(candidate, part.chains, expected, foresee is not None) if thinned else None
        solved = solve(at, candidate, part.x, part.s, score, count, foresee)
        farthest = _farthest(at, solved, part.x)
        if form != "auto" or (solved.reduction < CONVERGED and farthest < bound):
            return (candidate, solved, expected), "; ".join(reasons)
        if solved.reduction < CONVERGED:
            reasons.append(f"{candidate} moved a draw by {farthest:.0%} of its distance")
        else:
            reasons.append(f"{candidate} left {solved.reduction:.0%} of the residual")
    return None, "; ".join(reasons)


def _farthest(at: Coordinates, solved: Solved, x: Rows) -> float:
    """The largest move of a draw over 1 + |z|, its distance in standard deviations."""
    z = at.standardise(x)
    moves = np.abs(apply(at, solved.weights, z) - z) / (1 + np.abs(z))
    return float(np.max(moves))


def _again(
    form: Form, chains: Float[np.ndarray, "chain draw d"], expected: Expected, foreseen: bool
) -> int:
    """How many draws are scored again in each iteration.

    The noise that this leaves, over what would have been left otherwise, is about the number of
    features over that of the draws. Where features explain little, much is left anyway; where
    changes are foreseen, there is little noise. Of sticky chains some draws per correlation time
    tell as much as all.
    """
    num_features, count = form.size(chains.shape[2]), chains[..., 0].size
    fresh = count * PER_TIME / float(np.median(autocorrelation_time(chains)))
    if foreseen:
        wanted = max(2 * num_features, min(count / 4, fresh), SCORED)
    elif form.products:  # far from a Gaussian, where features are heavy
        wanted = max(8 * num_features, min(count / 4, fresh), SCORED)
    elif np.mean(expected) > LITTLE:
        wanted = max(2 * num_features, min(count / 6, fresh), SCORED / 2)
    else:
        wanted = max(4 * num_features, min(count / 2, fresh), SCORED)
    return int(min(count, np.ceil(wanted)))


def complaints(parts: list[Rebalanced]) -> list[str]:
    """What a user must know about rebalancing, with the chains that it is about."""
    found: list[str] = []
    reports = [part.report for part in parts]
    num_draws = sum(part.moves[..., 0].size for part in parts)
    of = lambda found: "" if len(reports) == 1 else f" of chain {', '.join(map(str, found))}"
    if parts[0].moves.shape[1] < FEWEST:  # of a run that was stopped at once, say
        return found
    stay = [n for n, one in enumerate(reports) if one.form == "none"]
    if stay:
        found.append(f"the draws{of(stay)} stay as they were: {reports[stay[0]].reason}")
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
