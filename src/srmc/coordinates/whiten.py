"""Coordinates in which draws are near white: z = (x - mu) / D and y = R^(-1/2) z.

A = D R D is the geometric mean of the covariance of the draws and the inverse covariance of their
scores. With L L^T = Cov(x) it is L (L^T Cov(s) L)^(-1/2) L^T. On a Gaussian scores are linear in
the draws, so that A is the covariance, and the centre, mean(x) + A mean(s), the mean, however few
the draws are. Of all roots, the symmetric one keeps y closest to z. In many dimensions R is the
identity, and nothing is d x d.
"""

from typing import NamedTuple

import numpy as np

from srmc.types import Float

DENSE = 256  # dimensions up to which R is a matrix if draws tell how, and up to which
LARGEST = 1024  # it is one if coordinates depend on each other, too
DRAWS_PER_DIMENSION = 1.5  # with fewer, R is that of these draws alone, and variances are too small
UNLIKE = 0.1  # share of a score's mean square that its own coordinate does not explain
RIDGE = 1e-2
SMALLEST = 1e-8  # eigenvalue of a correlation matrix

Rows = Float[np.ndarray, "n d"]


class Coordinates(NamedTuple):
    """mu, D, R^(1/2), its inverse and R; the last three are None for the identity."""

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
        return z if self.inverse is None else _times(z, self.inverse)

    def push(self, y: Rows) -> Rows:
        """What a move in y is in z, and what a score in z is in y."""
        return y if self.root is None else _times(y, self.root)

    def regress(self, moves: Rows) -> Rows:
        """R times the moves: each coordinate carries the others along by their regression on it."""
        return moves if self.correlation is None else _times(moves, self.correlation)


def _times(rows: Rows, matrix: Float[np.ndarray, "d d"]) -> Rows:
    """The product in the precision of the rows."""
    product: Rows = rows @ matrix.astype(rows.dtype, copy=False)
    return product


def whiten(x: Rows, s: Rows, dense: bool | None = None) -> Coordinates:
    """The coordinates of draws with these scores; `dense` is whether R is a matrix, if known."""
    count, dim = x.shape
    mean_x, mean_s = x.mean(axis=0), s.mean(axis=0)
    cx, cs = x - mean_x, s - mean_s
    variance = np.maximum(np.mean(cx**2, axis=0), 1e-300)
    if dense is None and dim <= DENSE:
        dense = dim == 1 or count >= DRAWS_PER_DIMENSION * dim
    if not dense:
        a = np.sqrt(variance / np.maximum(np.mean(cs**2, axis=0), 1e-300))
        if dense is False or not _is_worth_it(cx, cs, np.sqrt(a)):
            return Coordinates(mean_x + a * mean_s, np.sqrt(a), None, None, None)
    sd = np.sqrt(variance)
    cx, cs = cx / sd, cs * sd
    ridge = (RIDGE * (dim / (dim + count)) ** 4 + 1e-12) * np.eye(dim)
    lower = np.linalg.cholesky(cx.T @ cx / count + ridge)
    values, vectors = np.linalg.eigh(lower.T @ (cs.T @ cs / count) @ lower + ridge)
    lower = lower @ (vectors * np.maximum(values, 1e-6) ** -0.25)
    a = lower @ lower.T
    scale = np.sqrt(np.diag(a))
    values, vectors = np.linalg.eigh(a / np.outer(scale, scale))
    values = np.sqrt(np.maximum(values, SMALLEST))
    center = mean_x + sd * (a @ (sd * mean_s))
    root, inverse = (vectors * values) @ vectors.T, (vectors / values) @ vectors.T
    return Coordinates(center, sd * scale, root, inverse, root @ root)


def _is_worth_it(cx: Rows, cs: Rows, scale: Float[np.ndarray, " d"]) -> bool:
    """Whether many coordinates depend on each other, and draws are enough to know how."""
    count, dim = cx.shape
    if dim > LARGEST or count < DRAWS_PER_DIMENSION * dim:
        return False
    own = cs * scale  # minus z, if coordinates are independent and Gaussian
    return bool(np.sum((own + cx / scale) ** 2) > UNLIKE * np.sum(own**2))
