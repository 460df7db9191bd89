"""Does the log density change between two draws as its score says?

It does not where the density jumps, or where the score is not its gradient, however noisy the run
is. Some segments join any two draws. Others join those between which the scores at the ends explain
the change worst, and so find a jump that only few segments cross.
"""

import functools
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from srmc.coordinates.whiten import Rows
from srmc.rebalance.support import DensityRows, Finding
from srmc.types import Float, Int

SEGMENTS = 32  # pairs of draws between which scores are integrated
FEW = 500  # draws, below which there are half as many segments
INTERVALS = (2, 4, 8, 16)  # of the rules that are tried on a segment in turn
NODES = 8  # of Gauss and Legendre's rule on a piece of a segment
REFINED = 8  # segments that are integrated again, in more pieces, if they disagree
PIECES = 64
AROUND = 8  # places on a segment at which rounding errors are measured,
STEP = 2.0**-11  # of its length, between the points there;
SAFETY = 8.0  # times their root mean square are allowed
SCREENED = 256  # draws, between any two of which the change is compared with the trapezium rule

ScoreRows = Callable[[Rows], Rows]


def integrate_segments(
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
    first, second = _pairs(x, s, density, count, rng)
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


def _pairs(
    x: Rows, s: Rows, density: DensityRows, count: int, rng: np.random.Generator
) -> Int[np.ndarray, "2 n"]:
    """Draws that segments join: the least explained, ends of coordinates, and any two.

    Half of the segments lead from end to end of a coordinate, and so across any jump in it, or to
    any draw. The least explained come first.
    """
    pairs = rng.integers(0, len(x), (2, count))
    least = _least_explained(x, s, density, count // 2, rng)
    across = rng.permutation(x.shape[1])[: count // 4]
    ends = np.stack([np.argmin(x[:, across], axis=0), np.argmax(x[:, across], axis=0)])
    chosen = np.concatenate([least, ends], axis=1)
    pairs[:, : chosen.shape[1]] = chosen
    return pairs


def _least_explained(
    x: Rows, s: Rows, density: DensityRows, count: int, rng: np.random.Generator
) -> Int[np.ndarray, "2 n"]:
    """Pairs of different draws for which the trapezium rule errs most, beside pairs as distant.

    log pi(b) - log pi(a) - (s(a) + s(b)) . (b - a) / 2 grows with the third power of the distance,
    and across a jump it does not vanish with it.
    """
    some = rng.choice(len(x), min(len(x), SCREENED), replace=False)
    x, s = x[some], s[some]
    level, scale = density(_representable(x)), x.std(axis=0)
    z = (x - x.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    slope = (s * scale) @ z.T
    own, norm = np.diag(slope), np.sum(z**2, axis=1)
    off = level - level[:, None] - (slope - own[:, None] + own - slope.T) / 2
    cube = np.maximum(norm + norm[:, None] - 2 * z @ z.T, 0.0) ** 1.5
    one, other = np.triu_indices(len(x), 1)
    off, cube = np.abs(off[one, other]), cube[one, other]
    usable = np.isfinite(off) & (cube > 0)
    one, other, off, cube = (v[usable] for v in (one, other, off, cube))
    if not len(off):
        return np.zeros((2, 0), int)
    size = np.abs(level)
    rounding = 4 * _epsilon() * (size[one] + size[other]) + 1e-3
    order = np.argsort(-off / (rounding + np.median(off / cube) * cube))
    taken: list[int] = []
    for pair in zip(one[order], other[order], strict=True):
        if len(taken) == 2 * count:
            break
        if not set(pair) & set(taken):  # an error at one draw is one segment's alone
            taken += pair
    pairs: Int[np.ndarray, "2 n"] = some[np.array(taken, int).reshape(-1, 2).T]
    return pairs


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
