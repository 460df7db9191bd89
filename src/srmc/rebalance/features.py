"""Stein features of draws: for a field g, div g + g·s has mean 0 under the target.

The coordinates z and y of `srmc.coordinates.whiten`, and scores in their units, s_z and s_y:

    translations    e_k                     s_yk
    scalings        y_k e_k                 1 + y_k s_yk
    linear maps     y_j e_i, symmetric      delta_ij + (y_i s_yj + y_j s_yi) / 2
    marginal        h_k(z_i) R[:, i]        psi_k = h_k'(z_i) + h_k(z_i) (R s_z)_i
    products        (y_i y_j - delta_ij) e_k

where h_k are Hermite polynomials. Of z, and of y in products, what is beyond ±3 is cut off, so
that far draws move rigidly; the derivative is 0 there, and means stay exactly 0. On a Gaussian
psi_k is -h_{k+1}(z_i).
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from srmc.coordinates.whiten import Coordinates, Rows, whiten
from srmc.rebalance import rule
from srmc.rebalance.ridge import averaged, sizes_of
from srmc.types import Float, Int

SCORED_AT_ONCE = 2**14  # draws whose features are held at once, if there are many


class Scored(NamedTuple):
    """Draws in both coordinates, s_y, and R s_z; chains one after the other."""

    at: Coordinates
    z: Rows
    y: Rows
    s: Rows
    own: Rows

    @property
    def dim(self) -> int:
        return len(self.at.scale)


def scored(x: Rows, s: Rows) -> Scored:
    """Draws with their scores, in the coordinates that these draws determine.

    In many dimensions they are in single precision: all are of order 1.
    """
    at = whiten(x, s)
    z, s = at.standardise(x), s * at.scale
    if len(at.scale) > rule.MANY:
        z, s = z.astype(np.float32), s.astype(np.float32)
    return Scored(at, z, at.whiten(z), at.push(s), at.regress(s))


def pairs(dim: int) -> tuple[Int[np.ndarray, " p"], Int[np.ndarray, " p"]]:
    """i <= j of the second moments, in their order."""
    rows, columns = np.triu_indices(dim)
    return rows, columns


def linear(at: Scored) -> Rows:
    """The features of all symmetric linear maps."""
    i, j = pairs(at.dim)
    found: Rows = (i == j) + (at.y[:, i] * at.s[:, j] + at.y[:, j] * at.s[:, i]) / 2
    return found


def marginal(z: Rows, own: Rows, highest: int) -> Iterator[Rows]:
    """psi_0, psi_1, ... of each coordinate, up to the highest."""
    cut, inside = np.clip(z, -rule.FAR, rule.FAR), np.abs(z) < rule.FAR
    before, last = np.zeros_like(cut), np.ones_like(cut)  # h_{k-1} and h_k
    for k in range(highest + 1):
        yield k * before * inside + last * own
        before, last = last, cut * last - k * before


def products(at: Scored) -> Iterator[Rows]:
    """The features of all products along each direction k in turn."""
    i, j = pairs(at.dim)
    cut, inside = np.clip(at.y, -rule.FAR, rule.FAR), np.abs(at.y) < rule.FAR
    values = cut[:, i] * cut[:, j] - (i == j)
    for k in range(at.dim):
        found = values * at.s[:, k : k + 1]
        found[:, i == k] += inside[:, k : k + 1] * cut[:, j[i == k]]
        found[:, j == k] += inside[:, k : k + 1] * cut[:, i[j == k]]
        yield found


def dictionaries(at: Scored) -> dict[str, Rows]:
    """Features of growing dictionaries, each with those before it, as far as draws allow.

    There are no more features than draws, and no more than `rule.FEATURES`.
    """
    count, dim = at.z.shape
    most = min(rule.FEATURES, count - 1)
    all_maps = dim * (dim + 3) // 2
    found: dict[str, Rows] = {}
    if all_maps <= most:
        found["affine"] = np.concatenate([at.s, linear(at)], axis=1)
    elif 2 * dim <= most:
        found["scalings"] = np.concatenate([at.s, 1 + at.y * at.s], axis=1)
    elif dim <= most:
        found["translations"] = at.s
    if not found:
        return found
    (name, used), higher = next(iter(found.items())), list(marginal(at.z, at.own, 3))[2:]
    if used.shape[1] + 2 * dim <= most:
        found[f"{name} and marginal"] = used = np.concatenate([used, *higher], axis=1)
        if all_maps + 2 * dim + dim * len(pairs(dim)[0]) <= most:
            found["products"] = np.concatenate([used, *products(at)], axis=1)
    return found


def averaged_dictionaries(at: Scored) -> dict[str, Rows]:
    """Dictionaries for regressions: of very many draws, averages over successive ones."""
    sizes = sizes_of(len(at.z))
    if len(sizes) == len(at.z):
        return dictionaries(at)
    found: dict[str, list[Rows]] = {}
    start = 0
    for part in np.array_split(sizes, -(-len(at.z) // SCORED_AT_ONCE)):
        rows = slice(start, start := start + int(part.sum()))
        here = at._replace(**{name: getattr(at, name)[rows] for name in ("z", "y", "s", "own")})
        for name, phi in dictionaries(here).items():
            found.setdefault(name, []).append(averaged(phi, part))
    return {name: np.concatenate(parts) for name, parts in found.items()}


def levels(z: Rows) -> Float[np.ndarray, "knot d"]:
    """The knots of each coordinate's distribution function: quantiles of the draws."""
    at = np.linspace(rule.OUTERMOST, 1 - rule.OUTERMOST, rule.LEVELS)
    found: np.ndarray = np.quantile(z, at, axis=0).astype(float)
    return found
