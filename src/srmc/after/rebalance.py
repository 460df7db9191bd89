"""Rebalance a whole run: one smooth map for all draws, so that every Stein feature has mean 0."""

import sys
import warnings
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, overload

import jax
import jax.numpy as jnp
import numpy as np

from srmc._checks import check_option
from srmc._progress import progress_bar
from srmc._types import Array, Bool, Float
from srmc.after.as_chains import as_chains
from srmc.after.assumption import Finding, check_assumption
from srmc.after.solve import Solved, solve
from srmc.after.transport import (
    Coordinates,
    Form,
    Rows,
    Weights,
    coordinates,
    hermite,
)
from srmc.metrics.errors import batch_means_error
from srmc.tune import rule

ScoreFn = Callable[[Float[Array, " d"]], Float[Array, " d"]]
DensityFn = Callable[[Float[Array, " d"]], Float[Array, ""]]
NUMBERS_AT_ONCE = 2**22  # of draws that are scored together
CONVERGED = 0.35  # residual over that before, above which fewer fields are tried
FORMS = {
    "full": Form("full", 5),
    "affine": Form("full"),
    "diagonal": Form("diagonal", 5),
    "scale": Form("diagonal"),
    "shift": Form("shift"),
}


class Residual(NamedTuple):
    """Root mean squares of the mean features of a group, in units of their standard deviations."""

    shift: float
    linear: float
    marginal: float


class Expected(NamedTuple):
    """Variances of averages after rebalancing over those before, as far as features explain them.

    They are averages over coordinates, for means, variances, and the quantiles at 5, 50 and 95%.
    Coefficients are fitted to the same draws, so that they are optimistic where draws are few.
    """

    means: float
    variances: float
    quantiles: float


class Report(NamedTuple):
    """What `rebalance` did.

    form
        The fields of the map; "none" if the draws stayed as they were.
    reason
        Why a simpler form was taken than the first that was tried, or none; empty otherwise.
    iterations, gradients
        Iterations of the map that was taken; gradients evaluated, over all draws and all tries.
    before, after
        Mean features before the first and after the last iteration.
    typical_move, largest_move
        Root mean square over draws and coordinates, and the largest, in standard deviations.
    stayed
        The number of draws that could not be moved.
    findings
        What the checks of the assumption E[feature] = 0 found.
    expected
        The gain to be expected.
    """

    form: str
    reason: str
    iterations: int
    gradients: int
    before: Residual
    after: Residual
    typical_move: float
    largest_move: float
    stayed: int
    findings: tuple[Finding, ...]
    expected: Expected


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
) -> np.ndarray: ...


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
) -> tuple[np.ndarray, Report | list[Report]]: ...


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
) -> np.ndarray | tuple[np.ndarray, Report | list[Report]]:
    """Move finished draws so that means, covariances, quantiles and tails come closer.

    Stein features, such as the score, have mean 0 under the target. Over a run of finite length
    their averages are not quite 0, and the errors of all estimates go with them. This finds one
    smooth map, close to the identity, under which the averages are 0, and applies it to all draws.

    Parameters
    ----------
    draws
        Draws of any sampler, (chain, draw, d) or (draw, d), of unbounded parameters.
    score_fn
        The gradient of the log density at one draw, a JAX function. It is evaluated at all draws,
        up to seven times, and up to six times more for each simpler form that has to be tried.
    scores
        The scores at the draws, in their shape, if they are known; they save one evaluation.
    pooled
        Whether one map serves all chains, or each chain gets its own.
    form
        The fields along which draws move. "auto" starts with the richest that dimensions and
        draws allow, and takes fewer if the iteration does not converge: "full" (affine maps and
        Hermite polynomials of each coordinate up to order 5), "affine", "diagonal" (as "full",
        with scalings of the whitened coordinates in place of all linear maps), "scale", "shift".
    logdensity_fn
        The log density at one draw. With it, the assumption is checked more sharply (jumps, walls
        and wrong gradients are found), and no draw is moved to where it is not finite.
    report
        Whether to return what was done, too: a `Report`, or one per chain if not `pooled`.
    progress
        Whether to show a progress bar on a terminal.

    Returns
    -------
    The moved draws, in the shape and precision of `draws`. With form="auto" they stay as they were,
    with a warning, where the features cannot have mean 0 under the target that `score_fn` is of.
    """
    given = np.asarray(draws)
    x = as_chains("draws", given)
    check_option("form", form, ("auto", *FORMS))
    for name, value in (("pooled", pooled), ("report", report), ("progress", progress)):
        if not isinstance(value, bool):
            raise TypeError(f"{name} must be True or False, got {value!r}")
    density = None if logdensity_fn is None else _Batched("logdensity_fn", logdensity_fn, x, ())
    score = _Batched("score_fn", score_fn, x, x.shape[2:])
    known = None
    if scores is not None:
        if np.shape(scores) != given.shape:
            raise ValueError(
                f"scores must have the shape of draws, {given.shape}, got {np.shape(scores)}"
            )
        known = np.asarray(scores, float).reshape(x.shape)
    parts = [x] if pooled else [chain[None] for chain in x]
    moved, reports = [], []
    with progress_bar(progress and sys.stderr.isatty()) as show:
        for n, part in enumerate(parts):
            show("rebalance", n, len(parts))
            mine = None if known is None else known[n : n + len(part)]
            out, one = _rebalanced(part, score, mine, form, density)
            moved.append(out)
            reports.append(one)
        show("rebalance", len(parts), len(parts))
    _warn(reports, x[..., 0].size)
    # The moves are added to what was given, so that its precision is kept.
    move = (np.concatenate(moved) - x).reshape(given.shape)
    result = given + move.astype(given.dtype)
    return (result, reports[0] if pooled else reports) if report else result


