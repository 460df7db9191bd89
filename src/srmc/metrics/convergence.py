"""R-hat and E-BFMI, equal to ArviZ's, which takes a second to import."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike
from scipy import fft, special

from srmc.metrics.errors import as_draws, over_leaves
from srmc.types import Float, PyTree

Series = Float[np.ndarray, "chain draw k"]
Columns = Float[np.ndarray, " k"]
TIMES = 8.0  # autocorrelation times per cosine; the bias for an AR(1) chain is then -2%


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
    return np.maximum(*(_r_hat(x) for x in _halves(draws)))


def mixing_p_value(draws: Series) -> Columns:
    """The probability of an R-hat this large if all chains have one distribution.

    R-hat compares the means of half-chains. Their variance by chance is the spectral density at
    frequency 0 over the number of draws, and F = draws × Var(half-chain means) / density.
    """
    values = [_one_way(x) for x in _halves(draws)]
    return np.minimum(1.0, 2 * np.minimum(*values))


def _one_way(x: Series) -> Columns:
    """The p-values of F, with the density from the lowest frequencies of each half-chain.

    The squared coefficients of the first m cosines are independent estimates of the density below
    the frequency m / 2n, which for a chain of autocorrelation time t is flat up to about 1 / t.
    """
    groups, length, size = x.shape
    most = max(1, round(np.sqrt(length)))
    powers = np.mean(fft.dct(x, axis=1, norm="ortho")[:, 1 : most + 1] ** 2, axis=0)
    density = np.cumsum(powers, axis=0) / np.arange(1, most + 1)[:, None]
    variance = x.var(axis=1).mean(axis=0)
    at = lambda count: density[count - 1, np.arange(size)]
    count, before = np.full(size, most), np.zeros(size, int)
    while np.any(count != before):  # slow chains show their time at low frequencies only
        before = count
        allowed = length * variance / (TIMES * np.maximum(at(count), 1e-300))
        count = np.clip(allowed, 1, count).astype(int)
    between, within = length * x.mean(axis=1).var(axis=0, ddof=1), at(count)
    ratio = np.divide(between, within, out=np.full(size, np.inf), where=within > 0)
    return special.fdtrc(groups - 1, groups * count, ratio)


def _halves(draws: Series) -> Iterator[Float[np.ndarray, "half draw k"]]:
    """The normal scores of half-chains, and of their distances from the median."""
    half = draws.shape[1] // 2
    split = np.concatenate([draws[:, :half], draws[:, -half:]])
    yield normal_scores(split)
    yield normal_scores(np.abs(split - np.median(split, axis=(0, 1))))


def normal_scores(x: Series) -> Series:
    """The normal quantiles of the ranks of draws, over all chains."""
    flat = np.ascontiguousarray(x.reshape(-1, x.shape[2]).T)  # fast to sort
    count = flat.shape[1]
    of_ranks = _blom(np.arange(2, 2 * count + 1) / 2, count)  # 1, 1.5, ... count
    scores = np.empty(flat.shape)
    for row, out, order in zip(flat, scores, np.argsort(flat, axis=1), strict=True):
        out[order] = _in_order(row[order], of_ranks)
    return scores.T.reshape(x.shape)


def _in_order(x: Float[np.ndarray, " n"], of_ranks: np.ndarray) -> Float[np.ndarray, " n"]:
    """The scores of sorted numbers, of their mean ranks for ties: those of
    `scipy.stats.rankdata`, which takes a quarter of the time of a short run to import."""
    if np.isnan(x[-1]):  # the last one in order
        return np.full(x.shape, np.nan)
    differs = x[1:] != x[:-1]
    if np.all(differs):
        return of_ranks[::2]
    first = np.flatnonzero(np.append(True, differs))
    counts = np.diff(first, append=len(x))
    return np.repeat(of_ranks[2 * first + counts - 1], counts)


def _blom(ranks: Float[np.ndarray, " n"], count: int) -> Float[np.ndarray, " n"]:
    return special.ndtri((ranks - 0.375) / (count + 0.25))


def _r_hat(x: Series) -> Columns:
    length = x.shape[1]
    between = x.mean(axis=1).var(axis=0, ddof=1)
    within = x.var(axis=1, ddof=1).mean(axis=0)
    ratio = np.divide(between, within, out=np.full_like(within, np.nan), where=within > 0)
    return np.sqrt(ratio + (length - 1) / length)
