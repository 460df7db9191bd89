"""Discrete and continuous parameters in one position: one kernel per block, in turn.

Each block is drawn given the others, by a kernel that leaves its conditional distribution
invariant: a sweep of Gibbs over the sites of each discrete block, then one step of a gradient
kernel in all that is continuous.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
from blackjax.base import SamplingAlgorithm
from jax.flatten_util import ravel_pytree

from srmc.kernels.discrete import gibbs
from srmc.kernels.discrete.sites import Sites
from srmc.kernels.discrete.space import Space
from srmc.types import Array, ArrayLike, KernelInfo, LogDensity, Position, PRNGKey, Scalar


class MixedState(NamedTuple):
    """The values of all blocks by name, and their log density."""

    position: dict[str, Any]
    logdensity: Scalar


def mixed(
    logdensity_fn: LogDensity,
    step_size: ArrayLike,
    inverse_mass_matrix: ArrayLike,
    *,
    space: Mapping[str, Space | None],
    continuous: Callable[..., SamplingAlgorithm] = blackjax.nuts,
) -> SamplingAlgorithm:
    """Gibbs within a gradient kernel, for positions with discrete and continuous blocks.

    Parameters
    ----------
    logdensity_fn
        The log density of a dictionary of arrays; discrete ones are floats, as in `srmc.gibbs`.
    step_size, inverse_mass_matrix
        Of the continuous kernel. A vector has an entry for each number of the whole position, in
        the order of its names; those of discrete blocks are not used.
    space
        The space of each discrete block by name, such as {"z": srmc.Binary()}.
    continuous
        The kernel of all other blocks, in BlackJAX's form.
    """
    spaces = check_spaces(space)

    def init(position: Position, rng_key: PRNGKey | None = None) -> MixedState:
        _check_names(position, spaces)
        states = {name: _nearest(own, position[name]) for name, own in spaces.items()}
        whole = {**position, **states}
        return MixedState(whole, logdensity_fn(whole))

    def step(rng_key: PRNGKey, state: MixedState) -> tuple[MixedState, KernelInfo]:
        key, *keys = jax.random.split(rng_key, 1 + len(spaces))
        whole = dict(state.position)
        for own_key, (name, own) in zip(keys, spaces.items(), strict=True):
            given = whole  # which the conditional must not see change
            conditional = lambda z, name=name, given=given: logdensity_fn({**given, name: z})
            whole = {**whole, name: _sweep(own_key, conditional, own, whole[name])}
        rest = {name: x for name, x in whole.items() if name not in spaces}
        kernel = continuous(
            lambda x: logdensity_fn({**whole, **x}),
            step_size=step_size,
            inverse_mass_matrix=_part(inverse_mass_matrix, whole, spaces),
        )
        new, info = kernel.step(key, kernel.init(rest))
        return MixedState({**whole, **new.position}, new.logdensity), info

    return SamplingAlgorithm(init, step)


def check_spaces(space: Any) -> dict[str, Space]:
    """The discrete blocks, or an error if these are none."""
    if not isinstance(space, Mapping):
        raise TypeError(f"space must be a dictionary from names to spaces, got {space!r}")
    for name, own in space.items():
        if not (own is None or isinstance(own, Space)):
            raise TypeError(f"space of {name} must be srmc.Binary() or another, got {own!r}")
    found = {name: own for name, own in space.items() if own is not None}
    if not found:
        raise ValueError("space must have at least one discrete block, got none")
    return found


def _check_names(position: Any, spaces: Mapping[str, Space]) -> None:
    """Raise unless the position has all discrete blocks, and something continuous."""
    if not isinstance(position, Mapping) or not {*spaces} < {*position}:
        raise ValueError(
            f"position must be a dictionary with {', '.join(spaces)}, and a continuous block"
        )


def _nearest(space: Space, x: Array) -> Array:
    """The state with the nearest values: warm-up scatters starts."""
    x = jnp.asarray(x)
    return space.state(jnp.clip(space.labels(x), 0, space.num_values - 1), x)


def _sweep(rng_key: PRNGKey, logdensity_fn: LogDensity, space: Space, x: Array) -> Array:
    """One update of each site in turn."""
    view = Sites(logdensity_fn, space, gibbs.guide).plain()
    keys = jax.random.split(rng_key, space.num_sites(x))
    update = lambda state, key: (gibbs.transition(key, state, view, "systematic")[0], None)
    state, _ = jax.lax.scan(update, gibbs.init(x, view), keys)
    return state.position


def _part(matrix: ArrayLike, whole: dict[str, Any], spaces: Mapping[str, Space]) -> ArrayLike:
    """The entries of a diagonal that belong to the continuous blocks."""
    flat, unravel = ravel_pytree(whole)
    if jnp.ndim(matrix) != 1 or jnp.size(matrix) != flat.size:
        return matrix
    named = unravel(jnp.asarray(matrix, flat.dtype))
    found, _ = ravel_pytree({name: x for name, x in named.items() if name not in spaces})
    return found
