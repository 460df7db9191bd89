"""Underdamped Langevin dynamics, unadjusted, split as BAOAB: one gradient a step."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from blackjax.base import SamplingAlgorithm, build_sampling_algorithm
from blackjax.util import generate_gaussian_noise

from srmc.core.target import LogDensity
from srmc.kernels._ula import keep_finite


class ULDState(NamedTuple):
    """Position and momentum (of unit mass), with the log density and its gradient."""

    position: Any
    momentum: Any
    logdensity: jax.Array
    logdensity_grad: Any


def init(position: Any, logdensity_fn: LogDensity, rng_key: jax.Array | None = None) -> ULDState:
    """Momentum is drawn with the key, or zero without one."""
    if rng_key is None:
        momentum = optax.tree.zeros_like(position)
    else:
        momentum = generate_gaussian_noise(rng_key, position)
    return ULDState(position, momentum, *jax.value_and_grad(logdensity_fn)(position))


def build_kernel():
    """dx = p dt, dp = (s(x) - friction p) dt + sqrt(2 friction) dW.

    A step kicks by half a force, drifts half way, lets the friction and the noise act for the
    whole step (exactly), drifts half way, and kicks by half the new force. Where that ends in
    something not finite, the chain stays and turns round.
    """

    def kernel(rng_key, state, logdensity_fn, step_size, friction):
        half = step_size / 2
        decay = jnp.exp(-friction * step_size)
        spread = jnp.sqrt(-jnp.expm1(-2 * friction * step_size))
        noise = generate_gaussian_noise(rng_key, state.position)

        kick = lambda p, g: jax.tree.map(lambda a, b: a + half * b, p, g)
        momentum = kick(state.momentum, state.logdensity_grad)
        position = kick(state.position, momentum)
        momentum = jax.tree.map(
            lambda p, xi: (decay * p + spread * xi).astype(p.dtype), momentum, noise
        )
        position = kick(position, momentum)
        logdensity, gradient = jax.value_and_grad(logdensity_fn)(position)
        momentum = kick(momentum, gradient)
        moved = ULDState(position, momentum, logdensity, gradient)
        bounced = state._replace(momentum=optax.tree.scale(-1, state.momentum))
        return keep_finite(bounced, moved)

    return kernel


def as_top_level_api(
    logdensity_fn: LogDensity, step_size: float, friction: float = 1.0
) -> SamplingAlgorithm:
    return build_sampling_algorithm(
        build_kernel(),
        init,
        logdensity_fn,
        kernel_args=(step_size, friction),
        pass_rng_key_to_init=True,
    )
