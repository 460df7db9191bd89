"""Is the mean of every Stein feature 0 under the target? Checks that find out before draws move.

It is not where the density has a wall or a jump, or where the score is not its gradient. The
t test sees what is large compared with the noise of the run, such as draws of another density. The
others need the log density, and do not depend on that noise: the change of the log density between
two draws against an integral of the score, and a probe of what lies just beyond the draws.
"""

import numpy as np
from scipy import special

from srmc.metrics.errors import autocorrelation_time
from srmc.rebalance.features import Scored, scored
from srmc.rebalance.segments import ScoreRows, integrate_segments
from srmc.rebalance.support import DensityRows, Finding, probe, probe_outwards
from srmc.types import Float

CHANCE = 1e-5  # probability that a sound run fails the t test, over all features
BATCH = 8.0  # autocorrelation times at least, per batch of the t test

Chains = Float[np.ndarray, "chain draw d"]


def check_assumption(
    chains: Chains,
    scores: Chains,
    score: ScoreRows | None,
    density: DensityRows | None,
    exact: bool = True,
    at: Scored | None = None,
) -> tuple[Finding, ...]:
    """All checks that these arguments allow; if not `exact`, draws need not be of the target.

    `at` are the draws in their coordinates, if these are known.
    """
    found = [_mean_score(chains, scores, at)] if exact else []
    if density is not None and score is not None:
        rng = np.random.default_rng(0)
        x = chains.reshape(-1, chains.shape[2])
        s = scores.reshape(x.shape)
        found += [integrate_segments(x, s, score, density, rng), probe_outwards(x, density, rng)]
        found.append(probe(x, density, rng))
    return tuple(found)


def _mean_score(chains: Chains, scores: Chains, at: Scored | None) -> Finding:
    """t tests of the means of s, of 1 + y s and of its average over whitened coordinates y."""
    dim = chains.shape[2]
    if chains[..., 0].size < 32 or chains.shape[1] < 4:
        return Finding("mean score", False, "too few draws to test the mean score")
    x, s = chains.reshape(-1, dim), np.where(np.isfinite(scores), scores, 0.0).reshape(-1, dim)
    at = scored(x, s) if at is None else at
    second = 1 + (at.y - at.y.mean(axis=0)) * at.s
    linear = np.concatenate([at.s, second, second.mean(axis=1, keepdims=True)], axis=1)
    t, limit = least_likely(linear.reshape(*chains.shape[:2], -1))
    failed = t > limit
    text = f"the least likely mean of a Stein feature is {t:.1f} standard errors from 0"
    if failed:
        text += (
            f", and chance allows {limit:.1f}: either the draws have not converged, or they are "
            "not of this log density (other data, another prior or likelihood, a wall, a jump or "
            "a wrong gradient)"
        )
    return Finding("mean score", failed, text)


def least_likely(
    features: Float[np.ndarray, "chain draw k"],
    shortest: float | None = None,
    chance: float = CHANCE,
) -> tuple[float, float]:
    """The t value of least probability, and what chance allows it to be among all.

    Batches have `shortest` autocorrelation times at least, by default 8 and the root of the number
    of draws; fewer suffice for values that are averages of batches themselves.
    """
    t, degrees = _t_of_means(features, shortest)
    at = int(np.argmin(special.stdtr(degrees, -t)))
    return float(t[at]), -float(special.stdtrit(degrees[at], chance / (2 * len(t))))


def _t_of_means(
    features: Float[np.ndarray, "chain draw k"], shortest: float | None
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    """|mean| over its standard error, and degrees of freedom, from batches of all chains.

    Batches are several autocorrelation times long. Few of them, of a slow chain, have few degrees
    of freedom, and their errors include the differences between chains.
    """
    chains, draws, size = features.shape
    mean = np.abs(features.mean(axis=(0, 1)))
    least, times = (draws**0.5, BATCH) if shortest is None else (1.0, shortest)
    found = np.maximum(least, times * autocorrelation_time(features))
    lengths = np.minimum(2 ** np.ceil(np.log2(found)), draws).astype(int)
    t, degrees = np.zeros(size), np.ones(size)
    for length in np.unique(lengths):
        columns, count = lengths == length, draws // length
        if chains * count < 2:
            continue
        kept = features[:, -count * length :, columns]
        means = kept.reshape(chains * count, length, -1).mean(axis=1)
        error = means.std(axis=0, ddof=1) / np.sqrt(len(means))
        t[columns] = mean[columns] / np.maximum(error, 1e-9)
        degrees[columns] = len(means) - 1
    return t, degrees