def _rebalanced(
    chains: Float[np.ndarray, "chain draw d"],
    score: "_Batched",
    scores: Float[np.ndarray, "chain draw d"] | None,
    form: str,
    density: "_Batched | None",
) -> tuple[Float[np.ndarray, "chain draw d"], Report]:
    """The draws of some chains under one map."""
    began = score.count
    x = chains.reshape(-1, chains.shape[2])
    s = score(x) if scores is None else scores.reshape(x.shape)
    usable = np.all(np.isfinite(s), axis=1)
    findings = check_assumption(chains, s.reshape(chains.shape), score, density)
    failed = [f for f in findings if f.failed]
    if (failed and form == "auto") or np.sum(usable) < 2:
        why = "; ".join(f.text for f in failed) or "too few draws have a finite score"
        return chains, _nothing(why, score.count - began, findings, int(np.sum(~usable)))
    at = coordinates(x[usable], s[usable])
    found, reason = _first_that_converges(at, form, x, s, score)
    if found is None:
        return chains, _nothing(reason, score.count - began, findings, int(np.sum(~usable)))
    taken, solved = found
    out = np.where((solved.stays | _lost(solved, x, density))[:, None], x, solved.moved)
    moves = (out - x) / at.scale
    return out.reshape(chains.shape), Report(
        form=str(taken),
        reason=reason,
        iterations=solved.iterations,
        gradients=score.count - began,
        before=_residual(solved.before),
        after=_residual(solved.after),
        typical_move=float(np.sqrt(np.mean(moves**2))),
        largest_move=float(np.max(np.abs(moves))),
        stayed=int(np.sum(np.all(out == x, axis=1))),
        findings=findings,
        expected=_expected(at, taken, chains.shape, x, s),
    )


def _expected(at: Coordinates, form: Form, shape: tuple[int, ...], x: Rows, s: Rows) -> Expected:
    """What regressions on the features of this form leave of the long-run variances."""
    s = np.where(np.isfinite(s), s, 0.0) * at.scale
    z, own = at.standardise(x), at.regress(s)
    shown = np.linspace(0, x.shape[1] - 1, min(x.shape[1], 32)).astype(int)
    ratios: list[list[float]] = [[], [], []]
    for i in shown:
        features = [own[:, i]]
        if form.linear != "shift":
            features.append(1 + z[:, i] * own[:, i])
        if form.order >= 2:
            values, slopes = hermite(z[:, i : i + 1], form.order)
            features += list((slopes + values * own[None, :, i : i + 1])[..., 0])
        phi = np.stack(features, axis=1)
        levels = np.quantile(z[:, i], (0.05, 0.5, 0.95))
        for found, f in zip(
            ratios,
            (z[:, i : i + 1], z[:, i : i + 1] ** 2, (z[:, i : i + 1] < levels).astype(float)),
            strict=True,
        ):
            centred = f - f.mean(axis=0)
            rest = centred - phi @ np.linalg.lstsq(phi, centred, rcond=None)[0]
            before, after = (batch_means_error(v.reshape(*shape[:2], -1)) for v in (f, rest))
            known = before > 1e-9 * np.max(np.abs(f))
            found.append(
                float(np.mean(np.where(known, after / np.where(known, before, 1), 1) ** 2))
            )
    return Expected(*(float(np.mean(found)) for found in ratios))


