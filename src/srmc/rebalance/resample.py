"""From the plain chain of a run on a discrete space to draws with smaller errors.

Draws of a discrete space cannot be moved, but they can be weighted so that every Gibbs residual
has mean 0, and resampled by their weights.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from srmc._programs import program_of
from srmc.kernels.discrete.changes import Differences
from srmc.kernels.discrete.features import is_biased
from srmc.kernels.discrete.sites import Sites
from srmc.kernels.discrete.space import Space
from srmc.metrics.errors import batch_means_error
from srmc.rebalance.errors import error_beside
from srmc.rebalance.regress import Features
from srmc.rebalance.report import Expected, Report, nothing
from srmc.rebalance.reweight import DRAWS_PER_FEATURE, reweight
from srmc.types import Array, Float, Int, LogDensity

STATES_AT_ONCE = 1024


class Resampled(NamedTuple):
    """Which draws stand for all, the features that they balance, and what was done."""

    chosen: Int[np.ndarray, " n"]
    phi: Float[np.ndarray, "chain draw k"]
    report: Report


def resample(sites: Sites, states: Float[np.ndarray, "chain draw ..."]) -> Resampled:
    """Choose from the states of chains as many as there are, under which features have mean 0."""
    logdensity_fn, space = sites.logdensity_fn, sites.space
    count = states.shape[0] * states.shape[1]
    rows = jnp.asarray(states.reshape(count, *states.shape[2:]))
    everything, none = np.arange(count), np.zeros((*states.shape[:2], 0))
    if is_biased(sites.chosen(rows[0]), logdensity_fn, space, rows[0]):
        reason = (
            "the residual that one gradient gives has no mean of 0, since the log density is not "
            "linear in each site; give `differences`, with which it is exact, or feature='gibbs'"
        )
        return Resampled(everything, none, nothing(reason))
    given = logdensity_fn, space, sites.feature, sites.differences
    residuals = program_of(Partial(_residuals, *given))(rows)
    own = np.asarray(residuals, float).reshape(count, -1)
    phi = balanced_features(np.asarray(rows, float).reshape(count, -1), own, space.width)
    weights = reweight(None, None, features=phi)
    chosen = systematic(weights)
    cost = sites.bent(rows[0], jnp.zeros(())).evaluations(rows[0])[0] * count
    features = phi.reshape(*states.shape[:2], -1)
    values = states.reshape(*states.shape[:2], -1)
    return Resampled(chosen, features, _report(values, features, weights, chosen, cost))


def _residuals(
    logdensity_fn: LogDensity,
    space: Space,
    feature: str | None,
    differences: Differences | None,
    rows: Array,
) -> Float[Array, "n ..."]:
    sites = Sites(logdensity_fn, space, None, feature, differences)
    look = lambda x: sites.look(x).feature
    residuals: Array = jax.lax.map(look, rows, batch_size=STATES_AT_ONCE)
    return residuals


def balanced_features(
    x: Float[np.ndarray, "n d"], residuals: Float[np.ndarray, "n d"], width: int
) -> Float[np.ndarray, "n k"]:
    """Residuals, and products of residuals with the values of other sites, as many as draws allow.

    E[x_i given the rest] - x_i has mean 0 given the rest, and so has its product with any function
    of the rest. Pairs of sites that correlate most come first.
    """
    count, dim = x.shape
    centred = x - x.mean(axis=0)
    size = np.maximum(centred.std(axis=0), 1e-12)
    room = int(count / DRAWS_PER_FEATURE) - dim
    correlation = np.abs(centred.T @ centred) / (count * np.outer(size, size))
    own_site = np.arange(dim) // width
    correlation[own_site[:, None] == own_site[None]] = -1.0
    order = np.argsort(-correlation, axis=None)[: max(0, min(room, np.sum(correlation >= 0)))]
    i, j = np.unravel_index(order, correlation.shape)
    phi = np.concatenate([residuals, residuals[:, i] * (centred / size)[:, j]], axis=1)
    squares = np.mean(phi**2, axis=0)
    return phi[:, squares > 1e-12]


def systematic(weights: Float[np.ndarray, "..."]) -> Int[np.ndarray, " n"]:
    """Indices of draws in their order, each as often as its weight says to within one."""
    edges = np.cumsum(weights.ravel())
    marks = (0.5 + np.arange(edges.size)) / edges.size * edges[-1]
    chosen: np.ndarray = np.minimum(np.searchsorted(edges, marks), edges.size - 1)
    return chosen


def _report(
    x: Float[np.ndarray, "chain draw d"],
    phi: Float[np.ndarray, "chain draw k"],
    weights: Float[np.ndarray, " n"],
    chosen: Int[np.ndarray, " n"],
    cost: int,
) -> Report:
    flat = phi.reshape(-1, phi.shape[2])
    size = lambda means: float(np.sqrt(np.mean(means**2) / np.mean(flat**2)))
    before, after = size(flat.mean(axis=0)), size(flat[chosen].mean(axis=0))
    left = min(1.0, after / before) if before > 0 else 0.0
    some = np.linspace(0, x.shape[2] - 1, min(x.shape[2], 32)).astype(int)
    features = Features.of(phi, left, min(x.shape[2], phi.shape[2]))
    plain = batch_means_error(x[..., some])
    ratio = np.square(error_beside(x[..., some], features) / np.where(plain > 0, plain, np.inf))
    gain = float(np.mean(ratio[plain > 0])) if np.any(plain > 0) else 1.0
    counts = np.bincount(chosen, minlength=len(flat))
    return Report(
        moved=True,
        chosen={"states": {"resampled": 1}},
        expected=Expected(gain, gain, gain),
        left=left,
        stayed=int(np.sum(counts == 1)),
        gradients=int(cost),
    )
