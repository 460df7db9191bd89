"""The features that the history can average on a discrete space, and what each one needs."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from srmc._checks import check_option
from srmc.kernels.discrete.space import Space
from srmc.kernels.discrete.view import SiteChanges
from srmc.repel.surrogate import Surrogate
from srmc.types import Array, Float, PyTree, Scalar

FEATURES = ("gibbs", "stein", "relaxed-gibbs", "relaxed")
AFFORDABLE = 64  # the most neighbours of a state that the default feature evaluates one by one


class Evaluated(NamedTuple):
    """What was evaluated at a state: of the last three, only those that something needs.

    gradient
        The gradient of the relaxed log density.
    first_order
        The changes of the log density that the gradient predicts.
    changes
        The exact changes.
    """

    logdensity: Scalar
    gradient: PyTree[Array] = None
    first_order: SiteChanges = None
    changes: SiteChanges = None


def check_kind(kind: str, space: Space) -> None:
    """Refuse a feature that does not exist, or that has no meaning on the space."""
    check_option("feature", kind, FEATURES)
    if kind == "stein" and space.one_hot:
        raise ValueError(
            f"feature='stein' needs an order of values, which {space} has not; use feature='gibbs'"
        )


def check_bend(bend: str, kind: str | None) -> None:
    """Refuse a bend that does not exist, or that would not drive the feature to 0."""
    check_option("bend", bend, ("feature", "sites"))
    if bend == "sites" and kind not in (None, "gibbs", "relaxed-gibbs"):
        raise ValueError(
            f"bend='sites' needs feature='gibbs' or 'relaxed-gibbs', whose mean follows the sites, "
            f"got {kind!r}; leave bend out"
        )


def default_bend(kind: str | None, surrogate: Surrogate | None) -> str:
    """By sites, which is cheaper and acts on each alone, where that drives the feature to 0."""
    by_sites = surrogate is None and kind in (None, "gibbs", "relaxed-gibbs")
    return "sites" if by_sites else "feature"


def tilted_kind(surrogate: Surrogate, kind: str | None) -> str:
    """The feature of a tilt, which is the gradient; refuse others, and other surrogates."""
    if not isinstance(surrogate, Surrogate) or surrogate.split is None:
        raise ValueError(
            f"surrogate must be srmc.tilt() on a discrete space, got {surrogate!r}; without it, "
            "the target is bent by the chosen feature"
        )
    if kind not in (None, "relaxed"):
        raise ValueError(
            f"surrogate=srmc.tilt() needs feature='relaxed', the gradient, got {kind!r}; leave "
            "surrogate out"
        )
    return "relaxed"


def default_kind(space: Space, x: Array, has_differences: bool) -> str:
    """The Gibbs residual, exact if that is affordable, otherwise from one gradient."""
    affordable = has_differences or space.num_neighbours(x) <= AFFORDABLE
    return "gibbs" if affordable else "relaxed-gibbs"


def needs_gradient(kind: str | None) -> bool:
    return kind in ("relaxed", "relaxed-gibbs")


def needs_changes(kind: str | None) -> bool:
    return kind in ("gibbs", "stein")


def feature_at(kind: str, space: Space, x: Array, seen: Evaluated) -> Array:
    """The feature of this kind at a state, in the shape of the state."""
    if kind == "gibbs":
        return residual(space, x, seen.changes)
    if kind == "relaxed-gibbs":
        return residual(space, x, seen.first_order)
    if kind == "stein":
        return jnp.expm1(reversal(space, x, seen.changes)).reshape(x.shape)
    gradient: Array = seen.gradient
    return gradient


def residual(space: Space, x: Array, changes: Float[Array, "site value"]) -> Array:
    """E[x_i given the rest] - x_i."""
    if space.num_values == 2 and not space.one_hot:
        return jax.nn.sigmoid(changes[:, 1] - changes[:, 0]).reshape(x.shape) - x
    return space.mean(jax.nn.softmax(changes, axis=1), x) - x


def reversal(space: Space, x: Array, changes: Float[Array, "site value"]) -> Float[Array, " site"]:
    """The change of the log density at x_i -> K - 1 - x_i, a move that is its own inverse."""
    other = space.num_values - 1 - space.labels(x)
    return jnp.take_along_axis(changes, other[:, None], axis=1)[:, 0]


def own_stein_change(
    space: Space, x: Array, changes: Float[Array, "site value"]
) -> Float[Array, "site value"]:
    """The change of a site's own Stein feature when that site takes another value."""
    there = jnp.exp(changes[:, ::-1] - changes)
    return there - jnp.exp(reversal(space, x, changes))[:, None]