def _candidates(form: str, num_draws: int, dim: int) -> list[Form]:
    """The forms to try, the richest first."""
    if form != "auto":
        return [FORMS[form]]
    dense = dim <= rule.DENSE_UP_TO and num_draws >= 4 * dim
    order = 5 if num_draws >= 200 else 3
    full = [Form("full", order), Form("full")] if dense else []
    return [*full, Form("diagonal", order), Form("diagonal"), Form("shift")]


def _first_that_converges(
    at: Coordinates, form: str, x: Rows, s: Rows, score: "_Batched"
) -> tuple[tuple[Form, Solved] | None, str]:
    """The first form whose residual falls enough, and why others before it were not taken."""
    reasons: list[str] = []
    for candidate in _candidates(form, *x.shape):
        solved = solve(at, candidate, x, s, score)
        if solved.reduction < CONVERGED or form != "auto":
            return (candidate, solved), "; ".join(reasons)
        reasons.append(f"{candidate} left {solved.reduction:.0%} of the residual")
    return None, "; ".join(reasons)


def _lost(solved: Solved, x: Rows, density: "_Batched | None") -> Bool[np.ndarray, " n"]:
    """Draws whose move leads out of the support."""
    if density is None:
        return np.zeros(len(x), bool)
    lost: Bool[np.ndarray, " n"] = ~np.isfinite(density(solved.moved))
    return lost


def _residual(means: Weights) -> Residual:
    size = lambda v: float(np.sqrt(np.mean(v**2))) if v.size else 0.0
    return Residual(*(size(part) for part in means))


def _nothing(reason: str, gradients: int, findings: tuple[Finding, ...], stayed: int) -> Report:
    none = Residual(0.0, 0.0, 0.0)
    expected = Expected(1.0, 1.0, 1.0)
    return Report("none", reason, 0, gradients, none, none, 0.0, 0.0, stayed, findings, expected)


def _warn(reports: list[Report], num_draws: int) -> None:
    """One warning for each thing that a user must know, with the chains that it is about."""
    of = lambda found: "" if len(reports) == 1 else f" of chain {', '.join(map(str, found))}"
    stay = [n for n, one in enumerate(reports) if one.form == "none"]
    if stay:
        text = f"the draws{of(stay)} stay as they were: {reports[stay[0]].reason}"
        warnings.warn(text, stacklevel=3)
    failures = {
        n: [f.text for f in one.findings if f.failed]
        for n, one in enumerate(reports)
        if n not in stay and any(f.failed for f in one.findings)
    }
    if failures:
        first = "; ".join(next(iter(failures.values())))
        text = f"rebalanced draws{of(failures)} may be off the target: {first}"
        warnings.warn(text, stacklevel=3)
    stayed = sum(r.stayed for r in reports if r.form != "none")
    if stayed > 0.01 * num_draws:
        warnings.warn(
            f"{stayed} of {num_draws} draws stayed as they were, since their moves left the target "
            "or had no score; rebalance draws of unbounded parameters",
            stacklevel=3,
        )


class _Batched:
    """A function of one draw, applied to rows of draws in batches; it counts the rows."""

    def __init__(self, name: str, function: Any, draws: np.ndarray, shape: tuple[int, ...]) -> None:
        if not callable(function):
            raise TypeError(f"{name} must be a function of a draw, got {function!r}")
        try:
            out = jax.eval_shape(function, jnp.asarray(draws[0, 0]))
        except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError):
            raise TypeError(
                f"{name} must be written with jax.numpy, or wrapped in jax.pure_callback; "
                f"{function!r} cannot be traced"
            ) from None
        if getattr(out, "shape", None) != shape:
            raise ValueError(
                f"{name} must return an array of shape {shape} at a draw of shape "
                f"{draws.shape[2:]}, got {getattr(out, 'shape', out)}"
            )
        self._program = jax.jit(jax.vmap(function))
        self._size = max(1, NUMBERS_AT_ONCE // draws.shape[2])
        self.count = 0

    def __call__(self, x: Rows) -> np.ndarray:
        self.count += len(x)
        parts = []
        for start in range(0, len(x), self._size):
            rows = x[start : start + self._size]
            # Padded to a power of two, so that few sizes are compiled.
            size = min(self._size, 1 << (len(rows) - 1).bit_length())
            padded = np.concatenate([rows, np.repeat(rows[:1], size - len(rows), axis=0)])
            parts.append(np.asarray(self._program(jnp.asarray(padded)), float)[: len(rows)])
        return np.concatenate(parts)
