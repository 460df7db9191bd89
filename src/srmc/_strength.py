"""The strength alpha_n of repellence: how hard the history pushes, step after step."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from srmc._checks import check_count, check_number


class Strength(NamedTuple):
    """A schedule of alpha.

    init
        Returns the first alpha and the schedule's state.
    update
        `(state, step, gamma, exponent) -> (alpha, state)`, called after each step with the
        number of steps made, the last gain and the exponent scale `alpha |theta·s|`.
    """

    init: Callable[[], tuple[jax.Array, Any]]
    update: Callable[[Any, jax.Array, jax.Array, jax.Array], tuple[jax.Array, Any]]


def fixed(alpha: float) -> Strength:
    """The same alpha at every step."""
    check_number("alpha", alpha, at_least=0.0)

    def init():
        return jnp.asarray(alpha, float), ()

    def update(state, step, gamma, exponent):
        return jnp.asarray(alpha, float), state

    return Strength(init, update)


def gain_limited(alpha: float, kappa: float = 0.25, top_eigenvalue: float = 1.0) -> Strength:
    """`min(alpha, kappa / (gamma_n lambda))`, lambda the top eigenvalue of Cov(A s, s).

    The loop of history and kernel is stable while gamma (1 + alpha lambda) < 2; the limit keeps
    it well inside while the gain is still large, and lets alpha reach its value as gamma falls.
    """
    check_number("alpha", alpha, at_least=0.0)
    check_number("kappa", kappa, above=0.0)
    check_number("top_eigenvalue", top_eigenvalue, above=0.0)

    def init():
        return jnp.zeros(()), ()

    def update(state, step, gamma, exponent):
        limit = kappa / (top_eigenvalue * jnp.maximum(gamma, jnp.finfo(float).tiny))
        return jnp.minimum(jnp.asarray(alpha, float), limit.astype(float)), state

    return Strength(init, update)


def _rise(alpha: float, num_steps: int, num_integration_steps: int, fraction: float):
    """`alpha_k = k / (C + k / alpha)` up to K_w steps, where it is `fraction * alpha`."""
    check_number("alpha", alpha, at_least=0.0)
    check_count("num_steps", num_steps)
    check_count("num_integration_steps", num_integration_steps)
    check_number("fraction", fraction, above=0.0, at_most=1.0)
    warmup = max(1, int(min(3000, 0.1 * num_steps) / num_integration_steps))
    constant = warmup * (1 / fraction - 1)  # C alpha, so that alpha = 0 is no special case

    def rise(step):
        k = jnp.minimum(step, warmup).astype(float)
        return alpha * k / (constant + k)

    return rise, warmup


def capped(
    alpha: float, num_steps: int, num_integration_steps: int = 1, fraction: float = 0.8
) -> Strength:
    """The paper's capped warm-up and freeze (app:hyperparameter_sensitivity).

    alpha rises as `k / (C + k / alpha)` for `min(3000, 0.1 num_steps)` gradients, that is for
    that number divided by `num_integration_steps` of HMC transitions, ends at
    `fraction * alpha`, and stays there. `num_steps` is the length of the run in gradients.
    """
    rise, _ = _rise(alpha, num_steps, num_integration_steps, fraction)

    def init():
        return rise(jnp.zeros((), int)), ()

    def update(state, step, gamma, exponent):
        return rise(step), state

    return Strength(init, update)


class GuardState(NamedTuple):
    """What `guarded` carries: the window of exponent scales, and how far alpha may go."""

    window: jax.Array
    strikes: jax.Array
    safe: jax.Array
    frozen: jax.Array


def guarded(
    alpha: float,
    num_steps: int,
    num_integration_steps: int = 1,
    fraction: float = 0.8,
    threshold: float = 1.0,
) -> Strength:
    """`capped` with the paper's exponent-scale guardrail.

    While alpha rises, the 95% quantile of `alpha |theta·s|` is taken over each window of
    `max(10, K_w / 20)` steps; when it exceeds `threshold` in two windows in a row, alpha freezes
    at the value it had at the end of the last window that did not.
    """
    rise, warmup = _rise(alpha, num_steps, num_integration_steps, fraction)
    check_number("threshold", threshold, above=0.0)
    size = max(10, warmup // 20)

    def init():
        start = rise(jnp.zeros((), int))
        return start, GuardState(jnp.zeros(size), jnp.zeros((), int), start, jnp.zeros((), bool))

    def update(state, step, gamma, exponent):
        window = state.window.at[(step - 1) % size].set(exponent)
        full = (step % size == 0) & (step <= warmup)
        hot = ~(jnp.quantile(window, 0.95) <= threshold)  # a NaN is hot
        strikes = jnp.where(full, jnp.where(hot, state.strikes + 1, 0), state.strikes)
        frozen = state.frozen | (strikes >= 2)
        risen = rise(step)
        safe = jnp.where(full & ~hot & ~frozen, risen, state.safe)
        return jnp.where(frozen, safe, risen), GuardState(window, strikes, safe, frozen)

    return Strength(init, update)


def as_strength(alpha: Any) -> Strength:
    """A number as a fixed strength; a schedule as it is."""
    return alpha if isinstance(alpha, Strength) else fixed(alpha)
