"""Unadjusted underdamped Langevin dynamics by the BAOAB splitting: one gradient per step."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import optax
from blackjax.base import SamplingAlgorithm, build_sampling_algorithm
from blackjax.util import generate_gaussian_noise

from srmc.kernels._ula import UnadjustedInfo, keep_finite
from srmc.repel.split import TwoPart
from srmc.types import Array, LogDensity, Position, PRNGKey, Scalar, Score


class ULDState(NamedTuple):
    """Position and momentum at unit mass, with the log density and its gradient."""

    position: Position
    momentum: Position
    logdensity: Scalar
    logdensity_grad: Score


Kernel: TypeAlias = Callable[
    [PRNGKey, ULDState, LogDensity, float | Scalar, float | Scalar], tuple[ULDState, UnadjustedInfo]
]


def init(position: Position, logdensity_fn: LogDensity, rng_key: PRNGKey | None = None) -> ULDState:
    """Start a chain at `position`, with random momentum, or with zero momentum without a key."""
    if rng_key is None:
        momentum = optax.tree.zeros_like(position)
    else:
        momentum = generate_gaussian_noise(rng_key, position)
    return ULDState(position, momentum, *jax.value_and_grad(logdensity_fn)(position))


def build_kernel() -> Kernel:
    """Build a step of dx = p dt, dp = (s(x) - friction p) dt + sqrt(2 friction) dW.

    Each step makes a half kick, a half drift, an exact friction-and-noise update over the full
    step size, a half drift, and a half kick with the new score. If the result is not finite, the
    chain stays where it was and its momentum is reversed.
    """

    def kernel(
        rng_key: PRNGKey,
        state: ULDState,
        logdensity_fn: LogDensity,
        step_size: float | Scalar,
        friction: float | Scalar,
    ) -> tuple[ULDState, UnadjustedInfo]:
        position, momentum = _drifted(rng_key, state, step_size, friction)
        logdensity, gradient = jax.value_and_grad(logdensity_fn)(position)
        momentum = _half_step(step_size, momentum, gradient)
        return keep_finite(_bounced(state), ULDState(position, momentum, logdensity, gradient))

    return kernel


def build_split_kernel() -> Callable[..., tuple[ULDState, UnadjustedInfo]]:
    """The same step on a target in two parts, with states that hold its value and score."""

    def kernel(
        rng_key: PRNGKey,
        state: ULDState,
        target: TwoPart,
        step_size: float | Scalar,
        friction: float | Scalar = 1.0,
    ) -> tuple[ULDState, UnadjustedInfo]:
        position, momentum = _drifted(rng_key, target.bent(state), step_size, friction)
        seen, (_, gradient) = target.fresh(position)
        momentum = _half_step(step_size, momentum, gradient)
        return keep_finite(_bounced(state), ULDState(position, momentum, *seen))

    return kernel


def _drifted(
    rng_key: PRNGKey, state: ULDState, step_size: float | Scalar, friction: float | Scalar
) -> tuple[Position, Position]:
    """Position and momentum after all of a step but its last kick."""
    decay = jnp.exp(-friction * step_size)
    spread = jnp.sqrt(-jnp.expm1(-2 * friction * step_size))
    noise = generate_gaussian_noise(rng_key, state.position)

    def thermostat(p: Array, xi: Array) -> Array:
        return (decay * p + spread * xi).astype(p.dtype)

    momentum = _half_step(step_size, state.momentum, state.logdensity_grad)
    position = _half_step(step_size, state.position, momentum)
    momentum = jax.tree.map(thermostat, momentum, noise)
    return _half_step(step_size, position, momentum), momentum


def _half_step(step_size: float | Scalar, start: Position, rate: Position) -> Position:
    return jax.tree.map(lambda a, b: a + step_size / 2 * b, start, rate)


def _bounced(state: ULDState) -> ULDState:
    return state._replace(momentum=optax.tree.scale(-1, state.momentum))


def as_top_level_api(
    logdensity_fn: LogDensity, step_size: float, friction: float = 1.0
) -> SamplingAlgorithm:
    """Build the algorithm for one log density, step size and friction."""
    return build_sampling_algorithm(
        build_kernel(),
        init,
        logdensity_fn,
        kernel_args=(step_size, friction),
        pass_rng_key_to_init=True,
    )
