"""The smallest map that gives draws the estimated distribution functions, mean and covariance.

Coordinate by coordinate, z_i moves by (estimated - empirical distribution function, with its sign
turned) / density at the knots, monotonically, and by pchip between them. Then y moves by the
symmetric affine map to the estimated mean and covariance. Each undoes a little of what the other
did, so both are carried out three times, in many dimensions twice.
"""

import numpy as np

from srmc.coordinates.whiten import Rows
from srmc.rebalance import rule
from srmc.rebalance.estimate import Estimates
from srmc.rebalance.features import Scored
from srmc.rebalance.smoothed import averages
from srmc.types import Float

Knots = Float[np.ndarray, "knot d"]
Ends = Float[np.ndarray, " d"]
SMALLEST = 1e-3  # eigenvalue of a covariance of whitened draws, and density at a knot


def match(at: Scored, found: Estimates) -> Rows:
    """The draws z, moved to the estimates."""
    z = at.z
    moving = np.flatnonzero(np.any(found.below != 0, axis=0))
    target = averages(at.z[:, moving], found.knots[:, moving])[0] + found.below[:, moving]
    many = at.dim > rule.MANY
    for turn in range(2 if many else rule.ROUNDS):
        if len(moving):
            z = z.copy()
            z[:, moving] = _displaced(z[:, moving], found.knots[:, moving], target)
        whole = turn == 0 or not many
        z = at.at.push(_mapped(at.at.whiten(z), found.mean, found.second, whole))
    return z


def _displaced(z: Rows, knots: Float[np.ndarray, "knot d"], target: np.ndarray) -> Rows:
    """Draws with these averages of the smoothed distribution functions at the knots, nearly."""
    now, density = averages(z, knots)
    move = (now - target) / np.maximum(density, SMALLEST)
    move = np.clip(move, -rule.CLOSEST, rule.CLOSEST)
    # A knot never overtakes the next, and keeps a tenth of its distance to it.
    least = np.concatenate([np.zeros((1, knots.shape[1])), np.cumsum(np.diff(knots, axis=0), 0)])
    moved = np.maximum.accumulate(knots + move - 0.1 * least, axis=0) + 0.1 * least
    move = moved - knots
    displaced: Rows = z + _interpolated(np.clip(z, knots[0], knots[-1]), knots, move)
    return displaced


def _interpolated(z: Rows, knots: Knots, values: Knots) -> Rows:
    """Fritsch and Carlson's monotone cubics (pchip) of all coordinates at once."""
    width = np.diff(knots, axis=0)
    slope = np.diff(values, axis=0) / width
    first, second = 2 * width[1:] + width[:-1], width[1:] + 2 * width[:-1]
    alike = slope[1:] * slope[:-1] > 0
    safe = np.where(alike, slope[:-1], 1.0), np.where(alike, slope[1:], 1.0)
    inner = np.where(alike, (first + second) / (first / safe[0] + second / safe[1]), 0.0)
    ends = [_at_end(*width[:2], *slope[:2]), _at_end(*width[:-3:-1], *slope[:-3:-1])]
    slopes = np.concatenate([ends[0][None], inner, ends[1][None]])
    out = np.empty_like(z)
    for i, (place, t) in enumerate(zip(z.T, knots.T, strict=True)):
        k = np.clip(np.searchsorted(t, place, side="right") - 1, 0, len(t) - 2)
        h = width[k, i]
        u = (place - t[k]) / h
        start, end = values[k, i], values[k + 1, i]
        bend = h * slopes[k, i], h * slopes[k + 1, i]
        cubic = 2 * (start - end) + bend[0] + bend[1]
        out[:, i] = start + u * (bend[0] + u * (end - start - bend[0] - cubic * (1 - u)))
    return out


def _at_end(h: Ends, next_h: Ends, slope: Ends, next_slope: Ends) -> Ends:
    """The derivative at an end of the knots: that of a parabola, if it keeps the shape."""
    found = ((2 * h + next_h) * slope - h * next_slope) / (h + next_h)
    found = np.where(found * slope > 0, found, 0.0)
    turns = (slope * next_slope <= 0) & (np.abs(found) > 3 * np.abs(slope))
    bounded: np.ndarray = np.where(turns, 3 * slope, found)
    return bounded


def _mapped(
    y: Rows, mean: Float[np.ndarray, " d"], second: Float[np.ndarray, "..."] | None, whole: bool
) -> Rows:
    """Draws with this mean and these second moments, by the symmetric affine map.

    If not `whole`, covariances are near already, and near the identity, and the map is that to
    first order.
    """
    centre = y.mean(axis=0)
    if second is None:
        shifted: Rows = y + (mean - centre)
        return shifted
    y = y - centre
    if second.ndim == 1:
        now, wanted = np.mean(y**2, axis=0), second - mean**2
        factor = np.sqrt(np.maximum(wanted, SMALLEST) / np.maximum(now, SMALLEST))
        scaled: Rows = y * factor + mean
        return scaled
    now, wanted = y.T @ y / len(y), (second - np.outer(mean, mean)).astype(y.dtype)
    turn = symmetric_map(now, wanted) if whole else np.eye(len(mean)) + (wanted - now) / 2
    moved: Rows = y @ turn.astype(y.dtype) + mean
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
