"""Standard errors after rebalancing, for the mean of any function of a draw.

To first order, the mean of f over rebalanced draws is that of f - beta·phi over plain ones, with
beta = E[f phi] E[phi phi]^-1: what features explain is gone, and the remainder has the short memory
of the plain chain, so that batch means apply to it. The difference from the mean over the
rebalanced draws is known, and an error is at least as large: with heavy tails, the first order is
not all that a map does, and between two knots of a distribution function draws keep their noise.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from srmc._checks import as_numbers
from srmc.coordinates.whiten import Coordinates, Rows, whiten
from srmc.metrics.errors import (
    are_events,
    at_least_between,
    effective_size,
    series_error,
    size_from,
    with_unseen,
)
from srmc.metrics.tails import error_and_variance, hidden_tail, plain_error
from srmc.rebalance import rule
from srmc.rebalance.as_chains import as_chains
from srmc.rebalance.distribution import Knots, sides, solution
from srmc.rebalance.features import Scored, products
from srmc.rebalance.learned import Turned
from srmc.rebalance.regress import Features, Pairs, explain
from srmc.rebalance.report import Report
from srmc.types import Float

PAIRS_UP_TO = 32  # dimensions up to which all features of products are looked at,
PAIRS_CHOSEN_UP_TO = 256  # and up to which those that a function needs
FEATURES_AT_ONCE = 64  # at all draws, in a processor's cache
ORDER = 3  # of the marginal features, in addition to steps at these quantiles
LEVELS = (0.05, 0.5, 0.95)


def rebalanced_error(
    values: ArrayLike,
    draws: ArrayLike,
    scores: ArrayLike,
    report: Report,
    moved: ArrayLike | None = None,
) -> Float[np.ndarray, "..."]:
    """The standard error of the mean of a function over rebalanced draws.

    Parameters
    ----------
    values
        The function at the plain draws, (chain, draw, ...).
    draws
        The plain draws that `srmc.rebalance` was given, (chain, draw, d).
    scores
        The scores at these draws, in the same shape.
    report
        What it reported.
    moved
        The function at the rebalanced draws, (chain, draw, ...), from which it is seen whether the
        map did what its features promise. Without it, errors may be too small where tails are
        heavy.

    Returns
    -------
    Errors in the shape of one value: mean over the rebalanced draws ± 1.96 × error is a 95%
    interval.
    """
    if not isinstance(report, Report):
        raise TypeError(f"report must be that of srmc.rebalance(..., report=True), got {report!r}")
    given = as_numbers("values", values)
    x, s = as_chains("draws", draws), as_chains("scores", scores)
    if x.shape != s.shape or given.shape[:2] != x.shape[:2]:
        raise ValueError(
            "values must be (chain, draw, ...), and draws and scores (chain, draw, d), got shapes "
            f"{given.shape}, {x.shape} and {s.shape}"
        )
    features = features_of(x, s, report)
    if moved is not None and np.shape(moved) != given.shape:
        raise ValueError(
            f"moved must have the shape of values, {given.shape}, got {np.shape(moved)}"
        )
    flat = given.reshape(*given.shape[:2], -1)
    after = None if moved is None else np.asarray(moved, float).reshape(flat.shape)
    error = error_beside(flat, features, after)
    if np.any(are_events(flat)):
        error = with_unseen(flat, error, float(np.median(effective_size(x))))
    return error.reshape(given.shape[2:])


def features_of(
    x: Float[np.ndarray, "chain draw d"], s: Float[np.ndarray, "chain draw d"], report: Report
) -> Features:
    """The features by which errors are computed, in the coordinates in which draws were moved."""
    if not report.moved:
        return no_features(x)
    scored = scored_in(x, s, report)
    return active_features(scored["position"], scored["score"])


def scored_in(
    x: Float[np.ndarray, "chain draw d"], s: Float[np.ndarray, "chain draw d"], report: Report
) -> dict[str, Float[np.ndarray, "chain draw d"]]:
    """Draws and scores in the coordinates in which draws were moved, and the model's own scores."""
    if report.coordinates is None:
        return {"position": x, "score": s}
    rows = Turned.by(report.coordinates).forward(*(v.reshape(-1, x.shape[2]) for v in (x, s)))
    u, own = (v.reshape(x.shape) for v in rows)
    return {"position": u, "score": own, "model_score": s}


