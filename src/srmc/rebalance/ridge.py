"""Regression of functions of a draw on features of mean 0, with an intercept.

With coefficients beta, the mean of f is estimated by mean(f) - beta·mean(phi). That is an average
of f with weights w, which do not depend on f; the more they differ, the more the draws at hand
determine beta.
"""

import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

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
        self._factors: dict[tuple[int, float], Any] = {}

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
        found: np.ndarray = -self._mean @ self._solve(-1, ridge, right)
        return found

    def spread(self, ridge: float) -> float:
        """The mean of the squared weights: at least 1."""
        tilt = self._phi @ self._solve(-1, ridge, len(self._phi) * self._mean[:, None])
        return float(np.mean((1 - tilt) ** 2))

    def left(self, f: Columns, ridges: Sequence[float]) -> Iterator[Columns]:
        """With each ridge, what regressions on the other folds leave of f, less their means."""
        parts, phi = folds(len(f)), self._phi
        mean = f.mean(axis=0)
        products = [phi[part].T @ (f[part] - mean) for part in parts]
        whole = sum(products)
        # Averages of f and of phi over the other folds, the latter less that over all draws.
        others = [len(f) - (part.stop - part.start) for part in parts]
        total = f.sum(axis=0)
        averages = [
            (total - f[part].sum(axis=0)) / n for part, n in zip(parts, others, strict=True)
        ]
        off = [-phi[part].sum(axis=0) / n for part, n in zip(parts, others, strict=True)]
        for ridge in ridges:
            rest = np.empty_like(f)
            for fold, part in enumerate(parts):
                beta = self._solve(fold, ridge, whole - products[fold])
                rest[part] = f[part] - (averages[fold] - off[fold] @ beta) - phi[part] @ beta
            yield rest

    def _solve(self, fold: int, ridge: float, right: np.ndarray) -> np.ndarray:
        """(gram + ridge)^-1 right, where the Gram matrix is without a fold, or whole for -1."""
        if (fold, ridge) not in self._factors:
            gram = self._gram - (self._grams[fold] if fold >= 0 else 0.0)
            gram[np.diag_indices_from(gram)] += ridge + 1e-12 * float(np.trace(gram)) / len(gram)
            self._factors[fold, ridge] = linalg.cho_factor(
                gram.T, overwrite_a=True, check_finite=False
            )
        solved: np.ndarray = linalg.cho_solve(self._factors[fold, ridge], right, check_finite=False)
        return solved


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
