"""Standard errors after rebalancing, for the mean of any function of a draw.

To first order, the mean of f over rebalanced draws is that of f - beta·phi over plain ones, with
beta = E[f phi] E[phi phi]^-1: what features explain is gone, and what is left has the short memory
of the plain chain, so that batch means apply to it. By how much the mean over the rebalanced draws
differs from that is known, and if it is far more than the error, it takes its place: with heavy
tails the first order is not all that a map does.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from srmc._checks import as_numbers
from srmc._types import Float, Int
from srmc.after.as_chains import as_chains
from srmc.after.coordinates import Coordinates, Rows, coordinates
from srmc.after.products import product_features
from srmc.after.report import Report, Residual
from srmc.after.transport import Form, hermite
from srmc.metrics.errors import at_least_between, batch_means_error

FOLDS = 5  # parts of the run; beta for each comes from the others
DRAWS_PER_FEATURE = 4  # at least, in a regression
MOST = 64  # features in a regression
PAIRS_UP_TO = 32  # dimensions up to which features of products are looked at
FUNCTIONS_AT_ONCE = 256
NUMBERS = 2**25  # draws times features, beyond which those of products are left out
SURPRISE = 2.0  # errors, beyond which the change of a mean is not that to first order


class Features(NamedTuple):
    """Stein features that have mean 0 over rebalanced draws, at plain draws; and what is left.

    phi
        The features, (chain, draw, k).
    left
        The share of the error along each that rebalancing left.
    num_shifts
        How many of them, the first, are those of shifts.
    """

    phi: Float[np.ndarray, "chain draw k"]
    left: Float[np.ndarray, " k"]
    num_shifts: int


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
    draws, scores
        The plain draws that `srmc.rebalance` was given, (chain, draw, d), and their scores.
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
    features = active_features(x, s, report.form, report.left)
    if moved is not None and np.shape(moved) != given.shape:
        raise ValueError(
            f"moved must have the shape of values, {given.shape}, got {np.shape(moved)}"
        )
    flat = given.reshape(*given.shape[:2], -1)
    after = None if moved is None else np.asarray(moved, float).reshape(flat.shape)
    return error_beside(flat, features, after).reshape(given.shape[2:])


def active_features(
    x: Float[np.ndarray, "chain draw d"],
    s: Float[np.ndarray, "chain draw d"],
    form: str,
    left: Residual,
) -> Features:
    """The features of a map of this form, as `Report.form` and `Report.left` describe it."""
    if form == "none":
        return Features(np.zeros((*x.shape[:2], 0)), np.zeros(0), 0)
    rows, scores = (v.reshape(-1, x.shape[2]) for v in (x, s))
    usable = np.all(np.isfinite(scores), axis=1)
    at = coordinates(rows[usable], scores[usable])
    scores = np.where(usable[:, None], scores, 0.0) * at.scale
    groups = _features(at, at.standardise(rows), scores, Form.parse(form))
    phi = np.concatenate(groups, axis=1)
    phi[~usable] = 0.0
    phi /= np.maximum(np.sqrt(np.mean(phi**2, axis=0)), 1e-300)
    shares = np.concatenate(
        [np.full(part.shape[1], share) for part, share in zip(groups, left, strict=True)]
    )
    return Features(phi.reshape(*x.shape[:2], -1), shares, x.shape[2])


def _features(at: Coordinates, z: Rows, s: Rows, form: Form) -> list[Rows]:
    """Features of each group of fields; where all linear maps are there, those of z.

    Under a Gaussian, functions of one coordinate depend on that coordinate's features alone.
    """
    own, none = at.regress(s), np.zeros((len(z), 0))
    linear = marginal = product = none
    if form.linear == "full":
        linear = 1 + z * own
        if z.shape[1] <= PAIRS_UP_TO:
            correlation = np.eye(z.shape[1]) if at.root is None else at.root @ at.root
            rows, columns = np.triu_indices(z.shape[1], 1)
            products = (z[:, rows] * own[:, columns] + z[:, columns] * own[:, rows]) / 2
            linear = np.concatenate([linear, correlation[rows, columns] + products], axis=1)
    elif form.linear == "diagonal":
        linear = 1 + at.whiten(z) * at.push(s)
    if form.order >= 2:
        values, slopes = hermite(z, form.order)
        marginal = np.concatenate(list(slopes + values * own[None]), axis=1)
    if form.products and len(z) * form.size(z.shape[1]) <= NUMBERS:
        product = product_features(at, z, s)
    return [own, linear, marginal, product]


def error_beside(
    values: Float[np.ndarray, "chain draw k"],
    features: Features,
    moved: Float[np.ndarray, "chain draw k"] | None = None,
) -> Float[np.ndarray, " k"]:
    """The standard errors of the means of values, given the features that have mean 0.

    `moved` are the values at the rebalanced draws.
    """
    if features.phi.shape[2] == 0 or values.shape[1] < 4 * FOLDS:
        error: np.ndarray = batch_means_error(values)
        return error
    change = np.zeros(values.shape[2]) if moved is None else (moved - values).mean(axis=(0, 1))
    parts = [slice(n, n + FUNCTIONS_AT_ONCE) for n in range(0, len(change), FUNCTIONS_AT_ONCE)]
    found = [_error(values[..., part], features) for part in parts]
    error, first_order = (np.concatenate(column) for column in zip(*found, strict=True))
    if moved is None:
        return error
    more = np.abs(change - first_order)
    larger: np.ndarray = np.where(more > SURPRISE * error, more, error)
    return larger


def _error(
    values: Float[np.ndarray, "chain draw k"], features: Features
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    """The errors, and the changes of the means to first order."""
    centred = values - values.mean(axis=(0, 1))
    explained, left = _explained(centred, features)
    rest, more = (batch_means_error(v) for v in (centred - explained, left))
    return at_least_between(values, np.hypot(rest, more)), -explained.mean(axis=(0, 1))


def _explained(
    f: Float[np.ndarray, "chain draw k"], features: Features
) -> tuple[Float[np.ndarray, "chain draw k"], Float[np.ndarray, "chain draw k"]]:
    """What features explain of each function, and what of that is left.

    Coefficients for a part of the run come from the other parts, and from as many features as
    predict the parts that were left out best.
    """
    parts = np.array_split(np.arange(f.shape[1]), FOLDS)
    rows = lambda v, part: v[:, part].reshape(-1, v.shape[2])
    grams = np.stack([rows(features.phi, part).T @ rows(features.phi, part) for part in parts])
    cross = np.stack([rows(features.phi, part).T @ rows(f, part) for part in parts])
    count = int(f.shape[0] * f.shape[1] * (1 - 1 / FOLDS))
    best = np.zeros((FOLDS, *cross.shape[1:]))
    least = np.zeros(f.shape[2])
    fits = [
        _fits(grams.sum(0) - g, cross.sum(0) - c, features.num_shifts, count)
        for g, c in zip(grams, cross, strict=True)
    ]
    for betas in zip(*fits, strict=True):
        beta = np.stack(betas)
        change = np.sum(beta * (grams @ beta - 2 * cross), axis=(0, 1))
        best = np.where(change < least, beta, best)
        least = np.minimum(least, change)
    out, left = np.zeros_like(f), np.zeros_like(f)
    for beta, part in zip(best, parts, strict=True):
        shape = (f.shape[0], len(part), -1)
        out[:, part] = (rows(features.phi, part) @ beta).reshape(shape)
        left[:, part] = (rows(features.phi, part) @ (beta * features.left[:, None])).reshape(shape)
    return out, left


def _fits(
    gram: Float[np.ndarray, "p p"], cross: Float[np.ndarray, "p k"], num_shifts: int, count: int
) -> Iterator[Float[np.ndarray, "p k"]]:
    """Least squares on more and more features: those of shifts, then what correlates with the rest.

    `count` is the number of draws that the sums are over.
    """
    most = int(min(MOST, count // DRAWS_PER_FEATURE, len(gram) - 1))
    chosen = np.zeros((0, cross.shape[1]), int)
    beta = np.zeros_like(cross)
    if num_shifts <= most // 2:
        chosen = np.repeat(np.arange(num_shifts)[:, None], cross.shape[1], axis=1)
        beta = _fit(gram, cross, chosen)
        yield beta
    while len(chosen) < most:
        rest = np.abs(cross - gram @ beta)
        np.put_along_axis(rest, chosen, -1.0, axis=0)
        more = min(max(1, len(chosen) // 3), most - len(chosen))
        strongest = np.argpartition(-rest, more - 1, axis=0)[:more]
        chosen = np.concatenate([chosen, strongest])
        beta = _fit(gram, cross, chosen)
        yield beta


def _fit(
    gram: Float[np.ndarray, "p p"], cross: Float[np.ndarray, "p k"], chosen: Int[np.ndarray, "m k"]
) -> Float[np.ndarray, "p k"]:
    """Least squares of each function on the features chosen for it."""
    index = chosen.T
    square = gram[index[:, :, None], index[:, None, :]]
    ridge = 1e-8 * np.trace(square, axis1=1, axis2=2)[:, None, None] * np.eye(index.shape[1])
    right = np.take_along_axis(cross.T, index, axis=1)
    small = np.linalg.solve(square + ridge, right[..., None])[..., 0]
    beta = np.zeros_like(cross.T)
    np.put_along_axis(beta, index, small, axis=1)
    return beta.T