def active_features(
    x: Float[np.ndarray, "chain draw d"], s: Float[np.ndarray, "chain draw d"]
) -> Features:
    """The features of draws with these scores by which errors are computed."""
    rows, scores = (v.reshape(-1, x.shape[2]) for v in (x, s))
    usable = np.all(np.isfinite(scores), axis=1)
    if np.sum(usable) < 2:
        return no_features(x)
    at = whiten(rows[usable], scores[usable])
    scores = np.where(usable[:, None], scores, 0.0) * at.scale
    phi, is_by_coordinate = _features(at, at.standardise(rows), scores)
    pairs = None
    if PAIRS_UP_TO < x.shape[2] <= PAIRS_CHOSEN_UP_TO and np.all(usable):
        z, own = at.standardise(rows), at.regress(scores)
        correlation = np.eye(x.shape[2]) if at.correlation is None else at.correlation
        single = (np.ascontiguousarray(v, np.float32) for v in (z.T, own.T, correlation))
        pairs = Pairs(*single)
    for start in range(0, len(phi), FEATURES_AT_ONCE):
        part = phi[start : start + FEATURES_AT_ONCE]
        part[:, ~usable] = 0.0
        part /= np.maximum(np.sqrt(np.einsum("ij,ij->i", part, part) / len(rows)), 1e-30)[:, None]
    dim = x.shape[2]
    left = np.zeros(len(phi))
    return Features(phi.reshape(-1, *x.shape[:2]), left, dim, dim * is_by_coordinate, pairs)


def no_features(x: Float[np.ndarray, "chain draw d"]) -> Features:
    """No features, with which errors are those of plain averages."""
    return Features(np.zeros((0, *x.shape[:2]), np.float32), np.zeros(0), 0)


def _features(at: Coordinates, z: Rows, s: Rows) -> tuple[Float[np.ndarray, "k n"], bool]:
    """Features of z, and whether each belongs to one coordinate, in the order of coordinates.

    Under a Gaussian, functions of one coordinate depend on that coordinate's features alone.
    """
    dim = z.shape[1]
    each = dim * (dim + 1) // 2  # products along each direction,
    along = dim if dim + each * (dim + 1) <= rule.FEATURES else 0
    product = products(Scored(at, z, at.whiten(z), at.push(s), s)) if along else iter(())
    own, z = (np.ascontiguousarray(v.T, np.float32) for v in (at.regress(s), z))
    linear = 1 + z * own
    if dim <= PAIRS_UP_TO:
        correlation = np.eye(dim) if at.correlation is None else at.correlation
        i, j = np.triu_indices(dim, 1)
        pairs = correlation[i, j][:, None] + (z[i] * own[j] + z[j] * own[i]) / 2
        linear = np.concatenate([linear, pairs])
    orders = ORDER - 1 + len(LEVELS)
    phi = np.empty((dim + len(linear) + orders * dim + along * each, z.shape[1]), np.float32)
    second = dim + len(linear)
    third = second + orders * dim
    phi[:dim], phi[dim:second] = own, linear
    for k, found in enumerate(product):
        phi[third + k * each : third + (k + 1) * each] = found.T
    marginal = phi[second:third].reshape(orders, *z.shape)
    for start in range(0, dim, FEATURES_AT_ONCE):
        part = slice(start, start + FEATURES_AT_ONCE)
        _fill(marginal[:, part], z[part], own[part])
    return phi, len(linear) == dim and along == 0


