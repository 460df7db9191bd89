"""A triangular map of draws and their scores, and their Fisher divergence to a standard normal.

In standardised coordinates z, with the modulators h = z[:q] first,

    u = (z - m(h)) exp(-l(h)),
    t = log_scale + clip(slopes h),    l = t + log(w) / 2,    w = 1 / (1 + exp(2 (t - limit))),
    m = anchor + w (p - anchor),       p = shift + linear h + h' quadratic h.

The conditional precision exp(-2 l) is exp(-2 t) + exp(-2 limit), and m weighs p and the anchor by
their parts of it: the map of a normal hierarchy, whose prior (p, t) depends on h, and whose
likelihood (anchor, limit) does not. Far limits leave m = p and l = t.

The score of u follows from that of z, s: with y = z - m and J = du/dz,

    s_u = J^-T (s + grad log det dz/du) = exp(l) v,
    v_k = s_k                                                                 below the modulators,
    v_j = s_j + sum_k [v_k dm_k/dh_j + (v_k y_k + 1) dl_k/dh_j]               for modulator j,

from the last modulator to the first. With T = dt/dh_j and P = dp/dh_j, dl/dh_j = w T and
dm/dh_j = w (P - 2 (1 - w) (p - anchor) T). A row k of a modulator depends on earlier ones only.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import expit

from srmc.coordinates import rule
from srmc.types import Float, Int


class Weights(NamedTuple):
    """The numbers of the map of d coordinates, the q modulators first."""

    shift: Float[np.ndarray, " d"]
    log_scale: Float[np.ndarray, " d"]
    anchor: Float[np.ndarray, " d"]
    limit: Float[np.ndarray, " d"]
    linear: Float[np.ndarray, "d q"]
    slopes: Float[np.ndarray, "d q"]
    quadratic: Float[np.ndarray, "d q q"]

    @classmethod
    def none(cls, d: int, q: int) -> "Weights":
        """The identity."""
        zeros = np.zeros(d)
        limit = np.full(d, rule.NO_LIMIT)
        sides = np.zeros((d, q)), np.zeros((d, q)), np.zeros((d, q, q))
        return cls(zeros, zeros, zeros, limit, *sides)

    @property
    def limited(self) -> "Weights":
        """Weights from which limits can be found; far ones have no gradient."""
        return self._replace(limit=self.log_scale + rule.LIMIT, anchor=self.shift)

    @property
    def matrix(self) -> Float[np.ndarray, "d p"]:
        """All numbers, a row for each coordinate."""
        return np.concatenate([part.reshape(len(part), -1) for part in self], axis=1)

    def like(self, matrix: Float[np.ndarray, "d p"]) -> "Weights":
        """Weights of these shapes from a matrix."""
        q = self.linear.shape[1]
        ends = np.cumsum([1, 1, 1, 1, q, q])
        parts = zip(np.split(matrix, ends, axis=1), self, strict=True)
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


class Map(NamedTuple):
    """Locations and scales of rows, and what their derivatives need."""

    gap: Float[np.ndarray, "n d"]
    part: Float[np.ndarray, "n d"]
    location: Float[np.ndarray, "n d"]
    scale: Float[np.ndarray, "n d"]
    clipped: Clip

    def slopes(self, w: Weights, h: Float[np.ndarray, "n q"], j: int) -> "Slopes":
        """The derivatives by modulator j."""
        prior = w.linear[:, j] + 2 * h @ w.quadratic[:, j].T
        log_prior = self.clipped.slope * w.slopes[:, j]
        location = self.part * (prior - 2 * (1 - self.part) * self.gap * log_prior)
        return Slopes(prior, log_prior, location, self.part * log_prior)


class Slopes(NamedTuple):
    """Derivatives by a modulator: P, T, and those of the location and the log scale."""

    prior: Float[np.ndarray, "n d"]
    log_prior: Float[np.ndarray, "n d"]
    location: Float[np.ndarray, "n d"]
    log_scale: Float[np.ndarray, "n d"]


def placed(w: Weights, h: Float[np.ndarray, "n q"]) -> Map:
    """The locations and scales at modulators h."""
    gap = w.shift - w.anchor + h @ w.linear.T
    for j in range(h.shape[1]):
        gap += h[:, j : j + 1] * (h @ w.quadratic[:, j].T)
    clipped = clip(h @ w.slopes.T)
    t = w.log_scale + clipped.value
    part = expit(2 * (w.limit - t))
    return Map(gap, part, w.anchor + part * gap, np.exp(t) * np.sqrt(part), clipped)


class Mapped(NamedTuple):
    """Draws and scores in u, and what the gradient of their divergence needs."""

    u: Float[np.ndarray, "n d"]
    score: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, "n d"]
    v: Float[np.ndarray, "n d"]
    map: Map


def mapped(w: Weights, z: Float[np.ndarray, "n d"], s: Float[np.ndarray, "n d"]) -> Mapped:
    """The draws z and their scores in the coordinates of the map."""
    q = w.linear.shape[1]
    h = z[:, :q]
    at = placed(w, h)
    y, v = z - at.location, s.copy()
    for j in range(q)[::-1]:
        by = at.slopes(w, h, j)
        v[:, j] += np.sum(v * by.location + (v * y + 1) * by.log_scale, axis=1)
    return Mapped(y / at.scale, at.scale * v, y, v, at)


def unmapped(w: Weights, u: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """The draws z from u: the modulators one after the other, then the other coordinates."""
    q = w.linear.shape[1]
    h = np.zeros((len(u), q))
    for k in range(q):
        own = placed(w.rows(slice(k, k + 1)), h)
        h[:, k] = (own.location + u[:, k : k + 1] * own.scale)[:, 0]
    at = placed(w, h)
    z: np.ndarray = at.location + u * at.scale
    return z


def divergence(u: Float[np.ndarray, "n d"], score: Float[np.ndarray, "n d"]) -> float:
    """The Fisher divergence to a standard normal, each draw's share bounded softly."""
    bound = rule.SHARE * u.shape[1]
    share = np.sum((score + u) ** 2, axis=1)
    return float(bound * np.mean(np.log1p(share / bound)))
