"""Coordinates in which draws are near white.

They are z = (x - mu) / D and y = R^(-1/2) z, where D R D = A is the geometric mean of the
covariance of the draws and the inverse covariance of their scores (`srmc.sample.tune`). R is a
correlation matrix in up to 256 dimensions, and in up to 1,024 where coordinates depend on each
other and draws are enough to know how; elsewhere it is the identity, and nothing is d x d.
"""

from typing import NamedTuple

import numpy as np

from srmc.sample.tune import rule
from srmc.types import Float

DENSE_UP_TO = 1024  # dimensions, beyond which nothing is d x d; from rule.DENSE_UP_TO on, it takes
DRAWS_PER_DIMENSION = 0.5  # draws at least, and scores that differ from those of independent
UNLIKE = 0.1  # Gaussian coordinates by more than this share of their mean square
FAR = 3.0  # standard deviations beyond which draws are moved rigidly

Rows = Float[np.ndarray, "n d"]


class Coordinates(NamedTuple):
    """Where draws are near white: mu, D, and R^(1/2), its inverse and R; None for the identity."""

    center: Float[np.ndarray, " d"]
    scale: Float[np.ndarray, " d"]
    root: Float[np.ndarray, "d d"] | None
    inverse: Float[np.ndarray, "d d"] | None
    correlation: Float[np.ndarray, "d d"] | None

    def standardise(self, x: Rows) -> Rows:
        """z."""
        z: Rows = (x - self.center) / self.scale
        return z

    def restore(self, z: Rows) -> Rows:
        """x."""
        x: Rows = self.center + self.scale * z
        return x

    def whiten(self, z: Rows) -> Rows:
        """y."""
        return z if self.inverse is None else z @ self.inverse

    def push(self, y: Rows) -> Rows:
        """What a move in y is in z."""
        return y if self.root is None else y @ self.root

    def regress(self, moves: Rows) -> Rows:
        """R times the moves: each coordinate carries the others along by their regression on it."""
        return moves if self.correlation is None else moves @ self.correlation


def coordinates(x: Rows, s: Rows) -> Coordinates:
    """The coordinates of draws with these scores."""
    dim = x.shape[1]
    mean_x, mean_s = x.mean(axis=0), s.mean(axis=0)
    cx, cs = x - mean_x, s - mean_s
    variance = np.maximum(np.mean(cx**2, axis=0), 1e-300)
    if dim > rule.DENSE_UP_TO:
        a = np.sqrt(variance / np.maximum(np.mean(cs**2, axis=0), 1e-300))
        if not _is_worth_it(cx, cs, np.sqrt(a)):
            return Coordinates(mean_x + a * mean_s, np.sqrt(a), None, None, None)
    sd = np.sqrt(variance)
    cx, cs = cx / sd, cs * sd
    ridge = 1e-2 * (dim / (dim + len(x))) ** 4
    lower = np.linalg.cholesky(cx.T @ cx / len(x) + ridge * np.eye(dim))
    turned = cs @ lower
    values, vectors = np.linalg.eigh(turned.T @ turned / len(x) + ridge * np.eye(dim))
    lower = lower @ (vectors * np.maximum(values, 1e-6) ** -0.25)
    a = lower @ lower.T
    scale = np.sqrt(np.diag(a))
    values, vectors = np.linalg.eigh(a / np.outer(scale, scale))
    values = np.sqrt(np.maximum(values, 1e-8))
    center = mean_x + sd * (a @ (sd * mean_s))
    root, inverse = (vectors * values) @ vectors.T, (vectors / values) @ vectors.T
    return Coordinates(center, sd * scale, root, inverse, root @ root)


def _is_worth_it(cx: Rows, cs: Rows, scale: Float[np.ndarray, " d"]) -> bool:
    """Whether many coordinates depend on each other, and draws are enough to know how."""
    count, dim = cx.shape
    if dim > DENSE_UP_TO or count < DRAWS_PER_DIMENSION * dim:
        return False
    own = cs * scale  # minus z, if coordinates are independent and Gaussian
    return bool(np.sum((own + cx / scale) ** 2) > UNLIKE * np.sum(own**2))
