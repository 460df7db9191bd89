"""Is the mean of every Stein feature 0 under the target? Checks that find out before draws move.

It is not where the density has a wall or a jump, or where the score is not its gradient. The
t test sees what is large beside the run's own noise, and so draws of another density, too. The
others need the log density, and do not depend on that noise: the change of the log density between
two draws against an integral of the score, and a probe of what lies just beyond the draws.
"""

import functools
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from scipy import special

from srmc.coordinates.whiten import Rows
from srmc.metrics.errors import autocorrelation_time
from srmc.rebalance.features import Scored, scored
from srmc.rebalance.support import DensityRows, Finding, probe, probe_outwards
from srmc.types import Float, Int

CHANCE = 1e-5  # probability that a sound run fails the t test, over all features
BATCH = 8.0  # autocorrelation times at least, per batch of the t test
SEGMENTS = 32  # pairs of draws between which scores are integrated
FEW = 500  # draws, below which there are half as many segments
INTERVALS = (2, 4, 8, 16)  # of the rules that are tried on a segment in turn
NODES = 8  # of Gauss and Legendre's rule on a piece of a segment
REFINED = 8  # segments that are integrated again, in more pieces, if they disagree
PIECES = 64
AROUND = 8  # places on a segment at which rounding errors are measured,
STEP = 2.0**-11  # of its length, between the points there;
SAFETY = 8.0  # times their root mean square are allowed

Chains = Float[np.ndarray, "chain draw d"]
ScoreRows = Callable[[Rows], Rows]


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
        found += [_segments(x, s, score, density, rng), probe_outwards(x, density, rng)]
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


