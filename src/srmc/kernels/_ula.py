"""The unadjusted Langevin algorithm."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from blackjax.base import SamplingAlgorithm, build_sampling_algorithm
from blackjax.mcmc.diffusions import DiffusionState, overdamped_langevin

from srmc.core.target import LogDensity, all_finite


class UnadjustedInfo(NamedTuple):
    """acceptance_rate: 1, or 0 where the move was not finite and the chain stayed."""

    acceptance_rate: jax.Array


def init(position: Any, logdensity_fn: LogDensity) -> DiffusionState:
    return DiffusionState(position, *jax.value_and_grad(logdensity_fn)(position))


def build_kernel():
    """x' = x + eta s(x) + sqrt(2 eta) xi, with step size eta."""

    def kernel(rng_key, state, logdensity_fn, step_size):
        langevin = overdamped_langevin(jax.value_and_grad(logdensity_fn))
        return keep_finite(state, langevin(rng_key, state, step_size))

    return kernel


def keep_finite(state: Any, new_state: Any) -> tuple[Any, UnadjustedInfo]:
    """The new state if all of it is finite, else the old one."""
    finite = all_finite(new_state)
    return optax.tree.where(finite, new_state, state), UnadjustedInfo(jnp.where(finite, 1.0, 0.0))


def as_top_level_api(logdensity_fn: LogDensity, step_size: float) -> SamplingAlgorithm:
    return build_sampling_algorithm(build_kernel(), init, logdensity_fn, kernel_args=(step_size,))
