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
BISECTED = 16  # probes that left the support, between which and their draws edges are looked for
HALVINGS = 24
VANISHED = 8.0  # an edge this far below the log densities of draws does no harm
HARMLESS = 0.025  # probes beyond an edge, in roots of the number of draws
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
    failed = has_edge(density, x[start], points, out)
    text = f"the log density is finite at {count - len(out)} of {count} places around the draws"
    if failed:
        text = (
            f"the log density ends between or beside draws, at {len(out)} of {count} places: its "
            "support has a hole, a corner or a wall. Use unbounded parameters"
        )
    return Finding("support", failed, text)


def has_edge(density: DensityRows, inside: Rows, outside: Rows, out: Int[np.ndarray, " m"]) -> bool:
    """Whether rows `out`, at which the density is not finite, show an edge that does harm.

    The density must not have vanished at the edge, which is found by bisection. The bias of a mean
    is at most about 7 sd times the share of such rows: below a sixth of a standard error it is let
    pass, for densities that fail numerically at few places.
    """
    if not len(out):
        return False
    some = inside[:: -(-len(inside) // BISECTED)]
    lowest = np.nanmin(density(some))
    rows = out[:: -(-len(out) // BISECTED)]
    a, b = inside[rows], outside[rows]
    first = last = density(a)
    for _ in range(HALVINGS):
        middle = (a + b) / 2
        value = density(middle)
        known = np.isfinite(value)[:, None]
        a, b = np.where(known, middle, a), np.where(known, b, middle)
        last = np.where(known[:, 0], value, last)
    hard = np.mean(last > np.maximum(first, lowest) - VANISHED) * len(out)
    return bool(hard > np.sqrt(len(inside)) * HARMLESS)


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
