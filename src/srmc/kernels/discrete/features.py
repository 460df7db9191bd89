"""The features that the history can average on a discrete space, and what each one needs."""

import warnings
import weakref
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from srmc._checks import check_option, is_concrete
from srmc._programs import program_of
from srmc.kernels.discrete.space import Space
from srmc.repel.surrogate import Surrogate, Tilt
from srmc.repel.target import Target, check_density
from srmc.types import Array, ArrayLike, Float, LogDensity, PyTree, Scalar

# An array, or None, which is the empty pytree, where neither kernel nor feature needs it.
SiteChanges: TypeAlias = PyTree[Float[Array, "site value"]]
# Changes at some sites, by the gradient and exactly.
_Compared: TypeAlias = tuple[Float[np.ndarray, "site value"], Float[np.ndarray, "site value"]]
_COMPARED: weakref.WeakKeyDictionary[LogDensity, dict[Any, _Compared]] = weakref.WeakKeyDictionary()

FEATURES = ("gibbs", "stein", "relaxed-gibbs", "relaxed")
AFFORDABLE = 64  # largest number of neighbours for which the exact feature is the default


class Evaluated(NamedTuple):
    """What was evaluated at a state: of the last three, only those that are needed."""

    logdensity: Scalar
    gradient: PyTree[Array] = None  # gradient of the relaxed log density
    first_order: SiteChanges = None  # changes of the log density that the gradient predicts
    changes: SiteChanges = None  # exact changes


def check_kind(kind: str, space: Space) -> None:
    """Raise for a feature that does not exist, or that has no meaning on the space."""
    check_option("feature", kind, FEATURES)
    if kind == "stein" and space.one_hot:
        raise ValueError(
            f"feature='stein' needs an order of values, which {space} has not; use feature='gibbs'"
        )


def check_bend(bend: str, kind: str | None) -> None:
    """Raise for a bend that does not exist, or that would not drive the feature to 0."""
    check_option("bend", bend, ("feature", "sites"))
    if bend == "sites" and kind not in (None, "gibbs", "relaxed-gibbs"):
        raise ValueError(
            f"bend='sites' needs feature='gibbs' or 'relaxed-gibbs', whose mean follows the sites, "
            f"got {kind!r}; leave bend out"
        )


def default_bend(kind: str | None, surrogate: Surrogate | None) -> str:
    """By sites, which is cheaper, where that drives the feature to 0."""
    by_sites = surrogate is None and kind in (None, "gibbs", "relaxed-gibbs")
    return "sites" if by_sites else "feature"


def tilted_kind(surrogate: Surrogate, kind: str | None) -> str:
    """The feature of a tilt, which is the gradient; raise for others, and for other surrogates."""
    if not isinstance(surrogate, Tilt):
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
    return seen.gradient


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


def check_discrete_start(
    logdensity_fn: LogDensity, space: Space, x: Array, takes_gradient: bool
) -> None:
    """Raise for a log density that is not a finite scalar, or has no gradient."""
    check_density(logdensity_fn, x)
    value = logdensity_fn(x) if is_concrete(x) else 0.0
    if is_concrete(value) and not np.isfinite(value):
        raise ValueError(f"logdensity_fn must be finite at the start, got {value} at {x!r}")
    if takes_gradient:
        check_gradient(logdensity_fn, space, x)


def check_feature_kind(kind: str, logdensity_fn: LogDensity, space: Space, x: Array) -> None:
    """Warn about a feature whose mean under the target is not zero."""
    if needs_gradient(kind):
        check_gradient(logdensity_fn, space, x)
    if kind == "relaxed":
        warnings.warn(
            "feature='relaxed' has no zero mean under the target: theta settles away from 0, and "
            "the chain converges to another distribution; feature='gibbs' is exact",
            stacklevel=4,
        )
    if kind == "relaxed-gibbs" and is_biased(kind, logdensity_fn, space, x):
        warnings.warn(
            "feature='relaxed-gibbs' has zero mean only if the log density is linear in each "
            "site, which this one is not: the chain converges to another distribution; "
            "feature='gibbs' is exact, and cheap if `differences` is given",
            stacklevel=4,
        )


def is_biased(kind: str, logdensity_fn: LogDensity, space: Space, x: Array) -> bool:
    """Whether a feature is known not to have mean 0 under the target."""
    return kind == "relaxed" or (
        kind == "relaxed-gibbs" and not _is_linear(logdensity_fn, space, x)
    )


def check_gradient(logdensity_fn: LogDensity, space: Space, x: Array) -> None:
    """Raise for a log density without a gradient, or with one that is 0 everywhere."""
    try:
        jax.eval_shape(jax.grad(logdensity_fn), x)
    except Exception as error:
        raise TypeError(
            "logdensity_fn must be differentiable for a kernel or a feature that takes its "
            f"gradient; flip_mh, gibbs and locally_balanced take none: {error}"
        ) from error
    compared = _compared(logdensity_fn, space, x)
    if compared is not None and np.any(compared[1] != 0) and np.all(compared[0] == 0):
        raise ValueError(
            "logdensity_fn must have a gradient that tells its changes apart, got 0 everywhere "
            "(is its input rounded?); flip_mh, gibbs and locally_balanced need none"
        )


def _is_linear(logdensity_fn: LogDensity, space: Space, x: Array) -> bool:
    """Whether the log density is linear in each site, as far as this can be computed now."""
    compared = _compared(logdensity_fn, space, x)
    return compared is None or np.allclose(*compared, rtol=1e-3, atol=1e-3)


def _compared(logdensity_fn: LogDensity, space: Space, x: Array) -> _Compared | None:
    """Predicted and exact changes at some sites of a random state, kept for each log density.

    None if the log density closes over values that are being traced.
    """
    try:
        kept = _COMPARED.setdefault(logdensity_fn, {})
    except TypeError:  # a callable without a hash, such as a module with arrays
        kept = {}
    key = x.shape, x.dtype, space
    if key not in kept:
        compare, like = Partial(_compare, logdensity_fn, space), jnp.zeros(x.shape, x.dtype)
        out = program_of(compare)(like)
        if not is_concrete(out):
            with jax.ensure_compile_time_eval():
                out = compare(like)
        if not is_concrete(out):
            return None
        kept[key] = np.asarray(out[0]), np.asarray(out[1])
    return kept[key]


def _compare(
    logdensity_fn: LogDensity, space: Space, like: Array, num_sites: int = 8
) -> tuple[Array, Array]:
    target = Target(logdensity_fn)
    state = space.random(jax.random.key(0), like)
    value, gradient = jax.value_and_grad(target)(state)
    sites = np.unique(np.linspace(0, space.num_sites(like) - 1, num_sites).astype(int))

    def change(site: ArrayLike, label: ArrayLike) -> Scalar:
        return jnp.subtract(target(space.place(state, site, label)), value)

    exact = jax.vmap(jax.vmap(change, (None, 0)), (0, None))(sites, np.arange(space.num_values))
    return space.linear(state, gradient)[sites], exact
