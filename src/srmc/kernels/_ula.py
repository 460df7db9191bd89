"""The unadjusted Langevin algorithm."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import optax
from blackjax.base import SamplingAlgorithm, build_sampling_algorithm
from blackjax.mcmc.diffusions import DiffusionState, overdamped_langevin

from srmc.repel.split import TwoPart
from srmc.repel.target import all_finite
from srmc.types import LogDensity, Position, PRNGKey, Scalar

State = TypeVar("State")


class UnadjustedInfo(NamedTuple):
    """Report of one unadjusted step.

    acceptance_rate
        1, or 0 if the proposed state was not finite and the chain stayed where it was.
    """

    acceptance_rate: Scalar


Kernel: TypeAlias = Callable[
    [PRNGKey, DiffusionState, LogDensity, float | Scalar], tuple[DiffusionState, UnadjustedInfo]
]


def init(position: Position, logdensity_fn: LogDensity) -> DiffusionState:
    """Start a chain at `position`."""
    return DiffusionState(position, *jax.value_and_grad(logdensity_fn)(position))


def build_kernel() -> Kernel:
    """Build the step x' = x + eta s(x) + sqrt(2 eta) xi, where eta is the step size."""

    def kernel(
        rng_key: PRNGKey,
        state: DiffusionState,
        logdensity_fn: LogDensity,
        step_size: float | Scalar,
    ) -> tuple[DiffusionState, UnadjustedInfo]:
        langevin = overdamped_langevin(jax.value_and_grad(logdensity_fn))
        return keep_finite(state, langevin(rng_key, state, step_size))

    return kernel


def build_split_kernel() -> Callable[..., tuple[DiffusionState, UnadjustedInfo]]:
    """The same step on a target in two parts, with states that hold its value and score."""

    def kernel(
        rng_key: PRNGKey, state: DiffusionState, target: TwoPart, step_size: float | Scalar
    ) -> tuple[DiffusionState, UnadjustedInfo]:
        langevin = overdamped_langevin(target.look)
        return keep_finite(state, langevin(rng_key, target.bent(state), step_size))

    return kernel


def keep_finite(state: State, new_state: State) -> tuple[State, UnadjustedInfo]:
    """Return the new state if all of it is finite, and the old state otherwise."""
    finite = all_finite(new_state)
    return optax.tree.where(finite, new_state, state), UnadjustedInfo(jnp.where(finite, 1.0, 0.0))


def as_top_level_api(logdensity_fn: LogDensity, step_size: float) -> SamplingAlgorithm:
    """Build the algorithm for one log density and step size."""
    return build_sampling_algorithm(build_kernel(), init, logdensity_fn, kernel_args=(step_size,))