def _fill(
    marginal: Float[np.ndarray, "order d n"],
    z: Float[np.ndarray, "d n"],
    own: Float[np.ndarray, "d n"],
) -> None:
    """h_k'(z) + h_k(z) times the score for k = 2 and 3, with z cut at ±3, and those of steps."""
    cut, inside = np.clip(z, -rule.FAR, rule.FAR), (np.abs(z) < rule.FAR).astype(np.float32)
    before, last = np.ones_like(cut), cut
    for k, out in enumerate(marginal[: -len(LEVELS)], start=2):
        before, last = last, cut * last - (k - 1) * before
        np.multiply(last, own, out=out)
        out += k * inside * before
    steps = _steps(z.T, own.T, np.quantile(z, LEVELS, axis=1))
    marginal[-len(LEVELS) :] = np.moveaxis(steps, 0, 2)


def _steps(z: Rows, own: Rows, knots: Knots) -> Float[np.ndarray, "n level d"]:
    """The features of steps at the estimated quantiles, which are near the moved draws' own.

    The mean of such a feature is by how much the distribution function of the draws exceeds the
    estimated one, and the distance between quantiles of the draws says how far that is.
    """
    feature = lambda t: (z[:, None] <= t) - special.ndtr(t) + solution(z, sides(z, own, t), t)
    off = feature(knots).mean(axis=0)
    levels = np.clip(np.array(LEVELS)[:, None] + off, 0.0, 1.0)
    places = np.round(levels * (len(z) - 1)).astype(int)
    return feature(np.take_along_axis(np.sort(z, axis=0), places, axis=0))


def error_beside(
    values: Float[np.ndarray, "chain draw k"],
    features: Features,
    moved: Float[np.ndarray, "chain draw k"] | None = None,
    functions: int = 1,
) -> Float[np.ndarray, " k"]:
    """The standard errors of the means of values, given the features that have mean 0.

    `moved` are the values at the rebalanced draws. They may be of several functions of the same
    quantities, one function after the other.
    """
    if len(features.phi) == 0 or values.shape[1] < 4 * rule.FOLDS:
        return plain_error(values)
    error, first_order = _error(values, features, functions)
    if moved is None:
        return error
    more = np.abs((moved - values).mean(axis=(0, 1)) - first_order)
    larger: np.ndarray = np.maximum(error, more)
    return larger


def _error(
    values: Float[np.ndarray, "chain draw k"], features: Features, functions: int
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    """The errors, and the changes of the means to first order.

    Where a tail of the remainder is heavy, the error is at most that of the plain draws, and it is
    theirs where the function may have no variance, since the regression needs one.
    """
    centred = np.moveaxis(values - values.mean(axis=(0, 1)), 2, 0)
    f = np.swapaxes(centred.reshape(functions, -1, *values.shape[:2]), 0, 1)
    error, change = np.empty(f.shape[:2]), np.empty(f.shape[:2])
    series = lambda v: v.reshape(-1, v.shape[2]).T
    for part, explained, left in explain(f, features):
        rest = f[part] - explained
        rows = rest.reshape(-1, *values.shape[:2])
        own = at_least_between(np.moveaxis(rows, 0, 2), series_error(series(rest.mean(axis=2))))
        both = np.hypot(own, series_error(series(left)))
        rows = rows.reshape(len(rows), -1)
        hidden, _ = hidden_tail(rows, size_from(rows.var(axis=1), own, rows.shape[1]))
        found = np.hypot(both, hidden)
        heavy = np.flatnonzero(hidden > 0)
        if len(heavy):
            own_values = f[part].reshape(-1, *values.shape[:2])[heavy]
            plain, has_variance = error_and_variance(np.moveaxis(own_values, 0, 2))
            found[heavy] = np.where(has_variance, np.fmin(found[heavy], plain), plain)
        error[part] = found.reshape(-1, functions)
        change[part] = -explained.mean(axis=(2, 3))
    return at_least_between(values, error.T.ravel()), change.T.ravel()
