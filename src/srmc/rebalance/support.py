"""Does the density end where draws are, or between them? Probes from the draws, and bisection.

A Stein feature has mean 0 if the density vanishes at the boundary of its support, and otherwise its
mean is a flux through the boundary. Of probes that start at draws and are of random direction, the
share that leave the support is proportional to that flux, whatever the shape of the support is. So
a probe that leaves it where the density does not vanish is reason enough to leave draws alone.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from srmc.coordinates.whiten import Rows
from srmc.types import Bool, Float, Int

PROBES = 256  # at least; else one per draw
REACH = 0.5  # of the difference of two draws, along which every second probe goes,
SHELL = 2.0  # but no more than this many standard deviations altogether
BISECTED = 32  # probes that left the support, of which the edge is looked for
HALVINGS = 24
VANISHED = 10.0  # the drop of the log density to the edge, from which on it has vanished
GROUPS = 16  # of coordinates, in which the density is followed outwards together,
PROBED = 1000  # and coordinates at most, one by one
OUTWARDS = 1.0  # standard deviations

DensityRows = Callable[[Rows], Float[np.ndarray, " n"]]


class Finding(NamedTuple):
    """What a check found: whether it failed, and in words."""

    name: str
    failed: bool
    text: str


def probe(x: Rows, density: DensityRows, rng: np.random.Generator) -> Finding:
    """Whether the density ends between draws, or next to them.

    Half of the probes lead towards another draw, to any place on the way, and half along the
    difference of two others, so that they have the scales and directions of the target.
    """
    count = max(len(x), PROBES)
    start = np.arange(count) % len(x)
    one, other = rng.integers(0, len(x), (2, count))
    towards = rng.random((count, 1)) * (x[other] - x[start])
    beside = min(REACH, SHELL / np.sqrt(2 * x.shape[1])) * (x[one] - x[other])
    points = x[start] + np.where(rng.random((count, 1)) < 0.5, towards, beside)
    out = np.flatnonzero(~np.isfinite(density(points)))
    edges = hard_edges(density, x[start[out]], points[out])
    text = f"the log density is finite at {count} places between and beside draws"
    if edges:
        text = (
            f"the log density ends between or beside draws, at {len(out)} of {count} places: its "
            "support has a hole, a corner or a wall. Use unbounded parameters"
        )
    elif len(out):
        text = f"the density vanishes before the log density ends, at {len(out)} of {count} places"
    return Finding("support", edges > 0, text)


def hard_edges(density: DensityRows, inside: Rows, outside: Rows) -> int:
    """On how many segments the density ends without vanishing, of the first few."""
    a, b = inside[:BISECTED].copy(), outside[:BISECTED].copy()
    if not len(a):
        return 0
    first = last = density(a)
    for _ in range(HALVINGS):
        middle = (a + b) / 2
        value = density(middle)
        known = np.isfinite(value)
        a[known], last = middle[known], np.where(known, value, last)
        b[~known] = middle[~known]
    return int(np.sum(last > first - VANISHED))


def probe_outwards(x: Rows, density: DensityRows, rng: np.random.Generator) -> Finding:
    """Whether the density ends just beyond the outermost draws of each coordinate.

    Of many coordinates several are tried at once, and one by one only if that finds something.
    """
    dim = x.shape[1]
    groups = np.array_split(rng.permutation(dim), min(dim, GROUPS))
    ends = _ends(x, density, groups)
    if dim > GROUPS and np.any(ends):
        groups = [np.array([i]) for g in np.flatnonzero(ends) for i in groups[g]][:PROBED]
        ends = _ends(x, density, groups)
    failed = bool(np.any(ends))
    text = f"the log density is finite beyond the outermost draws of {dim} coordinates"
    if failed:
        where = sorted(int(groups[g][0]) for g in np.flatnonzero(ends))
        text = (
            "the log density ends just beyond the draws, in coordinate "
            f"{', '.join(map(str, where[:5]))}: it has a wall. Use unbounded parameters"
        )
    return Finding("edges", failed, text)


def _ends(
    x: Rows, density: DensityRows, groups: list[Int[np.ndarray, " k"]]
) -> Bool[np.ndarray, " g"]:
    """Whether the density is not finite where a group of coordinates goes beyond all draws."""
    sd = x.std(axis=0)
    points = []
    for group in groups:
        for outermost, sign in ((np.argmin, -1.0), (np.argmax, 1.0)):
            rows = outermost(x[:, group], axis=0)
            point = x[rows[0]].copy()
            point[group] = x[rows, group] + sign * OUTWARDS * sd[group]
            points.append(point)
    values = density(np.stack(points)).reshape(len(groups), -1)
    ends: np.ndarray = np.any(~np.isfinite(values), axis=1)
    return ends
