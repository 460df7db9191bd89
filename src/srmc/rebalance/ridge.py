"""Regression of functions of a draw on features of mean 0, with an intercept.

With coefficients beta, the mean of f is estimated by mean(f) - beta·mean(phi). That is an average
of f with weights w, which do not depend on f; the more they differ, the more the draws at hand
determine beta.
"""

import functools
import itertools

import numpy as np
from scipy import linalg

from srmc.coordinates.whiten import Rows
from srmc.rebalance import rule
from srmc.types import Float

Columns = Float[np.ndarray, "n q"]


class Ridge:
    """Regressions on the same features: of all draws, and of all but those of a fold."""

    def __init__(self, phi: Rows):
        size = np.maximum(np.sqrt(np.mean(phi**2, axis=0)), 1e-150)
        phi = phi / size
        self._mean = phi.mean(axis=0)
        self._phi = phi - self._mean

    @functools.cached_property
    def _grams(self) -> Float[np.ndarray, "fold p p"]:
        return np.stack([self._phi[part].T @ self._phi[part] for part in folds(len(self._phi))])

    @functools.cached_property
    def _gram(self) -> Float[np.ndarray, "p p"]:
        total: np.ndarray = self._grams.sum(axis=0)
        return total

    def correction(self, f: Columns, ridge: float) -> Float[np.ndarray, " q"]:
        """-beta·mean(phi): what the regression adds to the means of f."""
        right = self._phi.T @ (f - f.mean(axis=0))
        found: np.ndarray = -self._mean @ _solve(self._gram, ridge, right)
        return found

    def spread(self, ridge: float) -> float:
        """The mean of the squared weights: at least 1."""
        tilt = self._phi @ _solve(self._gram, ridge, len(self._phi) * self._mean[:, None])
        return float(np.mean((1 - tilt) ** 2))

    def left(self, f: Columns, ridge: float) -> Columns:
        """What regressions on the other folds leave of f, less their estimates of its mean."""
        rest = np.empty_like(f)
        for part, (beta, mean) in zip(folds(len(f)), self._without(f, ridge), strict=True):
            rest[part] = f[part] - mean - (self._phi[part] + self._mean) @ beta
        return rest

    def _without(self, f: Columns, ridge: float) -> list[tuple[np.ndarray, np.ndarray]]:
        """Coefficients from all but one fold, and the estimate of the mean that they give."""
        parts, phi = folds(len(f)), self._phi
        mean, total = f.mean(axis=0), f.sum(axis=0)
        products = [phi[part].T @ (f[part] - mean) for part in parts]
        whole = sum(products)
        found = []
        for part, gram, product in zip(parts, self._grams, products, strict=True):
            beta = _solve(self._gram - gram, ridge, whole - product)
            others = len(f) - (part.stop - part.start)
            average = (total - f[part].sum(axis=0)) / others
            phi_mean = self._mean - phi[part].sum(axis=0) / others
            found.append((beta, average - phi_mean @ beta))
        return found


def folds(count: int) -> list[slice]:
    """Contiguous parts of the draws, chain after chain: whole chains if these are many."""
    ends = np.linspace(0, count, min(rule.FOLDS, count) + 1).astype(int)
    return [slice(start, end) for start, end in itertools.pairwise(ends)]


def plain_left(f: Columns) -> Columns:
    """What is left of f beside its mean over the other folds."""
    rest, total = np.empty_like(f), f.sum(axis=0)
    for part in folds(len(f)):
        others = len(f) - (part.stop - part.start)
        rest[part] = f[part] - (total - f[part].sum(axis=0)) / max(others, 1)
    return rest


def _solve(gram: np.ndarray, ridge: float, right: np.ndarray) -> np.ndarray:
    """(gram + ridge)^-1 right."""
    size = len(gram)
    ridge = ridge + 1e-12 * float(np.trace(gram)) / size
    solved: np.ndarray = linalg.solve(
        gram + ridge * np.eye(size), right, assume_a="pos", check_finite=False
    )
    return solved
