"""Smoothed marginal distribution functions, b_l(z) = Phi((t_l - z) / h), of draws and Gaussians."""

import math

import numpy as np
from scipy import special

from srmc.coordinates.whiten import Rows
from srmc.rebalance import rule
from srmc.types import Float

BINS = 256  # of a coordinate; the knots lie MARGIN bandwidths from the ends
MARGIN = 5.0
NODES = 80  # of Gauss and Hermite's rule

Knots = Float[np.ndarray, "knot d"]


def below(z: Rows, knots: Knots) -> Float[np.ndarray, "n knot d"]:
    """b_l(z_i) at each draw."""
    found: np.ndarray = special.ndtr((knots - z[:, None]) / rule.BANDWIDTH)
    return found


def averages(z: Rows, knots: Knots) -> tuple[Knots, Knots]:
    """The averages over draws of b_l and of its derivative, the smoothed density, from a histogram.

    Bins are narrow beside the bandwidth, unless the tails are very heavy.
    """
    dim = z.shape[1]
    start = knots[0] - MARGIN * rule.BANDWIDTH
    width = (knots[-1] + MARGIN * rule.BANDWIDTH - start) / BINS
    places = ((z - start.astype(z.dtype)) / width.astype(z.dtype)).clip(0, BINS - 1).astype(int)
    places += BINS * np.arange(dim)
    counts = np.bincount(places.ravel(), minlength=BINS * dim).reshape(dim, BINS)
    share = counts / len(z)
    centre = start[:, None] + width[:, None] * (np.arange(BINS) + 0.5)
    function, density = np.empty_like(knots), np.empty_like(knots)
    for knot, t in enumerate(knots):
        u = (t[:, None] - centre) / rule.BANDWIDTH
        function[knot] = np.einsum("db,db->d", share, special.ndtr(u))
        density[knot] = np.einsum("db,db->d", share, np.exp(-(u**2) / 2))
    return function, density / (rule.BANDWIDTH * math.sqrt(2 * math.pi))


def gaussian_coefficients(knots: Knots) -> Float[np.ndarray, "knot d order"]:
    """E[b_l h_k] / k! under a standard normal for k = 1 ... `rule.ORDER` + 1."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    weights = weights / math.sqrt(2 * math.pi)
    orders = np.arange(1, rule.ORDER + 2)
    table = np.stack([special.eval_hermitenorm(k, nodes) * weights for k in orders], axis=1)
    smooth = special.ndtr((knots[..., None] - nodes) / rule.BANDWIDTH)
    found: np.ndarray = smooth @ (table / special.factorial(orders))
    return found