def _segments(
    x: Rows, s: Rows, score: ScoreRows, density: DensityRows, rng: np.random.Generator
) -> Finding:
    """log pi(b) - log pi(a) against the integral of the score from a to b, over pairs of draws.

    Most segments agree after a few nodes, and no more of them are evaluated there.
    """
    known = np.flatnonzero(np.all(np.isfinite(s), axis=1))
    if not len(known):
        return Finding("segments", False, "no draw has a finite score to begin with")
    x, s = x[known], s[known]
    count = SEGMENTS if len(x) >= FEW else SEGMENTS // 2
    first, second = rng.integers(0, len(x), (2, count))
    # Half of the segments lead from end to end of a coordinate, and so across any jump in it.
    across = rng.permutation(x.shape[1])[: count // 2]
    first[: len(across)] = np.argmin(x[:, across], axis=0)
    second[: len(across)] = np.argmax(x[:, across], axis=0)
    a, b = _representable(x[first]), _representable(x[second])
    ends = density(np.concatenate([a, b]))
    change = ends[count:] - ends[:count]
    rounding = 4 * _epsilon() * (np.abs(ends[:count]) + np.abs(ends[count:])) + 1e-3
    bad, once, twice = _disagreeing(score, a, b, (s[first], s[second]), change, rounding)
    if len(bad):
        rounding[bad] += _rounding(score, density, a[bad], b[bad])
        off = np.abs(change[bad] - twice)
        doubt = np.isfinite(off) & (off > 4 * np.abs(twice - once) + rounding[bad])
        bad = bad[doubt]
    share = len(bad) / count
    # A kink or a sharp peak is integrated better in more pieces, and a jump is not.
    doubtful = bad[:REFINED]
    off = np.zeros(0)
    if len(doubtful):
        a, b, change = a[doubtful], b[doubtful], change[doubtful]
        old, fine = (_integral(score, a, b, pieces) for pieces in (PIECES // 2, PIECES))
        off = np.abs(change - fine)
        bad = np.flatnonzero(off > 4 * np.abs(fine - old) + 2 * rounding[doubtful])
    failed = len(bad) >= 2 and 2 * len(bad) >= len(doubtful)
    text = f"the score integrates to the change of the log density on {count} segments"
    if failed:
        text = (
            f"on {share:.0%} of the segments between draws the log density changes by another "
            f"amount than its score says (by {np.median(off[bad]):.2g}, more than rounding "
            "explains): the log density may have a jump, or the score may not be its gradient"
        )
    return Finding("segments", failed, text)


def _disagreeing(
    score: ScoreRows,
    a: Rows,
    b: Rows,
    at_ends: tuple[Rows, Rows],
    change: Float[np.ndarray, " n"],
    rounding: Float[np.ndarray, " n"],
) -> tuple[Int[np.ndarray, " m"], Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    """Segments on which no rule agrees with the change, and their integrals by the last two.

    Clenshaw and Curtis's rules for 2, 4, 8 and 16 intervals, each with the nodes of the one before.
    """
    left = np.arange(len(change))
    along = lambda slopes, rows: np.sum(slopes * (b - a)[rows], axis=1)
    values = np.stack([along(slopes, left) for slopes in at_ends], axis=1)
    once = twice = np.full(len(change), np.nan)
    for intervals in INTERVALS:
        nodes, weights = _clenshaw_curtis(intervals)
        inner = nodes[1::2]
        points = a[left, None] + inner[None, :, None] * (b - a)[left, None]
        slopes = score(points.reshape(-1, a.shape[1])).reshape(points.shape)
        new = np.einsum("psd,pd->ps", slopes, (b - a)[left])
        joined = np.empty((len(left), intervals + 1))
        joined[:, ::2], joined[:, 1::2] = values, new
        once, twice = twice, joined @ weights
        more = ~(np.abs(change[left] - twice) <= rounding[left])
        left, values, once, twice = left[more], joined[more], once[more], twice[more]
        if not len(left):
            break
    return left, once, twice


@functools.cache
def _clenshaw_curtis(
    intervals: int,
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Nodes and weights on [0, 1]: exact for polynomials up to the degree `intervals`."""
    angles = np.pi * np.arange(intervals + 1) / intervals
    even = np.arange(0, intervals + 1, 2)
    # The integral of T_k over [-1, 1] is 2 / (1 - k^2) for even k; end terms of sums count half.
    halved = np.where((even == 0) | (even == intervals), 0.5, 1.0)
    weights = np.cos(np.outer(angles, even)) @ (halved * 2 / (1 - even**2)) / intervals
    weights[[0, -1]] /= 2
    return (1 - np.cos(angles)) / 2, weights


def _integral(score: ScoreRows, a: Rows, b: Rows, pieces: int) -> Float[np.ndarray, " n"]:
    """The integral of the score from a to b, by Gauss and Legendre's rule on equal pieces."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    at = np.concatenate([(k + (nodes + 1) / 2) / pieces for k in range(pieces)])
    points = a[:, None] + at[None, :, None] * (b - a)[:, None]
    slopes = score(points.reshape(-1, a.shape[1])).reshape(points.shape)
    along: np.ndarray = np.einsum("psd,pd->ps", slopes, b - a)
    return along @ np.tile(weights, pieces) / (2 * pieces)


def _rounding(score: ScoreRows, density: DensityRows, a: Rows, b: Rows) -> Float[np.ndarray, " n"]:
    """What rounding may change in the comparison on a segment, from what it does nearby.

    Over steps of about a thousandth of the segment, a wrong gradient changes next to nothing and
    a jump is hardly met, but rounding errors are as large as they are over the whole of it. So
    are those of terms that cancel, which the size of the log density does not show.
    """
    count, dim = a.shape
    at = np.linspace(STEP, 1 - STEP, AROUND)
    at = (at[:, None] + STEP * np.array([-1, 0, 1])).ravel()
    points = _representable(a[:, None] + at[None, :, None] * (b - a)[:, None])
    rows = points.reshape(-1, dim)
    with np.errstate(invalid="ignore"):
        slopes = score(rows).reshape(count, AROUND, 3, dim)
        values = density(rows).reshape(count, AROUND, 3)
        # The trapezium rule errs by the cube of the step, and rounding stands out.
        steps = np.diff(points.reshape(slopes.shape), axis=2)
        means = (slopes[:, :, 1:] + slopes[:, :, :-1]) / 2
        jitter = np.diff(values, axis=2) - np.sum(steps * means, axis=3)
        along = np.sum(slopes * (b - a)[:, None, None], axis=3)
        bend = np.diff(along, 2, axis=2)
    size = lambda x: np.sqrt(np.mean(np.nan_to_num(x, posinf=0, neginf=0) ** 2, axis=(1, 2)))
    changes: np.ndarray = SAFETY * (size(jitter) + size(bend))
    return changes


def _representable(x: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """The values rounded to JAX's precision."""
    return x.astype(jnp.zeros(()).dtype).astype(float)


def _epsilon() -> float:
    return float(jnp.finfo(jnp.zeros(()).dtype).eps)
