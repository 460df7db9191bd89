"""Fit a triangular map to scores: the Fisher divergence to a standard normal, and L-BFGS.

In standardised coordinates z, with the modulators h = z[:q] first,

    u = (z - m(h)) exp(-l(h)),    m = shift + linear h + h' quadratic h,
    l = log_scale + clip(slopes h),

and the score of u follows from that of z, s: with y = z - m and J = du/dz,

    s_u = J^-T (s + grad log det dz/du) = exp(l) v,
    v_k = s_k                                                                 below the modulators,
    v_j = s_j + sum_k [v_k dm_k/dh_j + (v_k y_k + 1) dl_k/dh_j]               for modulator j,

from the last modulator to the first. A row k of a modulator depends on earlier ones only.
"""

from typing import NamedTuple

import numpy as np
import scipy.optimize

from srmc.coordinates import rule
from srmc.types import Float, Int


class Weights(NamedTuple):
    """The numbers of the map of d coordinates, the q modulators first."""

    shift: Float[np.ndarray, " d"]
    log_scale: Float[np.ndarray, " d"]
    linear: Float[np.ndarray, "d q"]
    slopes: Float[np.ndarray, "d q"]
    quadratic: Float[np.ndarray, "d q q"]

    @classmethod
    def none(cls, d: int, q: int) -> "Weights":
        """The identity."""
        shapes = (d,), (d,), (d, q), (d, q), (d, q, q)
        return cls(*(np.zeros(shape) for shape in shapes))

    @property
    def flat(self) -> Float[np.ndarray, " parameter"]:
        return np.concatenate([part.ravel() for part in self])

    def like(self, flat: Float[np.ndarray, " parameter"]) -> "Weights":
        """Weights of these shapes from a vector."""
        ends = np.cumsum([part.size for part in self])[:-1]
        parts = zip(np.split(flat, ends), self, strict=True)
        return Weights(*(new.reshape(old.shape) for new, old in parts))

    def rows(self, chosen: slice | Int[np.ndarray, " k"]) -> "Weights":
        """The weights of some coordinates."""
        return Weights(*(part[chosen] for part in self))

    def masked(self) -> "Weights":
        """The weights that a triangular map may have: a modulator depends on earlier ones."""
        q = self.linear.shape[1]
        after = np.ones_like(self.linear)
        after[:q] = np.tri(q, k=-1)
        both = after[:, :, None] * after[:, None, :]
        quadratic = (self.quadratic + np.swapaxes(self.quadratic, 1, 2)) / 2
        return self._replace(
            linear=self.linear * after, slopes=self.slopes * after, quadratic=quadratic * both
        )


class Clip(NamedTuple):
    """A bounded function of a log scale, linear up to CLIP - 1, and its two derivatives."""

    value: Float[np.ndarray, "n d"]
    slope: Float[np.ndarray, "n d"]
    bend: Float[np.ndarray, "n d"]


def clip(x: Float[np.ndarray, "n d"]) -> Clip:
    """The C1 clip: the slope falls from 1 to 0 as |x| goes from CLIP - 1 to CLIP + 1."""
    size = np.abs(x)
    slope = np.clip((rule.CLIP + 1 - size) / 2, 0, 1)
    beyond = np.clip(size - (rule.CLIP - 1), 0, 2)
    value = np.sign(x) * (np.minimum(size, rule.CLIP - 1) + beyond - beyond**2 / 4)
    bend = np.where((slope > 0) & (slope < 1), -np.sign(x) / 2, 0.0)
    return Clip(value, slope, bend)


class Mapped(NamedTuple):
    """Draws and scores in u, and what the gradient of their divergence needs."""

    u: Float[np.ndarray, "n d"]
    score: Float[np.ndarray, "n d"]
    scale: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, "n d"]
    v: Float[np.ndarray, "n d"]
    clipped: Clip


def mapped(w: Weights, z: Float[np.ndarray, "n d"], s: Float[np.ndarray, "n d"]) -> Mapped:
    """The draws z and their scores in the coordinates of the map."""
    q = w.linear.shape[1]
    h = z[:, :q]
    y = z - w.shift - h @ w.linear.T
    for j in range(q):
        y -= h[:, j : j + 1] * (h @ w.quadratic[:, j].T)
    clipped = clip(h @ w.slopes.T)
    scale = np.exp(w.log_scale + clipped.value)
    v = s.copy()
    for j in range(q)[::-1]:
        v[:, j] += np.sum(
            v * _slope(w, h, j) + (v * y + 1) * clipped.slope * w.slopes[:, j], axis=1
        )
    return Mapped(y / scale, scale * v, scale, y, v, clipped)


