"""From the plain chain of a run on a discrete space to draws with smaller errors.

Draws of a discrete space cannot be moved, but they can be weighted so that every Gibbs residual
has mean 0, and resampled by their weights. Means come from regressions on the residuals, which
`srmc.rebalance.discrete` makes; they need no weights, and so serve models with many sites, too.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from scipy.sparse import csgraph

from srmc._programs import program_of
from srmc.kernels.discrete.changes import Differences
from srmc.kernels.discrete.features import is_biased
from srmc.kernels.discrete.sites import Sites
from srmc.kernels.discrete.space import Space
from srmc.metrics.errors import batch_means_error
from srmc.rebalance import rule
from srmc.rebalance.errors import error_beside
from srmc.rebalance.regress import Features
from srmc.rebalance.report import Expected, Report, nothing
from srmc.rebalance.reweight import DRAWS_PER_FEATURE, reweight
from srmc.types import Array, Float, Int, LogDensity

STATES_AT_ONCE = 1024
LOOKED_AT = 4  # states at which the influences of sites on each other are measured
DRAWS_PER_SITE = 16  # at least, for draws to be resampled: weights for more sites would fit noise


class Resampled(NamedTuple):
    """Which draws stand for all, the features that they balance, and what was done.

    The features are residuals and, if draws were resampled, their products with other sites; there
    are none where residuals are not known.
    """

    chosen: Int[np.ndarray, " n"]
    features: dict[str, Float[np.ndarray, "chain draw k"]]
    report: Report


def resample(sites: Sites, states: Float[np.ndarray, "chain draw ..."]) -> Resampled:
    """Choose from the states of chains as many as there are, under which features have mean 0."""
    logdensity_fn, space = sites.logdensity_fn, sites.space
    shape = states.shape[:2]
    count = shape[0] * shape[1]
    rows = jnp.asarray(states.reshape(count, *states.shape[2:]))
    everything = np.arange(count)
    if is_biased(sites.chosen(rows[0]), logdensity_fn, space, rows[0]):
        reason = (
            "the residual that one gradient gives has no mean of 0, since the log density is not "
            "linear in each site; give `differences`, with which it is exact, or feature='gibbs'"
        )
        return Resampled(everything, {}, nothing(reason))
    given = logdensity_fn, space, sites.feature, sites.differences
    residuals_at = program_of(Partial(_residuals, *given))
    residuals = np.asarray(residuals_at(rows)).reshape(count, -1)
    each = sites.bent(rows[0], jnp.zeros(())).evaluations(rows[0])[0]
    features = {"residuals": residuals.reshape(*shape, -1)}
    dim = residuals.shape[1]
    if dim > min(rule.FEATURES, count / DRAWS_PER_SITE):
        reason = (
            f"weights need at least {DRAWS_PER_SITE} draws per site and at most {rule.FEATURES} "
            "sites; means are those of regressions on Gibbs residuals"
        )
        return Resampled(everything, features, nothing(reason)._replace(gradients=each * count))
    x, own = np.asarray(rows, float).reshape(count, -1), residuals.astype(float)
    some = rows[:: -(-count // LOOKED_AT)]
    products = balanced_products(x, own, influences(space, residuals_at, some))
    cost = each * (count + len(some) * (1 + space.num_sites(rows[0])))
    phi = np.concatenate([own, products], axis=1)
    phi = phi[:, np.mean(phi**2, axis=0) > 1e-12]
    weights = reweight(None, None, features=phi)
    chosen = systematic(weights)
    if products.shape[1]:
        features["products"] = products.reshape(*shape, -1)
    report = _report(x.reshape(*shape, -1), phi.reshape(*shape, -1), weights, chosen, cost)
    return Resampled(chosen, features, report)


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


def influences(
    space: Space, residuals_at: Callable[[Array], Array], rows: Array
) -> Float[np.ndarray, "site site"]:
    """How much E[x_i given the rest] changes with x_j, (i, j), on average over some states."""
    sites, values = space.num_sites(rows[0]), space.num_values

    def changed(x: Array) -> Array:
        labels = space.labels(x)
        return jax.vmap(lambda j: space.place(x, j, (labels[j] + 1) % values))(jnp.arange(sites))

    there = residuals_at(jax.vmap(changed)(rows).reshape(-1, *rows.shape[1:]))
    here = np.asarray(residuals_at(rows)).reshape(len(rows), 1, sites, -1)
    change = np.abs(np.asarray(there).reshape(len(rows), sites, sites, -1) - here)
    return change.max(axis=3).mean(axis=0).T


def balanced_products(
    x: Float[np.ndarray, "n d"],
    residuals: Float[np.ndarray, "n d"],
    influence: Float[np.ndarray, "site site"],
) -> Float[np.ndarray, "n k"]:
    """Products of residuals with the values of other sites, as many as draws allow.

    E[x_i given the rest] - x_i has mean 0 given the rest, and so has its product with any function
    of the rest. Pairs with the strongest path of influences come first. If instead the draws had
    the choice, the products that they choose would not have mean 0.
    """
    count, dim = x.shape
    sites = len(influence)
    width = dim // sites
    room = max(0, min(int(count / DRAWS_PER_FEATURE), rule.FEATURES) - dim)
    with np.errstate(divide="ignore"):
        lengths = np.maximum(-np.log(influence), 1e-6)
    far = csgraph.shortest_path(np.where(np.isfinite(lengths), lengths, 0.0).copy("C"))
    np.fill_diagonal(far, np.nan)
    order = np.argsort(far, axis=None, kind="stable")[: min(room, sites * (sites - 1))]
    of_site = lambda site: (site[:, None] * width + np.arange(width))[:, :, None]
    i, j = map(of_site, np.divmod(order, sites))
    i, j = (v.ravel()[:room] for v in np.broadcast_arrays(i, np.swapaxes(j, 1, 2)))
    centred = x - x.mean(axis=0)
    size = np.maximum(centred.std(axis=0), 1e-12)
    found: np.ndarray = residuals[:, i] * (centred / size)[:, j]
    return found


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
