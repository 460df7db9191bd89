"""Regression of functions of a draw on features of mean 0, with an intercept.

With coefficients beta, the mean of f is estimated by mean(f) - beta·mean(phi). That is an average
of f with weights w, which do not depend on f; the more they differ, the more these draws
determine beta.
"""

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import linalg

from srmc.coordinates.whiten import Rows
from srmc.rebalance import rule
from srmc.types import Float, Int

Columns = Float[np.ndarray, "n q"]


class Ridge:
    """Regressions on the same features: of all draws, and of all but those of a fold."""

    def __init__(self, phi: Rows):
        size = np.sqrt(np.einsum("np,np->p", phi, phi) / len(phi))
        self._phi = phi / np.maximum(size, 1e-150)
        self._mean = self._phi.mean(axis=0)
        self._phi -= self._mean
        self._factors: dict[tuple[int, float], Any] = {}

    def __len__(self) -> int:
        return len(self._phi)

    @functools.cached_property
    def _grams(self) -> Float[np.ndarray, "fold p p"]:
        return np.stack([self._phi[part].T @ self._phi[part] for part in folds(len(self._phi))])

    @functools.cached_property
    def _gram(self) -> Float[np.ndarray, "p p"]:
        total: np.ndarray = self._grams.sum(axis=0)
        return total

    def weights(self, ridge: float) -> Float[np.ndarray, " n"]:
        """w, with which mean(f) - beta·mean(phi) is w·f for every f; they sum to 1."""
        found: np.ndarray = 1 / len(self._phi) - self._phi @ self._solve(-1, ridge, self._mean)
        return found

    def errors(self, f: Columns, ridges: Sequence[float]) -> Float[np.ndarray, "ridge q"]:
        """With each ridge, the mean square of `left`, from Gram matrices alone."""
        f = f - f.mean(axis=0)
        parts, total = folds(len(f)), np.zeros((len(ridges), f.shape[1]))
        products = [self._phi[part].T @ f[part] for part in parts]
        whole = sum(products)
        for fold, part in enumerate(parts):
            count, others = part.stop - part.start, len(f) - (part.stop - part.start)
            # |a - a'|^2 over a part, with the mean a' of the others, where both sum to 0.
            more = 2 / others + count / others**2
            sum_f, sum_phi = f[part].sum(axis=0), self._phi[part].sum(axis=0)
            square = np.einsum("nq,nq->q", f[part], f[part]) + more * sum_f**2
            cross = products[fold] + more * np.outer(sum_phi, sum_f)
            for n, ridge in enumerate(ridges):
                beta = self._solve(fold, ridge, whole - products[fold])
                fitted = self._grams[fold] @ beta + more * np.outer(sum_phi, sum_phi @ beta)
                total[n] += square + np.sum(beta * (fitted - 2 * cross), axis=0)
        return np.maximum(total / len(f), 0.0)

    def left(self, f: Columns, ridge: float) -> Columns:
        """What regressions on the other folds leave of f, less their means."""
        rest, total = np.empty_like(f), self._phi.T @ (f - f.mean(axis=0))
        for fold, part in enumerate(folds(len(f))):
            phi, others = self._phi[part], len(f) - (part.stop - part.start)
            mean = (f.sum(axis=0) - f[part].sum(axis=0)) / others
            beta = self._solve(fold, ridge, total - phi.T @ (f[part] - f.mean(axis=0)))
            rest[part] = f[part] - mean - (phi + phi.sum(axis=0) / others) @ beta
        return rest

    def _solve(self, fold: int, ridge: float, right: np.ndarray) -> np.ndarray:
        """(gram + ridge)^-1 right, where the Gram matrix is without a fold, or whole for -1."""
        if (fold, ridge) not in self._factors:
            gram = self._gram - (self._grams[fold] if fold >= 0 else 0.0)
            gram[np.diag_indices_from(gram)] += ridge + 1e-12 * len(self._phi)
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


def averaged(f: Rows, sizes: Int[np.ndarray, " part"]) -> Rows:
    """Averages over successive parts of the rows, which have these sizes."""
    starts = np.cumsum(sizes) - sizes
    found: Rows = (np.add.reduceat(f, starts, dtype=float).T / sizes).T
    return found


def sizes_of(count: int) -> Int[np.ndarray, " part"]:
    """Of so many draws, how many each row of a regression is the average of."""
    return np.diff(np.linspace(0, count, min(rule.ROWS, count) + 1).astype(int))
