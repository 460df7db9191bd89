"""Unadjusted underdamped Langevin dynamics by the BAOAB splitting: one gradient per step."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import optax
from blackjax.base import SamplingAlgorithm, build_sampling_algorithm
from blackjax.util import generate_gaussian_noise

from srmc._types import Array, LogDensity, Position, PRNGKey, Scalar, Score
from srmc.kernels._ula import UnadjustedInfo, keep_finite


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
        half = step_size / 2
        decay = jnp.exp(-friction * step_size)
        spread = jnp.sqrt(-jnp.expm1(-2 * friction * step_size))
        noise = generate_gaussian_noise(rng_key, state.position)

        def half_step(start: Position, rate: Position) -> Position:
            return jax.tree.map(lambda a, b: a + half * b, start, rate)

        def thermostat(p: Array, xi: Array) -> Array:
            return (decay * p + spread * xi).astype(p.dtype)

        momentum = half_step(state.momentum, state.logdensity_grad)
        position = half_step(state.position, momentum)
        momentum = jax.tree.map(thermostat, momentum, noise)
        position = half_step(position, momentum)
        logdensity, gradient = jax.value_and_grad(logdensity_fn)(position)
        momentum = half_step(momentum, gradient)
        moved = ULDState(position, momentum, logdensity, gradient)
        bounced = state._replace(momentum=optax.tree.scale(-1, state.momentum))
        return keep_finite(bounced, moved)

    return kernel


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
