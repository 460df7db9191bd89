"""A NumPyro model as functions of a position, with its data as arguments of their programs."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from srmc._programs import Code, parted, pinned, remembered
from srmc.types import Array, LogDensity, Position, PRNGKey, Scalar

SAME = 1e-4  # relative difference of log densities that rounding of data may make


class Functions(NamedTuple):
    """The origin of unconstrained positions, the log density there, and values by name."""

    zero: Position
    logdensity_fn: LogDensity
    values: Callable[[Position], dict[str, Array]]


def as_functions(
    model: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    trace: Mapping[str, Any],
    set_up: Callable[[PRNGKey], Any],
) -> Functions:
    """The functions of a model; `set_up` is NumPyro's own way, for which data are constants.

    That is taken for models that cannot be traced without the values of their data, that sum over
    discrete variables, or that draw numbers.
    """
    zero = _origin(trace)
    density, values = (
        pinned(Partial(f, model, args, dict(kwargs)), zero) for f in (_density, _values)
    )
    as_arguments = isinstance(density, Partial) and isinstance(values, Partial)
    as_arguments = as_arguments and _is_as_precise(model, args, kwargs)
    known = _notes(parted(density)[0]) if as_arguments else []
    if known:
        return Functions(zero, density, values)
    try:
        found = set_up(jax.random.key(0))
    except RuntimeError as error:
        raise ValueError(f"model must have a finite log density where it starts: {error}") from None
    theirs = jax.tree.map(jnp.zeros_like, found.param_info.z)
    if not theirs:
        raise ValueError(f"model must have a latent variable to sample, got {model!r}")
    shapes = lambda zero, f: (jax.tree.map(jnp.shape, zero), jax.eval_shape(f, zero))
    if as_arguments and shapes(zero, values) == shapes(theirs, found.postprocess_fn):
        known.append("NumPyro has found a place to start")
        return Functions(zero, density, values)
    return Functions(theirs, lambda z: -found.potential_fn(z), found.postprocess_fn)


def _density(
    model: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], z: Position
) -> Scalar:
    from numpyro.infer.util import potential_energy

    energy: Scalar = potential_energy(model, args, kwargs, z)
    return -energy


def _values(
    model: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], z: Position
) -> dict[str, Array]:
    from numpyro.infer.util import constrain_fn

    values: dict[str, Array] = constrain_fn(model, args, kwargs, z, return_deterministic=True)
    return values


@remembered
def _notes(code: Code) -> list[str]:
    """What is known of a model; nothing at first."""
    return []


def _origin(trace: Mapping[str, Any]) -> dict[str, Array]:
    """The origin of the unconstrained positions of a model with this trace."""
    from numpyro.distributions import biject_to

    return {
        name: jnp.zeros(biject_to(site["fn"].support).inverse_shape(jnp.shape(site["value"])))
        for name, site in trace.items()
        if site["type"] == "sample"
        and not site["is_observed"]
        and not site["fn"].support.is_discrete
    }


def _is_as_precise(
    model: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> bool:
    """Whether the model computes the same from data in the precision of JAX.

    A model that subtracts the mean of arrays of NumPy, say, does so in double precision if they are
    constants, but in that of JAX if they are arguments.
    """
    from numpyro import handlers
    from numpyro.infer.util import compute_log_probs

    rounded, is_exact = [], True
    leaves, structure = jax.tree.flatten((args, dict(kwargs)))
    for leaf in leaves:
        is_array = isinstance(leaf, np.ndarray) and leaf.dtype.kind in "iuf"
        rounded.append(jnp.asarray(leaf) if is_array else leaf)
        is_exact &= not is_array or rounded[-1].dtype == leaf.dtype
    if is_exact:
        return True
    seeded = handlers.seed(model, jax.random.key(0))
    given, _ = compute_log_probs(seeded, args, dict(kwargs), {})
    ours, _ = compute_log_probs(seeded, *jax.tree.unflatten(structure, rounded), {})
    close = lambda a, b: np.allclose(a, b, rtol=SAME, atol=SAME, equal_nan=True)
    return all(close(np.asarray(given[name]), np.asarray(ours[name])) for name in given)
