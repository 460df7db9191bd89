"""Marginal distribution functions from scores, by Stein's equation for a standard normal.

Its solution for a step at t, g' - z g = 1[z <= t] - Phi(t), is g = Phi(-t) Phi(z) / phi(z) up to t
and Phi(t) Phi(-z) / phi(z) beyond. The field g(z_i) R[:, i] has the feature g' + g (R s)_i, so that

    F(t) = Phi(t) - E[g(z_i) (z_i + (R s)_i)].

On a Gaussian, R s is -z, and every draw gives Phi(t). For all t together this takes two cumulative
sums over the draws: of Phi(z) / phi(z) r up to t, and of Phi(-z) / phi(z) r beyond, r = z + R s.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy import special

from srmc.coordinates.whiten import Rows
from srmc.types import Float

Knots = Float[np.ndarray, "knot d"]


class Sides(NamedTuple):
    """Phi(z) / phi(z) r and Phi(-z) / phi(z) r of draws, for t beyond z and up to it."""

    below: Rows
    above: Rows


def sides(z: Rows, own: Rows, knots: Knots) -> Sides:
    """The two parts of each draw, where they are needed: within the knots or outside of them."""
    rest = z + own
    return Sides(_mills(-np.minimum(z, knots[-1])) * rest, _mills(np.maximum(z, knots[0])) * rest)


def _mills(z: Rows) -> Rows:
    """Phi(-z) / phi(z)."""
    found: Rows = math.sqrt(math.pi / 2) * special.erfcx(z / math.sqrt(2))
    return found


def solution(z: Rows, of: Sides, t: Knots) -> Float[np.ndarray, "n knot d"]:
    """g(z) r of each draw, for steps at few t."""
    found: np.ndarray = np.where(
        z[:, None] <= t, special.ndtr(-t) * of.below[:, None], special.ndtr(t) * of.above[:, None]
    )
    return found


def estimated(z: Rows, of: Sides, knots: Knots, weights: Float[np.ndarray, " n"]) -> Knots:
    """The distribution functions at the knots, from draws with these weights."""
    found: np.ndarray = special.ndtr(knots)
    for i, t in enumerate(knots.T):
        place = np.searchsorted(t, z[:, i])  # knots from there on are not below z
        parts = (np.bincount(place, weights * side[:, i], len(t) + 1) for side in of)
        below, above = next(parts), next(parts)[::-1]
        found[:, i] -= special.ndtr(-t) * np.cumsum(below)[:-1]
        found[:, i] -= special.ndtr(t) * np.cumsum(above)[-2::-1]
    return found
