"""Langevin kernels in BlackJAX's form, which can be given their target in two parts.

Each keeps the value and the score of the target at its position (see `srmc.repel.frames.TwoPart`).
On a plain log density both parts are the same.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import optax
from blackjax.base import SamplingAlgorithm, build_sampling_algorithm
from blackjax.mcmc import mala as blackjax_mala
from blackjax.mcmc.diffusions import DiffusionState, overdamped_langevin
from blackjax.mcmc.mala import MALAInfo, MALAState
from blackjax.mcmc.proposal import compute_asymmetric_acceptance_ratio, static_binomial_sampling
from blackjax.util import generate_gaussian_noise

from srmc.repel.frames import SplitAlgorithm, TwoPart
from srmc.repel.target import all_finite
from srmc.types import Array, LogDensity, Position, PRNGKey, Scalar, Score

State = TypeVar("State")


class UnadjustedInfo(NamedTuple):
    """Report of one unadjusted step."""

    # 1, or 0 if the proposed state was not finite and the chain stayed where it was.
    acceptance_rate: Scalar


class ULDState(NamedTuple):
    """Position and momentum at unit mass, with the log density and its gradient."""

    position: Position
    momentum: Position
    logdensity: Scalar
    logdensity_grad: Score


def _plain(transition: Callable[..., Any]) -> Callable[[], Callable[..., Any]]:
    """BlackJAX's `build_kernel`, whose kernels take a log density, of a transition in two parts."""

    def kernel(
        rng_key: PRNGKey, state: Any, logdensity_fn: LogDensity, *args: Any, **kwargs: Any
    ) -> tuple[Any, Any]:
        look = jax.value_and_grad(logdensity_fn)
        target = TwoPart(look, lambda x, value, s: (value, s), lambda x: (look(x),) * 2)
        new, info = transition(rng_key, state, target, *args, **kwargs)
        return new, info

    return lambda: kernel


def _keep_finite(state: State, new_state: State) -> tuple[State, UnadjustedInfo]:
    """The new state if all of it is finite, else the old one."""
    finite = all_finite(new_state)
    return optax.tree.where(finite, new_state, state), UnadjustedInfo(jnp.where(finite, 1.0, 0.0))


def _ula_step(
    rng_key: PRNGKey, state: DiffusionState, target: TwoPart, step_size: float | Scalar
) -> tuple[DiffusionState, UnadjustedInfo]:
    """x' = x + eta s(x) + sqrt(2 eta) xi."""
    langevin = overdamped_langevin(target.look)
    return _keep_finite(state, langevin(rng_key, target.bent(state), step_size))


def _ula_init(position: Position, logdensity_fn: LogDensity) -> DiffusionState:
    return DiffusionState(position, *jax.value_and_grad(logdensity_fn)(position))


def _ula(logdensity_fn: LogDensity, step_size: float) -> SamplingAlgorithm:
    return build_sampling_algorithm(
        _plain(_ula_step)(), _ula_init, logdensity_fn, kernel_args=(step_size,)
    )


def _uld_step(
    rng_key: PRNGKey,
    state: ULDState,
    target: TwoPart,
    step_size: float | Scalar,
    friction: float | Scalar = 1.0,
) -> tuple[ULDState, UnadjustedInfo]:
    """A step of dx = p dt, dp = (s(x) - friction p) dt + sqrt(2 friction) dW, by BAOAB splitting.

    Each step makes a half kick, a half drift, an exact friction-and-noise update over the full
    step size, a half drift, and a half kick with the new score. If the result is not finite, the
    chain stays where it was and its momentum is reversed.
    """
    decay = jnp.exp(-friction * step_size)
    spread = jnp.sqrt(-jnp.expm1(-2 * friction * step_size))
    noise = generate_gaussian_noise(rng_key, state.position)

    def half(start: Position, rate: Position) -> Position:
        return jax.tree.map(lambda a, b: a + step_size / 2 * b, start, rate)

    def thermostat(p: Array, xi: Array) -> Array:
        return (decay * p + spread * xi).astype(p.dtype)

    momentum = half(state.momentum, target.bent(state).logdensity_grad)
    position = half(state.position, momentum)
    momentum = jax.tree.map(thermostat, momentum, noise)
    position = half(position, momentum)
    seen, (_, gradient) = target.fresh(position)
    reversed_state = state._replace(momentum=optax.tree.scale(-1, state.momentum))
    return _keep_finite(reversed_state, ULDState(position, half(momentum, gradient), *seen))


def _uld_init(
    position: Position, logdensity_fn: LogDensity, rng_key: PRNGKey | None = None
) -> ULDState:
    """Start a chain with random momentum, or with zero momentum without a key."""
    if rng_key is None:
        momentum = optax.tree.zeros_like(position)
    else:
        momentum = generate_gaussian_noise(rng_key, position)
    return ULDState(position, momentum, *jax.value_and_grad(logdensity_fn)(position))


def _uld(logdensity_fn: LogDensity, step_size: float, friction: float = 1.0) -> SamplingAlgorithm:
    return build_sampling_algorithm(
        _plain(_uld_step)(),
        _uld_init,
        logdensity_fn,
        kernel_args=(step_size, friction),
        pass_rng_key_to_init=True,
    )


def _mala_step(
    rng_key: PRNGKey, state: MALAState, target: TwoPart, step_size: float | Scalar
) -> tuple[MALAState, MALAInfo]:
    """BlackJAX's transition, with states that hold value and score of the target itself."""
    move_key, accept_key = jax.random.split(rng_key)
    here = target.bent(state)
    # The Langevin move evaluates the function that it is given at its end: both parts.
    y, seen, bent = overdamped_langevin(target.fresh)(move_key, here, step_size)
    proposed, there = MALAState(y, *seen), MALAState(y, *bent)
    log_ratio = compute_asymmetric_acceptance_ratio(_energy)(here, there, step_size=step_size)
    accepted, info = static_binomial_sampling(accept_key, log_ratio, state, proposed)
    is_accepted, acceptance_rate, _ = info
    return accepted, MALAInfo(acceptance_rate, is_accepted)


def _energy(start: MALAState, end: MALAState, step_size: float | Scalar) -> Scalar:
    """`-log pi_theta(y) - log q(y, x)`, for a move from x to y."""
    missed = jax.tree.map(
        lambda x, y, g: x - y - step_size * g, start.position, end.position, end.logdensity_grad
    )
    squares = optax.tree.vdot(missed, missed)
    return jnp.asarray(-end.logdensity + 0.25 * (1.0 / step_size) * squares)


ula = SplitAlgorithm(
    _ula,
    _ula_init,
    _plain(_ula_step),
    "ula",
    lambda: _ula_step,
    bends_proposal=False,
    adjusted=False,
)
uld = SplitAlgorithm(
    _uld,
    _uld_init,
    _plain(_uld_step),
    "uld",
    lambda: _uld_step,
    bends_proposal=True,
    adjusted=False,
)
mala = SplitAlgorithm(
    blackjax_mala.as_top_level_api,
    blackjax_mala.init,
    blackjax_mala.build_kernel,
    "mala",
    lambda: _mala_step,
    bends_proposal=True,
    adjusted=True,
)
