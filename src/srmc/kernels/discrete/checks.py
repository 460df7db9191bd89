"""Checks, before a chain starts, that a log density suits a kernel and a feature on its space."""

import warnings
import weakref
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from srmc._checks import is_concrete
from srmc._programs import program_of
from srmc.kernels.discrete.features import needs_gradient
from srmc.kernels.discrete.space import Space
from srmc.repel.target import check_density, rejecting
from srmc.types import Array, ArrayLike, Float, LogDensity, Scalar

# Changes at some sites, by the gradient and exactly.
_Compared: TypeAlias = tuple[Float[np.ndarray, "site value"], Float[np.ndarray, "site value"]]
_COMPARED: weakref.WeakKeyDictionary[LogDensity, dict[Any, _Compared]] = weakref.WeakKeyDictionary()


def check_discrete_start(
    logdensity_fn: LogDensity, space: Space, x: Array, takes_gradient: bool
) -> None:
    """Refuse a log density that is not a finite scalar at a state, or lacks a useful gradient."""
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
    """Refuse a log density without a gradient, or with one that is 0 everywhere."""
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
    """Whether the log density is linear in each site, as far as can be seen now."""
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
    target = rejecting(logdensity_fn)
    state = space.random(jax.random.key(0), like)
    value, gradient = jax.value_and_grad(target)(state)
    sites = np.unique(np.linspace(0, space.num_sites(like) - 1, num_sites).astype(int))

    def change(site: ArrayLike, label: ArrayLike) -> Scalar:
        return jnp.subtract(target(space.place(state, site, label)), value)

    exact = jax.vmap(jax.vmap(change, (None, 0)), (0, None))(sites, np.arange(space.num_values))
    return space.linear(state, gradient)[sites], exact
