"""Fit a triangular map to scores, by Gauss-Newton steps.

The loss is the mean of bound log(1 + |r|^2 / bound), r = s_u + u, which is a weighted sum of
squares near each map. A step solves

    (J' W J + ridge + damping D) step = -gradient

by conjugate gradients. J and J' are products by hand. The residual of a coordinate that is no
modulator depends on its own row of weights, and the parts of a modulator's residual that depend on
different rows are nearly orthogonal. The blocks of single rows thus precondition the system well.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from srmc.coordinates import rule
from srmc.coordinates.triangular import Mapped, Slopes, Weights, divergence, mapped
from srmc.types import Float

Rows = Float[np.ndarray, "n d"]
Matrix = Float[np.ndarray, "d p"]
BLOCK = 2**22  # numbers in the Jacobians that are formed at a time


def fit(z: Rows, s: Rows, start: Weights, steps: int) -> Weights:
    """The weights of least divergence, from `start`, by at most `steps` steps."""
    ridge = np.where(np.arange(start.matrix.shape[1]) < 4, 0, rule.RIDGE)
    now, damping = Near.of(start, z, s), rule.DAMPING
    loss = now.loss(ridge)
    for _ in range(steps):
        step = now.step(ridge, damping)
        with np.errstate(all="ignore"):
            tried = Near.of(start.like(now.weights.matrix + step), z, s)
            new = tried.loss(ridge)
        if new < loss:
            gain, loss, now, damping = loss - new, new, tried, damping / 5
            if gain < rule.ENOUGH * (loss + rule.WORTH):
                break
        elif damping > rule.MOST_DAMPING:
            break
        else:
            damping *= 8
    return now.weights


class Near(NamedTuple):
    """Residuals r at weights, and their derivatives by these."""

    weights: Weights
    h: Float[np.ndarray, "n q"]
    at: Mapped
    by: list[Slopes]
    residual: Rows
    importance: Float[np.ndarray, "n 1"]

    @classmethod
    def of(cls, w: Weights, z: Rows, s: Rows) -> "Near":
        """The residuals of draws z with scores s."""
        h, at = z[:, : w.linear.shape[1]], mapped(w, z, s)
        r = at.score + at.u
        share = np.sum(r**2, axis=1, keepdims=True) / (rule.SHARE * z.shape[1])
        by = [at.map.slopes(w, h, j) for j in range(h.shape[1])]
        return cls(w, h, at, by, r, 2 / len(z) / (1 + share))

    def loss(self, ridge: Float[np.ndarray, " p"]) -> float:
        """The divergence, with a ridge."""
        loss = divergence(self.at.u, self.at.score)
        return loss + 0.5 * float(np.sum(ridge * self.weights.matrix**2))

    def step(self, ridge: Float[np.ndarray, " p"], damping: float) -> Matrix:
        """A damped Gauss-Newton step."""
        blocks = self.blocks()
        extra = ridge + damping * (blocks.diagonal(axis1=1, axis2=2) + rule.FLOOR)
        inverse = np.linalg.inv(blocks + extra[:, None] * np.eye(extra.shape[1]))

        def product(way: Matrix) -> Matrix:
            pushed = self.push(self.weights.like(way))
            return self.pull(self.importance * pushed) + extra * way

        gradient = self.pull(self.importance * self.residual) + ridge * self.weights.matrix
        return conjugate_gradients(
            product, lambda way: np.einsum("kab,kb->ka", inverse, way), -gradient
        )

    def push(self, way: Weights) -> Rows:
        """The derivative of the residuals in a direction of the weights."""
        w, h, at = self.weights, self.h, self.at.map
        y, v, part, rest = self.at.y, self.at.v, at.part, 1 - at.part
        turn = h @ way.slopes.T
        t = way.log_scale + at.clipped.slope * turn
        gap = way.shift - way.anchor + h @ way.linear.T
        for j in range(h.shape[1]):
            gap += h[:, j : j + 1] * (h @ way.quadratic[:, j].T)
        d_part = 2 * part * rest * (way.limit - t)
        d_location = way.anchor + part * gap + at.gap * d_part
        d_log_scale = part * t + rest * way.limit
        d_v = np.zeros_like(v)
        for j, by in reversed(list(enumerate(self.by))):
            prior = way.linear[:, j] + 2 * h @ way.quadratic[:, j].T
            log_prior = (
                at.clipped.slope * way.slopes[:, j] + at.clipped.bend * w.slopes[:, j] * turn
            )
            bent = gap * by.log_prior + at.gap * log_prior
            location = part * (prior - 2 * rest * bent)
            location += d_part * (by.prior - 2 * (rest - part) * at.gap * by.log_prior)
            log_scale = d_part * by.log_prior + part * log_prior
            terms = d_v * (by.location + y * by.log_scale) + (v * y + 1) * log_scale
            terms += v * (location - d_location * by.log_scale)
            d_v[:, j] += np.sum(terms, axis=1)
        pushed: Rows = (self.at.score - self.at.u) * d_log_scale
        return pushed + at.scale * d_v - d_location / at.scale

    def pull(self, dr: Rows) -> Matrix:
        """The derivative by the weights of a sum of residuals times `dr`."""
        w, h, at = self.weights, self.h, self.at.map
        y, v, part, rest = self.at.y, self.at.v, at.part, 1 - at.part
        dv, dy, dl = at.scale * dr, dr / at.scale, (self.at.score - self.at.u) * dr
        d_linear, d_slopes, d_quadratic = (np.zeros_like(side) for side in w[4:])
        d_turn, d_part, d_gap = (np.zeros_like(y) for _ in range(3))
        for j, by in enumerate(self.by):
            dv_j = dv[:, j : j + 1].copy()
            d_location, d_log_scale = dv_j * v, dv_j * (v * y + 1)
            dv += dv_j * (by.location + y * by.log_scale)
            dy += d_location * by.log_scale
            d_prior = d_location * part
            d_linear[:, j] += d_prior.sum(axis=0)
            d_quadratic[:, j] += 2 * d_prior.T @ h
            d_log_prior = d_log_scale * part - 2 * d_prior * rest * at.gap
            d_slopes[:, j] += np.sum(d_log_prior * at.clipped.slope, axis=0)
            d_turn += d_log_prior * at.clipped.bend * w.slopes[:, j]
            d_part += d_log_scale * by.log_prior
            d_part += d_location * (by.prior - 2 * (rest - part) * at.gap * by.log_prior)
            d_gap -= 2 * d_prior * rest * by.log_prior
        d_part -= dy * at.gap
        d_gap -= dy * part
        d_limit = dl * rest + 2 * d_part * part * rest
        d_t = dl - d_limit
        d_turn += d_t * at.clipped.slope
        d_slopes += d_turn.T @ h
        d_linear += d_gap.T @ h
        for j in range(h.shape[1]):
            d_quadratic[:, j] += (d_gap * h[:, j : j + 1]).T @ h
        shift, log_scale, anchor, limit = np.sum([d_gap, d_t, -dy - d_gap, d_limit], axis=1)
        sides = d_linear, d_slopes, d_quadratic
        return Weights(shift, log_scale, anchor, limit, *sides).masked().matrix

    def blocks(self) -> Float[np.ndarray, "d p p"]:
        """J' W J of each row's own weights and residual alone."""
        q, (d, p) = self.h.shape[1], self.weights.matrix.shape
        at, both = self.at.map, self.at.score - self.at.u
        rest, root = 1 - at.part, np.sqrt(self.importance)
        bent = 2 * at.part * rest * at.gap / at.scale
        prior, log_prior = -at.part / at.scale, both * at.part + bent
        sides = prior, log_prior, -rest / at.scale, both * rest - bent
        h = self.h[:, None]
        square = (self.h[:, :, None] * h).reshape(-1, 1, q * q)
        free = Weights(*(np.ones_like(part) for part in self.weights)).masked().matrix > 0
        found = np.empty((d, p, p))
        width = max(1, BLOCK // (len(h) * p))
        for first in range(0, d, width):
            k = slice(first, first + width)
            own = [(root * side)[:, k, None] for side in sides]
            slopes = own[1] * at.clipped.slope[:, k, None] * h
            jacobian = np.concatenate([*own, own[0] * h, slopes, own[0] * square], axis=2)
            jacobian = np.swapaxes(jacobian * free[k], 0, 1)
            found[k] = np.swapaxes(jacobian, 1, 2) @ jacobian
        return found


def conjugate_gradients(
    product: Callable[[Matrix], Matrix], precondition: Callable[[Matrix], Matrix], right: Matrix
) -> Matrix:
    """The solution of `product(x) = right`, precise enough for a Gauss-Newton step."""
    x, left = np.zeros_like(right), right
    z = way = precondition(left)
    first = size = np.vdot(left, z)
    for _ in range(rule.PRODUCTS):
        turned = product(way)
        length = size / max(np.vdot(way, turned), 1e-300)
        x, left = x + length * way, left - length * turned
        z = precondition(left)
        before, size = size, np.vdot(left, z)
        if not size > rule.PRECISION * first:
            break
        way = z + size / before * way
    return x
