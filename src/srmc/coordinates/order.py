"""Which coordinates modulate the others: found one by one, and judged on draws held out."""

from typing import NamedTuple

import numpy as np

from srmc.coordinates import rule
from srmc.coordinates.fit import fit
from srmc.coordinates.triangular import Mapped, Weights, divergence, mapped
from srmc.coordinates.whiten import Coordinates, whiten
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
        q = best.weights.linear.shape[1]
        tried = [(_with(best, a, q, fitted, held), a) for a in _candidates(best, fitted)]
        new, a = min(tried, key=lambda pair: pair[0].left)
        if q:
            new = min(new, _with(best, a, 0, fitted, held), key=lambda found: found.left)
        if not new.left < rule.BETTER * best.left:
            break
        best = _finished(new, fitted, held)
    return best


def _finished(found: Found, fitted: Rows, held: Rows) -> Found:
    """The map after further steps, with limits of the log scales if these clearly help."""
    starts = found.weights, found.weights.limited
    tried = [_fitted(found.order, w, fitted, held, rule.STEPS[1]) for w in starts]
    plain = min(found, tried[0], key=lambda found: found.left)
    return tried[1] if tried[1].left < rule.BETTER * plain.left else plain


def whitened(fitted: Rows, held: Rows) -> float:
    """The divergence of the held-out draws from a normal of any mean and covariance.

    The least of three: of the normal that the coordinates suggest, of one that is fitted to all
    draws, and of one that is fitted without those that have the largest shares of the divergence,
    since scores in the neck of a funnel are so large that they alone would decide.
    """
    x, s = fitted
    dense = x.shape[1] <= min(rule.DENSE_UP_TO, len(x) // 2)
    plain = divergence(*held)
    wide = whiten(x, s, dense=dense)
    shares = np.sum(np.add(*_white(wide, fitted)) ** 2, axis=1)
    inner = shares <= np.quantile(shares, rule.INNER)
    narrow = whiten(x[inner], s[inner], dense=dense)
    return min(plain, *(divergence(*_white(at, held)) for at in (wide, narrow)))


def _white(at: Coordinates, rows: Rows) -> Rows:
    x, s = rows
    return at.whiten(at.standardise(x)), at.push(s * at.scale)


def _candidates(found: Found, fitted: Rows) -> list[int]:
    """The next modulators to try: best for scales of others, their locations, both, or lines."""
    q = found.weights.linear.shape[1]
    z, s = (part[:, found.order] for part in fitted)
    at = mapped(found.weights, z, s)
    scales, locations = gains(at.u[:, q:], at.score[:, q:])
    found_gains = [scales + locations, scales, locations]
    if q:
        found_gains.append(_lines(at, z, q))
    tops = [int(np.argmax(gain)) for gain in found_gains]
    return [int(found.order[q + a]) for a in dict.fromkeys(tops)]


def _lines(at: Mapped, z: Float[np.ndarray, "n d"], q: int) -> Float[np.ndarray, " k"]:
    """The gain of each coordinate as a modulator of locations by a linear term, see `gains`.

    It is no affine map of u where scales vary: dr_k = -z_a / scale_k, and dr_a = scale_a v_k.
    """
    z, u, s, v = (part[:, q:] for part in (z, at.u, at.score, at.v))
    scale = at.map.scale[:, q:]
    r, weight = _residual(u, s)
    top = -(z * weight).T @ (r / scale) + (weight * r * scale).T @ v
    bottom = (z**2 * weight).T @ scale**-2.0 + (weight * scale**2).T @ v**2
    gain = top**2 / np.maximum(bottom, 1e-30)
    np.fill_diagonal(gain, 0)
    total: np.ndarray = gain.sum(axis=1)
    return total


def _residual(
    u: Float[np.ndarray, "n d"], s: Float[np.ndarray, "n d"]
) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "n 1"]]:
    """s + u, and the weights that draws have in the bounded divergence."""
    r = s + u
    share = np.sum(r**2, axis=1)
    return r, 1 / (1 + share / (rule.SHARE * u.shape[1]))[:, None] / len(u)


def gains(
    u: Float[np.ndarray, "n d"], s: Float[np.ndarray, "n d"]
) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
    """What each coordinate would gain as a modulator, of the scales and the locations of others.

    With r = s + u and dr its derivative by one weight at 0, a Gauss-Newton step along it lowers
    E|r|^2 by E[r dr]^2 / E|dr|^2. Draws have the weights of the bounded divergence.
    """
    r, weight = _residual(u, s)
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


def _with(found: Found, new: int, place: int, fitted: Rows, held: Rows) -> Found:
    """The map with a further modulator at this place among them, fitted from where it was."""
    q = found.weights.linear.shape[1]
    heads = np.insert(found.order[:q], place, new)
    order = np.array([*heads, *(k for k in found.order[q:] if k != new)])
    before = np.argsort(found.order)[order]
    rows = Weights(*(part[before] for part in found.weights))
    wider = rows._replace(
        linear=np.insert(rows.linear, place, 0, axis=1),
        slopes=np.insert(rows.slopes, place, 0, axis=1),
        quadratic=np.insert(np.insert(rows.quadratic, place, 0, axis=1), place, 0, axis=2),
    )
    return _fitted(order, wider.masked(), fitted, held, rule.STEPS[0])


def _fitted(
    order: Int[np.ndarray, " d"], start: Weights, fitted: Rows, held: Rows, steps: int
) -> Found:
    z, s = (np.ascontiguousarray(part[:, order]) for part in fitted)
    weights = fit(z, s, start, steps)
    one, other = mapped(weights, z, s), mapped(weights, *(part[:, order] for part in held))
    left = whitened((one.u, one.score), (other.u, other.score))
    return Found(order, weights, left if np.isfinite(left) else np.inf)
