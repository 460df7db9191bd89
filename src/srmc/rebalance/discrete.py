"""Means of functions of draws on a discrete space, by regressions on Gibbs residuals.

The residual r_i = E[x_i given the rest] - x_i has mean 0 given the rest, and so has its product
with any function of the rest. With few sites, functions are regressed on the residuals, or on these
and products. With many, the mean of f is estimated by

    mean(f - s r·G^-1 c),  c = Cov(r, f),  G = Cov(r),

where G is sparse: E[r_i r_j] = 0 unless the law of site i depends on site j, since r_j then does
not depend on x_i. No array has a number for each pair of sites.
"""

import functools

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from srmc.metrics.errors import batch_means_error
from srmc.metrics.tails import plain_error
from srmc.rebalance import rule
from srmc.rebalance.choose import Bank, mean_square
from srmc.rebalance.fit import Block, Estimate, Fit
from srmc.rebalance.ridge import Columns, folds, plain_left
from srmc.types import Bool, Float, Int

Rows = Float[np.ndarray, "n d"]

NEIGHBOURS = 32  # of a site at most, by the correlation of residuals
SURE = 4.0  # standard errors from 0 of a correlation that counts,
SEEN_BY = 4096  # at so many draws at most
RIDGE = 0.02  # of the sparse Gram matrix, in units of its diagonal
FUNCTIONS_AT_ONCE = 64
SITES_AT_ONCE = 256


def regressions(residuals: Block, products: Block | None = None) -> "Fit | MeanField":
    """The regressions on the residuals of draws, and on products with other sites, if known."""
    chains, draws, dim = residuals.shape
    if dim > rule.FEATURES or 2 * dim > chains * draws:
        return MeanField(residuals)
    flat = [v.reshape(chains * draws, -1) for v in (residuals, products) if v is not None]
    names = ("residuals", "residuals and products")
    parts = {name: flat[: n + 1] for n, name in enumerate(names[: len(flat)])}
    bank = {name: np.concatenate(part, axis=1).astype(float) for name, part in parts.items()}
    return Fit(Bank(bank), np.ones(chains * draws, bool))


class MeanField:
    """Regressions on the residuals of many sites, with coefficients G^-1 Cov(r, f)."""

    def __init__(self, residuals: Block):
        flat = residuals.reshape(-1, residuals.shape[2])
        scale = np.maximum(np.sqrt(mean_square(flat)), 1e-12)
        self._phi = (flat / scale).astype(np.float32)

    @functools.cached_property
    def _solved(self) -> Rows:
        """G^-1 r of each draw: G is symmetric, so that no function needs a solution of its own."""
        gram = _sparse_gram(self._phi)
        factor = splu((gram + RIDGE * sparse.eye_array(gram.shape[0])).tocsc())
        out = np.empty_like(self._phi)
        for start in range(0, len(out), SITES_AT_ONCE):
            part = slice(start, start + SITES_AT_ONCE)
            out[part] = factor.solve(self._phi[part].T.astype(float)).T
        return out

    def estimate(self, values: Block, otherwise: Estimate | None = None) -> Estimate:
        """Means of functions with these values at the draws, and their standard errors.

        Coefficients for a part of the run come from the others: all of Cov(r, f), or what stands
        out of the noise, or none, whichever predicts best. Without a gain, the estimate is
        `otherwise`, or the average.
        """
        flat = np.asarray(values, float).reshape(-1, values.shape[2])
        mean, error = otherwise or (flat.mean(axis=0), plain_error(values))
        if not np.all(np.isfinite(flat)):
            return mean, error
        mean, error = mean.copy(), error.copy()
        for start in range(0, flat.shape[1], FUNCTIONS_AT_ONCE):
            part = slice(start, start + FUNCTIONS_AT_ONCE)
            left, better = self._left(flat[:, part])
            found = batch_means_error(left.reshape(*values.shape[:2], -1))
            mean[part] = np.where(better, left.mean(axis=0), mean[part])
            error[part] = np.where(better, found, error[part])
        return mean, error

    def _left(self, f: Columns) -> tuple[Columns, Bool[np.ndarray, " q"]]:
        """What the best candidate leaves of functions, and whether it is better than nothing."""
        best, least = f.copy(), mean_square(plain_left(f))
        better = np.zeros(f.shape[1], bool)
        centred = f - f.mean(axis=0)
        parts, single = folds(len(f)), centred.astype(np.float32)
        products = [self._phi[part].T @ single[part] for part in parts]
        size, whole = np.sqrt(mean_square(centred)), np.sum(products, axis=0)
        for sure in (0.0, SURE):
            explained = np.empty_like(f)
            for part, own in zip(parts, products, strict=True):
                count = len(f) - (part.stop - part.start)
                c = (whole - own) / count
                c = np.where(np.abs(c) >= sure * size / np.sqrt(count), c, 0.0)
                explained[part] = self._solved[part] @ (sparse.csc_array(c) if sure else c)
            off = explained - explained.mean(axis=0)
            slope = np.sum(off * centred, axis=0) / np.maximum(np.sum(off**2, axis=0), 1e-30)
            left = f - slope * explained
            now = mean_square(plain_left(left))
            best = np.where(now < least, left, best)
            better |= now < least
            least = np.minimum(least, now)
        return best, better


def _sparse_gram(phi: Rows) -> sparse.csr_array:
    """Correlations of residuals, scaled to mean square 1, of sites that depend on each other."""
    dim = phi.shape[1]
    i, j = neighbours(phi)
    i, j = np.concatenate([i, np.arange(dim)]), np.concatenate([j, np.arange(dim)])
    values = np.empty(len(i))
    for start in range(0, len(i), SITES_AT_ONCE):
        part = slice(start, start + SITES_AT_ONCE)
        values[part] = np.mean(phi[:, i[part]] * phi[:, j[part]], axis=0)
    return sparse.csr_array((values, (i, j)), shape=(dim, dim))


def neighbours(phi: Rows) -> tuple[Int[np.ndarray, " pair"], Int[np.ndarray, " pair"]]:
    """The pairs i != j, in both orders, whose residuals correlate beyond noise, strongest first.

    The residuals are scaled to mean square 1.
    """
    count, dim = phi.shape
    some = np.ascontiguousarray(phi[:: -(-count // SEEN_BY)])
    most = min(NEIGHBOURS, dim - 1)
    found = [np.zeros((3, 0))]
    for start in range(0, dim if most else 0, SITES_AT_ONCE):
        block = np.abs(some[:, start : start + SITES_AT_ONCE].T @ some) / len(some)
        own = np.arange(len(block))
        block[own, start + own] = 0.0
        near = np.argpartition(-block, most - 1, axis=1)[:, :most]
        strength = np.take_along_axis(block, near, 1)
        row, place = np.nonzero(strength > SURE / np.sqrt(len(some)))
        i, j, by = start + row, near[row, place], strength[row, place]
        found += [np.stack([i, j, by]), np.stack([j, i, by])]
    i, j, by = np.concatenate(found, axis=1)
    pairs, first = np.unique((i * dim + j).astype(int), return_index=True)
    pairs = pairs[np.argsort(-by[first], kind="stable")]
    return np.divmod(pairs, dim)
