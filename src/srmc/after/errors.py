"""Standard errors after rebalancing, for the mean of any function of a draw.

To first order, the mean of f over rebalanced draws is that of f - beta·phi over plain ones, with
beta = E[f phi] E[phi phi]^-1: what features explain is gone, and what is left has the short memory
of the plain chain, so that batch means apply to it. By how much the mean over the rebalanced draws
differs from that is known, and if it is far more than the error, it takes its place: with heavy
tails the first order is not all that a map does.
"""

import numpy as np
from numpy.typing import ArrayLike

from srmc._checks import as_numbers
from srmc._types import Float
from srmc.after.as_chains import as_chains
from srmc.after.coordinates import Coordinates, Rows, coordinates
from srmc.after.products import product_features
from srmc.after.regress import FOLDS, Features, explain
from srmc.after.report import Report, Residual
from srmc.after.transport import Form, hermite
from srmc.metrics.errors import at_least_between, batch_means_error

PAIRS_UP_TO = 32  # dimensions up to which features of products are looked at
FUNCTIONS_AT_ONCE = 256
NUMBERS = 2**25  # draws times features, beyond which those of products are left out
SURPRISE = 2.0  # errors, beyond which the change of a mean is not that to first order


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
    explained, left = explain(centred, features)
    rest, more = (batch_means_error(v) for v in (centred - explained, left))
    return at_least_between(values, np.hypot(rest, more)), -explained.mean(axis=(0, 1))
