"""Which coordinates modulate the others: found one by one, and judged on draws held out."""

from typing import NamedTuple

import numpy as np

from srmc.coordinates import rule
from srmc.coordinates.fit import Weights, divergence, fit, mapped
from srmc.coordinates.whiten import whiten
from srmc.types import Float, Int

Rows = tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "n d"]]  # draws, and their scores


class Found(NamedTuple):
    """Weights of coordinates in this order, modulators first, and the divergence they leave."""

    order: Int[np.ndarray, " d"]
    weights: Weights
    left: float


def search(fitted: Rows, held: Rows, before: float) -> Found:
    """Add modulators as long as each clearly lowers the held-out divergence, at first `before`."""
    d = fitted[0].shape[1]
    most = d - 1 if d <= rule.FULL_UP_TO else rule.MODULATORS
    best = Found(np.arange(d), Weights.none(d, 0), before)
    while best.weights.linear.shape[1] < most and best.left > rule.PRECISE * before:
        tried = [_with(best, a, fitted, held) for a in _candidates(best, fitted)]
        new = min(tried, key=lambda found: found.left)
        if not new.left < rule.BETTER * best.left:
            break
        further = _fitted(new.order, new.weights, fitted, held, rule.STEPS[1])
        best = min(new, further, key=lambda found: found.left)
    return best


def whitened(fitted: Rows, held: Rows) -> float:
    """The divergence of the held-out draws from a normal of any mean and covariance."""
    (x, s), (held_x, held_s) = fitted, held
    at = whiten(x, s, dense=x.shape[1] <= min(rule.DENSE_UP_TO, len(x) // 2))
    y, score = at.whiten(at.standardise(held_x)), at.push(held_s * at.scale)
    return float(divergence(y, score))


def _candidates(found: Found, fitted: Rows) -> list[int]:
    """The next modulators to try: best for the scales of others, for their locations, for both."""
    q = found.weights.linear.shape[1]
    at = mapped(found.weights, *(part[:, found.order] for part in fitted))
    scales, locations = gains(at.u[:, q:], at.score[:, q:])
    tops = [int(np.argmax(gain)) for gain in (scales + locations, scales, locations)]
    return [int(found.order[q + a]) for a in dict.fromkeys(tops)]


def gains(
    u: Float[np.ndarray, "n d"], s: Float[np.ndarray, "n d"]
) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
    """What each coordinate would gain as a modulator, of the scales and the locations of others.

    With r = s + u and dr its derivative by one weight at 0, a Gauss-Newton step along it lowers
    E|r|^2 by E[r dr]^2 / E|dr|^2. Draws have the weights of the bounded divergence.
    """
    r, n = s + u, len(u)
    weight = 1 / (1 + np.sum(r**2, axis=1) / (rule.SHARE * u.shape[1]))[:, None] / n
    square = u**2 - 1
    scales, locations = np.zeros(u.shape[1]), np.zeros(u.shape[1])
    width = max(1, 2**22 // u.shape[1])
    for first in range(0, u.shape[1], width):
        k = slice(first, first + width)
        uk, sk, rk = u[:, k], s[:, k], r[:, k]
        own, other = sk - uk, sk * uk + 1
        slope = (weight * rk * own).T @ u + (weight * other).T @ r
        size = (weight * own**2).T @ u**2 + np.sum(weight * other**2, axis=0)[:, None]
        bend = -(weight * rk).T @ square + 2 * (weight * sk).T @ (r * u)
        bend_size = np.sum(weight * square**2, axis=0) + 4 * (weight * sk**2).T @ u**2
        for total, top, bottom in ((scales, slope, size), (locations, bend, bend_size)):
            gain = top**2 / np.maximum(bottom, 1e-30)
            gain[np.arange(gain.shape[0]), first + np.arange(gain.shape[0])] = 0
            total += gain.sum(axis=0)
    return scales, locations


def _with(found: Found, new: int, fitted: Rows, held: Rows) -> Found:
    """The map with a further modulator, fitted from where it was."""
    q = found.weights.linear.shape[1]
    heads = [*found.order[:q], new]
    order = np.array([*heads, *(k for k in found.order[q:] if k != new)])
    before = np.argsort(found.order)[order]
    rows = Weights(*(part[before] for part in found.weights))
    wider = rows._replace(
        linear=np.pad(rows.linear, ((0, 0), (0, 1))),
        slopes=np.pad(rows.slopes, ((0, 0), (0, 1))),
        quadratic=np.pad(rows.quadratic, ((0, 0), (0, 1), (0, 1))),
    )
    return _fitted(order, wider, fitted, held, rule.STEPS[0])


def _fitted(
    order: Int[np.ndarray, " d"], start: Weights, fitted: Rows, held: Rows, steps: int
) -> Found:
    z, s = (np.ascontiguousarray(part[:, order]) for part in fitted)
    weights = fit(z, s, start, steps)
    one, other = mapped(weights, z, s), mapped(weights, *(part[:, order] for part in held))
    left = whitened((one.u, one.score), (other.u, other.score))
    return Found(order, weights, left if np.isfinite(left) else np.inf)
