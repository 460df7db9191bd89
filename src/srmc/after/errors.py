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
from srmc.after.coordinates import FAR, Coordinates, Rows, coordinates
from srmc.after.products import product_features
from srmc.after.regress import FOLDS, Features, explain
from srmc.after.report import Report, Residual
from srmc.after.transport import Form
from srmc.metrics.errors import (
    are_events,
    at_least_between,
    batch_means_error,
    effective_size,
    with_unseen,
)
from srmc.metrics.tails import with_tails

PAIRS_UP_TO = 32  # dimensions up to which features of products are looked at
COORDINATES_AT_ONCE = 64
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
    error = error_beside(flat, features, after)
    if np.any(are_events(flat)):
        error = with_unseen(flat, error, float(np.median(effective_size(x))))
    return error.reshape(given.shape[2:])


def active_features(
    x: Float[np.ndarray, "chain draw d"],
    s: Float[np.ndarray, "chain draw d"],
    form: str,
    left: Residual,
) -> Features:
    """The features of a map of this form, as `Report.form` and `Report.left` describe it."""
    if form == "none":
        return Features(np.zeros((0, *x.shape[:2]), np.float32), np.zeros(0), 0)
    rows, scores = (v.reshape(-1, x.shape[2]) for v in (x, s))
    usable = np.all(np.isfinite(scores), axis=1)
    at = coordinates(rows[usable], scores[usable])
    scores = np.where(usable[:, None], scores, 0.0) * at.scale
    groups = _features(at, at.standardise(rows), scores, Form.parse(form))
    phi = np.empty((sum(map(len, groups)), len(rows)), np.float32)
    np.concatenate(groups, out=phi)
    phi[:, ~usable] = 0.0
    phi /= np.maximum(np.sqrt(np.einsum("ij,ij->i", phi, phi) / len(rows)), 1e-30)[:, None]
    shares = np.repeat(np.array(left), list(map(len, groups)))
    dim = x.shape[2]
    is_by_coordinate = all(len(group) % dim == 0 for group in groups[:3]) and not len(groups[3])
    return Features(phi.reshape(-1, *x.shape[:2]), shares, dim, dim * is_by_coordinate)


def _features(at: Coordinates, z: Rows, s: Rows, form: Form) -> list[Float[np.ndarray, "k n"]]:
    """Features of each group of fields; where all linear maps are there, those of z.

    Under a Gaussian, functions of one coordinate depend on that coordinate's features alone.
    """
    dim, none = z.shape[1], np.zeros((0, len(z)), np.float32)
    product = none
    if form.products and len(z) * form.size(dim) <= NUMBERS:
        product = product_features(at, z, s).T
    y, s_y = (at.whiten(z), at.push(s)) if form.linear == "diagonal" else (z, at.regress(s))
    own, z, y, s_y = (np.ascontiguousarray(v.T) for v in (at.regress(s), z, y, s_y))
    linear = none if form.linear == "shift" else 1 + y * s_y
    if form.linear == "full" and dim <= PAIRS_UP_TO:
        correlation = np.eye(dim) if at.root is None else at.root @ at.root
        i, j = np.triu_indices(dim, 1)
        pairs = correlation[i, j][:, None] + (z[i] * own[j] + z[j] * own[i]) / 2
        linear = np.concatenate([linear, pairs])
    marginal = np.empty((max(0, form.order - 1), *z.shape), np.float32)
    for start in range(0, dim, COORDINATES_AT_ONCE):
        part = slice(start, start + COORDINATES_AT_ONCE)
        _fill(marginal[:, part], z[part], own[part])
    return [own, linear, marginal.reshape(-1, len(z[0])), product]


def _fill(
    marginal: Float[np.ndarray, "order d n"],
    z: Float[np.ndarray, "d n"],
    own: Float[np.ndarray, "d n"],
) -> None:
    """h_k'(z) + h_k(z) times the score for k = 2, 3, ..., up to a factor, with z cut at ±3."""
    cut, inside = np.clip(z, -FAR, FAR), np.abs(z) < FAR
    before, last = np.ones_like(cut), cut
    for k, out in enumerate(marginal, start=2):
        before, last = last, cut * last - (k - 1) * before
        np.add(inside * k * before, last * own, out=out, casting="same_kind")


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
    if len(features.phi) == 0 or values.shape[1] < 4 * FOLDS:
        return with_tails(values, batch_means_error(values))
    error, first_order = _error(values, features, functions)
    if moved is not None:
        more = np.abs((moved - values).mean(axis=(0, 1)) - first_order)
        error = np.where(more > SURPRISE * error, more, error)
    return with_tails(values, error)


def _error(
    values: Float[np.ndarray, "chain draw k"], features: Features, functions: int
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    """The errors, and the changes of the means to first order."""
    centred = np.moveaxis(values - values.mean(axis=(0, 1)), 2, 0)
    f = np.swapaxes(centred.reshape(functions, -1, *values.shape[:2]), 0, 1)
    error, change = np.empty(f.shape[:2]), np.empty(f.shape[:2])
    flat = lambda v: np.moveaxis(v.reshape(-1, *v.shape[2:]), 0, 2)
    for part, explained, left in explain(f, features):
        rest, more = (batch_means_error(flat(v)) for v in (f[part] - explained, left))
        error[part] = np.hypot(rest, more).reshape(-1, functions)
        change[part] = -explained.mean(axis=(2, 3))
    return at_least_between(values, error.T.ravel()), change.T.ravel()
