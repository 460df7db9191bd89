"""The smallest map that gives draws the estimated distribution functions, mean and covariance.

Coordinate by coordinate, z_i moves monotonically: the quantile of the draws at the level of each
knot moves to the knot, and draws between two as they do. Then y moves by the symmetric affine map
to the estimated mean and covariance. Each undoes a little of what the other did, so both are
carried out three times, in many dimensions twice.
"""

import numpy as np

from srmc.coordinates.whiten import Rows
from srmc.rebalance import rule
from srmc.rebalance.choose import NOTHING
from srmc.rebalance.distribution import Knots
from srmc.rebalance.estimate import Estimates
from srmc.rebalance.features import Scored
from srmc.types import Float

SMALLEST = 1e-3  # eigenvalue of a covariance of whitened draws
APART = 0.1  # of the share of draws between two knots, which at least remains there


def match(at: Scored, found: Estimates) -> Rows:
    """The draws z, moved to the estimates."""
    z = at.z
    moving = np.flatnonzero([choice != NOTHING for choice in found.choices["distributions"]])
    knots, below = found.knots[:, moving], _rising(found.below[:, moving])
    many = at.dim > rule.MANY
    for turn in range(2 if many else rule.ROUNDS):
        if len(moving):
            z = z.copy()
            z[:, moving] = _displaced(z[:, moving], knots, below)
        whole = turn == 0 or not many
        z = at.at.push(_mapped(at.at.whiten(z), found.mean, found.second, whole))
    return z


def _rising(below: Knots) -> Knots:
    """Distribution functions that rise from knot to knot."""
    share = (1 - 2 * rule.OUTERMOST) / (rule.LEVELS - 1)
    least = APART * share * np.arange(rule.LEVELS)[:, None]
    rising: Knots = np.maximum.accumulate(below - least, axis=0) + least
    return rising


def _displaced(z: Rows, knots: Knots, below: Knots) -> Rows:
    """Draws with these distribution functions at the knots; those beyond move as the outermost."""
    moved = np.empty_like(z)
    for i, (t, level) in enumerate(zip(knots.T, below.T, strict=True)):
        values, counts = np.unique(z[:, i], return_counts=True)
        now = np.interp(level, (np.cumsum(counts) - counts / 2) / len(z), values)
        move = np.clip(t - now, -rule.CLOSEST, rule.CLOSEST)
        moved[:, i] = z[:, i] + np.interp(z[:, i], now, move)
    return moved


def _mapped(
    y: Rows, mean: Float[np.ndarray, " d"], second: Float[np.ndarray, "..."] | None, whole: bool
) -> Rows:
    """Draws with this mean and these second moments, by the symmetric affine map.

    If not `whole`, covariances are near already, and near the identity, and the map is that to
    first order. Draws that are too few for a covariance of full rank get the variances, at least.
    """
    centre = y.mean(axis=0)
    if second is None:
        shifted: Rows = y + (mean - centre)
        return shifted
    y, wanted = y - centre, second - (mean**2 if second.ndim == 1 else np.outer(mean, mean))
    if second.ndim == 2:
        now, wanted = y.T @ y / len(y), wanted.astype(y.dtype)
        turn = symmetric_map(now, wanted) if whole else np.eye(len(mean)) + (wanted - now) / 2
        y, wanted = y @ turn.astype(y.dtype), np.diag(wanted)
    factor = np.sqrt(np.maximum(wanted, SMALLEST) / np.maximum(np.mean(y**2, axis=0), SMALLEST))
    moved: Rows = y * factor + mean
    return moved


def symmetric_map(
    now: Float[np.ndarray, "d d"], wanted: Float[np.ndarray, "d d"]
) -> Float[np.ndarray, "d d"]:
    """The symmetric M with M now M = wanted, where both are positive definite.

    With wanted = W W, it is W (W now W)^(-1/2) W.
    """
    values, vectors = np.linalg.eigh(wanted)
    root = (vectors * np.sqrt(np.maximum(values, SMALLEST))) @ vectors.T
    values, vectors = np.linalg.eigh(root @ now @ root)
    inverse = (vectors / np.sqrt(np.maximum(values, SMALLEST**2))) @ vectors.T
    found: np.ndarray = root @ inverse @ root
    return found
