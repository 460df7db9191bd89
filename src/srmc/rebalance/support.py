"""Does the density end where draws are, or between them? Probes from the draws, and bisection.

A Stein feature has mean 0 if the density vanishes at the boundary of its support, and otherwise its
mean is a flux through the boundary. Of probes that start at draws and are of random direction, the
share that leave the support is proportional to that flux, whatever the shape of the support is. So
a probe that leaves it where the density does not vanish is reason enough to leave draws alone.
Outside, the log density is not finite, or a number such as -1e10, which many write for -inf.
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
CLIFF = 30.0  # below the log densities of draws, a finite one may be that of the outside
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
    out = np.flatnonzero(is_outside(density, x[start], points))
    failed = has_edge(density, x[start], points, out)
    text = f"there is density at {count - len(out)} of {count} places around the draws"
    if failed:
        text = (
            f"the log density ends between or beside draws, at {len(out)} of {count} places: its "
            "support has a hole, a corner or a wall. Use unbounded parameters"
        )
    return Finding("support", failed, text)


def is_outside(density: DensityRows, inside: Rows, outside: Rows) -> Bool[np.ndarray, " n"]:
    """Where the log density is not finite, or far below draws and the row of `inside`."""
    values = density(outside)
    out: np.ndarray = ~np.isfinite(values)
    low = np.flatnonzero(~out & (values < _lowest(density, inside) - CLIFF))
    if len(low):
        out[low] = values[low] < density(inside[low]) - CLIFF
    return out


def has_edge(density: DensityRows, inside: Rows, outside: Rows, out: Int[np.ndarray, " m"]) -> bool:
    """Whether rows `out`, which are outside, show an edge that does harm.

    The density must not have vanished at the edge, which is found by bisection. The bias of a mean
    is at most about 7 sd times the share of such rows: below a sixth of a standard error it is let
    pass, for densities that fail numerically at few places.
    """
    if not len(out):
        return False
    rows = out[:: -(-len(out) // BISECTED)]
    hard = np.mean(_is_cliff(density, inside[rows], outside[rows], _lowest(density, inside)))
    return bool(hard * len(out) > np.sqrt(len(inside)) * HARMLESS)


def _lowest(density: DensityRows, inside: Rows) -> float:
    """The lowest log density of some draws."""
    return float(np.nanmin(density(inside[:: -(-len(inside) // BISECTED)])))


def _is_cliff(density: DensityRows, a: Rows, b: Rows, lowest: float) -> Bool[np.ndarray, " n"]:
    """Whether the density ends between a and b without having vanished; found by bisection."""
    first = last = density(a)
    floor = np.minimum(first, lowest) - CLIFF
    for _ in range(HALVINGS):
        middle = (a + b) / 2
        value = density(middle)
        known = np.isfinite(value) & (value >= floor)
        a, b = np.where(known[:, None], middle, a), np.where(known[:, None], b, middle)
        last = np.where(known, value, last)
    cliff: np.ndarray = last > np.maximum(first, lowest) - VANISHED
    return cliff


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
    text = f"there is density beyond the outermost draws of {dim} coordinates"
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
    """Whether there is no density where a group of coordinates goes beyond all draws.

    A finite log density far below those of draws needs an edge on the way; of several coordinates
    at once it may be what it is, and they are to be tried one by one.
    """
    sd = x.std(axis=0)
    inside, points = [], []
    for group in groups:
        for outermost, sign in ((np.argmin, -1.0), (np.argmax, 1.0)):
            rows = outermost(x[:, group], axis=0)
            point = x[rows[0]].copy()
            point[group] = x[rows, group] + sign * OUTWARDS * sd[group]
            inside.append(x[rows[0]])
            points.append(point)
    values, sizes = density(np.stack(points)), np.repeat([len(group) for group in groups], 2)
    ends: np.ndarray = ~np.isfinite(values)
    lowest = _lowest(density, x)
    low = np.flatnonzero(~ends & (values < lowest - CLIFF * sizes))
    alone = low[sizes[low] == 1]
    ends[low] = True
    if len(alone):
        a, b = (np.stack(rows)[alone] for rows in (inside, points))
        ends[alone] = _is_cliff(density, a, b, lowest)
    either: np.ndarray = np.any(ends.reshape(len(groups), 2), axis=1)
    return either