def unmapped(w: Weights, u: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """The draws z from u: the modulators one after the other, then the other coordinates."""
    q = w.linear.shape[1]
    h = np.zeros((len(u), q))
    for k in range(q):
        h[:, k] = _placed(w.rows(slice(k, k + 1)), h, u[:, k : k + 1])[:, 0]
    return _placed(w, h, u)


def _placed(
    w: Weights, h: Float[np.ndarray, "n q"], u: Float[np.ndarray, "n d"]
) -> Float[np.ndarray, "n d"]:
    """m(h) + u exp(l(h))."""
    location = w.shift + h @ w.linear.T
    for j in range(h.shape[1]):
        location += h[:, j : j + 1] * (h @ w.quadratic[:, j].T)
    placed: np.ndarray = location + u * np.exp(w.log_scale + clip(h @ w.slopes.T).value)
    return placed


def _slope(w: Weights, h: Float[np.ndarray, "n q"], j: int) -> Float[np.ndarray, "n d"]:
    """The derivative of the location by modulator j."""
    found: np.ndarray = w.linear[:, j] + 2 * h @ w.quadratic[:, j].T
    return found


def divergence(
    u: Float[np.ndarray, "n d"], score: Float[np.ndarray, "n d"]
) -> Float[np.ndarray, ""]:
    """The Fisher divergence to a standard normal, each draw's share bounded softly."""
    bound = rule.SHARE * u.shape[1]
    share = np.sum((score + u) ** 2, axis=1)
    found: Float[np.ndarray, ""] = bound * np.mean(np.log1p(share / bound))
    return found


def _loss(
    flat: Float[np.ndarray, " parameter"],
    like: Weights,
    z: Float[np.ndarray, "n d"],
    s: Float[np.ndarray, "n d"],
) -> tuple[float, Float[np.ndarray, " parameter"]]:
    """The divergence with a ridge, and its gradient."""
    w = like.like(flat)
    n, d = z.shape
    q = w.linear.shape[1]
    h, at = z[:, :q], mapped(w, z, s)
    r = at.score + at.u
    share, bound = np.sum(r**2, axis=1), rule.SHARE * d
    loss = bound * np.mean(np.log1p(share / bound))
    dr = r * (2 / n / (1 + share / bound))[:, None]
    dv, dy, dl = at.scale * dr, dr / at.scale, (at.score - at.u) * dr
    slope, bend = at.clipped.slope, at.clipped.bend
    d_linear, d_slopes, d_quadratic = (np.zeros_like(part) for part in w[2:])
    d_lin = np.zeros_like(z)  # by what is clipped
    twist = at.v * at.y + 1
    for j in range(q):
        dv_j = dv[:, j : j + 1].copy()
        pull = dv_j * slope * w.slopes[:, j]
        dv += dv_j * _slope(w, h, j) + pull * at.y
        dy += pull * at.v
        by_location = dv_j * at.v
        d_linear[:, j] += by_location.sum(axis=0)
        d_quadratic[:, j] += 2 * by_location.T @ h
        d_slopes[:, j] += np.sum(dv_j * twist * slope, axis=0)
        d_lin += dv_j * twist * bend * w.slopes[:, j]
    d_lin += dl * slope
    d_slopes += d_lin.T @ h
    d_linear -= dy.T @ h
    for j in range(q):
        d_quadratic[:, j] -= (dy * h[:, j : j + 1]).T @ h
    gradient = Weights(-dy.sum(axis=0), dl.sum(axis=0), d_linear, d_slopes, d_quadratic).masked()
    ridge = rule.RIDGE * np.concatenate([np.zeros(2 * d), flat[2 * d :]])
    return float(loss + 0.5 * ridge @ flat), gradient.flat + ridge


def fit(
    z: Float[np.ndarray, "n d"], s: Float[np.ndarray, "n d"], start: Weights, steps: int
) -> Weights:
    """The weights of least divergence, from `start`."""
    found = scipy.optimize.minimize(
        _loss,
        start.flat,
        args=(start, z, s),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": steps, "maxfun": 2 * steps, "maxcor": 20, "ftol": 1e-4, "gtol": 1e-6},
    )
    return start.like(found.x).masked()
