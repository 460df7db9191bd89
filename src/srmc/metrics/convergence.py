"""R-hat and E-BFMI, equal to ArviZ's, which takes a second to import."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from srmc.metrics.errors import as_draws, over_leaves
from srmc.types import Float, PyTree

Series = Float[np.ndarray, "chain draw k"]
Columns = Float[np.ndarray, " k"]
BATCH = 5.0  # autocorrelation times per batch; batch means then vary 10% too little


def r_hat(draws: PyTree[ArrayLike]) -> PyTree[Float[np.ndarray, "..."]]:
    """The rank-normalised split R-hat of each coordinate.

    `draws` has axes (chain, draw, ...), with at least two chains and four draws. Each chain must
    have its own history: a shared history couples the chains, and R-hat would then indicate
    agreement that is not there. A coordinate that never moves has R-hat NaN.

    >>> white = np.random.default_rng(0).normal(size=(4, 1000))
    >>> bool(r_hat(white) < 1.01), bool(r_hat(white + np.arange(4)[:, None]) > 1.1)
    (True, True)
    """

    def one(leaf: ArrayLike) -> Float[np.ndarray, "..."]:
        x = as_draws(leaf)
        if x.shape[0] < 2 or x.shape[1] < 4:
            raise ValueError(f"draws must be of at least 2 chains and 4 draws, got shape {x.shape}")
        return rank_r_hat(x.reshape(*x.shape[:2], -1)).reshape(x.shape[2:])

    return over_leaves(one, draws)


def bfmi(energy: ArrayLike) -> Float[np.ndarray, " chain"]:
    """The energy Bayesian fraction of missing information of each chain (Betancourt, 2016).

    `energy`, (chain, draw), is in `result.stats` of HMC and NUTS. Below 0.3, the momentum that is
    drawn for each step changes the energy too little for the chain to reach the tails. A chain of
    fewer than two different finite energies has NaN.

    >>> rng = np.random.default_rng(0)
    >>> bfmi(np.stack([rng.normal(size=500), rng.normal(size=500).cumsum()])).round(1).tolist()
    [2.0, 0.0]
    """
    found = []
    for chain in np.asarray(energy, float):
        known = chain[np.isfinite(chain)]
        variance = known.var() if known.size else 0.0
        found.append(np.mean(np.diff(known) ** 2) / variance if variance > 0 else np.nan)
    return np.array(found)


def rank_r_hat(draws: Series) -> Columns:
    """The larger of the rank-normalised split R-hats of the draws and of their distances from the
    median (Vehtari et al., 2021); NaN where a coordinate never moves or draws are too few."""
    if draws.shape[1] < 4:
        return np.full(draws.shape[2], np.nan)
    larger: np.ndarray = np.maximum(*(_r_hat(x) for x in _halves(draws)))
    return larger


def mixing_p_value(draws: Series) -> Columns:
    """The probability of an R-hat this large if all chains have one distribution.

    R-hat compares the means of half-chains. The analysis of variance of their batch means gives
    the difference by chance: F = batches × Var(half-chain means) / Var(batch means within).
    """
    values = [_one_way(x) for x in _halves(draws)]
    smaller: np.ndarray = np.minimum(1.0, 2 * np.minimum(*values))
    return smaller


def _one_way(x: Series) -> Columns:
    """The p-values of an analysis of variance of batches longer than the autocorrelation time."""
    length = x.shape[1]
    pilot = max(1, round(np.sqrt(length)))
    within = _batches(x, pilot).var(axis=1, ddof=1).mean(axis=0)
    variance = x.var(axis=1).mean(axis=0)
    time = np.divide(pilot * within, variance, out=np.ones(len(within)), where=variance > 0)
    longer = 2 ** (np.ceil(2 * np.log2(np.maximum(BATCH * time, 1.0))) / 2)
    sizes = np.clip(longer, pilot, max(pilot, length // 2)).astype(int)
    found = np.ones(len(sizes))
    for size in np.unique(sizes):
        found[sizes == size] = _p_value(_batches(x[..., sizes == size], size))
    return found


def _p_value(means: Float[np.ndarray, "chain batch k"]) -> Columns:
    """That of the F test of equal means of chains."""
    groups, count, size = means.shape
    between = count * means.mean(axis=1).var(axis=0, ddof=1)
    within = means.var(axis=1, ddof=1).mean(axis=0)
    ratio = np.divide(between, within, out=np.full(size, np.inf), where=within > 0)
    found: np.ndarray = special.fdtrc(groups - 1, groups * (count - 1), ratio)
    return found


def _batches(x: Series, length: int) -> Float[np.ndarray, "chain batch k"]:
    """The means of batches, the last ones of each chain."""
    chains, draws, size = x.shape
    count = draws // length
    means: np.ndarray = x[:, -count * length :].reshape(chains, count, length, size).mean(axis=2)
    return means


def _halves(draws: Series) -> Iterator[Float[np.ndarray, "half draw k"]]:
    """The normal scores of half-chains, and of their distances from the median."""
    half = draws.shape[1] // 2
    split = np.concatenate([draws[:, :half], draws[:, -half:]])
    yield normal_scores(split)
    yield normal_scores(np.abs(split - np.median(split, axis=(0, 1))))


def normal_scores(x: Series) -> Series:
    """The normal quantiles of the ranks of draws, over all chains."""
    flat = np.ascontiguousarray(x.reshape(-1, x.shape[2]).T)  # fast to sort
    untied = _blom(np.arange(1.0, flat.shape[1] + 1), flat.shape[1])
    scores = np.empty(flat.shape)
    for row, out, order in zip(flat, scores, np.argsort(flat, axis=1), strict=True):
        ordered = row[order]
        if np.all(ordered[1:] > ordered[:-1]):
            out[order] = untied
        else:
            out[:] = _blom(_ranks(row), len(row))
    return scores.T.reshape(x.shape)


def _blom(ranks: Float[np.ndarray, " n"], count: int) -> Float[np.ndarray, " n"]:
    scores: np.ndarray = special.ndtri((ranks - 0.375) / (count + 0.25))
    return scores


def _ranks(x: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Ranks from 1, the mean of them for ties: `scipy.stats.rankdata`, which takes a quarter of
    the time of a short run to import."""
    if np.isnan(x).any():
        return np.full(x.shape, np.nan)
    order = np.argsort(x)
    ordered = x[order]
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    counts = np.diff(first, append=len(x))
    ranks = np.empty(len(x))
    ranks[order] = np.repeat(first + (counts + 1) / 2, counts)
    return ranks


def _r_hat(x: Series) -> Columns:
    length = x.shape[1]
    between = x.mean(axis=1).var(axis=0, ddof=1)
    within = x.var(axis=1, ddof=1).mean(axis=0)
    ratio = np.divide(between, within, out=np.full_like(within, np.nan), where=within > 0)
    r_hat: np.ndarray = np.sqrt(ratio + (length - 1) / length)
    return r_hat
