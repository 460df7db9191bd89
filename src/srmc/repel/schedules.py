"""The paper's schedules of alpha (app:hyperparameter_sensitivity)."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp

from srmc._checks import check_count, check_number, check_option
from srmc.repel.strength import Seen, Strength
from srmc.types import Array, Bool, Float, Int, Scalar


def _rise(
    alpha: float | Array, num_steps: int, num_integration_steps: int, fraction: float
) -> tuple[Callable[[Int[Array, ""]], Scalar], int]:
    """`alpha_k = k / (C + k / alpha)` up to step K_w, where it is `fraction * alpha`; and K_w."""
    check_number("alpha", alpha, at_least=0.0)
    check_count("num_steps", num_steps)
    check_count("num_integration_steps", num_integration_steps)
    check_number("fraction", fraction, above=0.0, at_most=1.0)
    warmup = max(1, int(min(3000, 0.1 * num_steps) / num_integration_steps))
    constant = warmup * (1 / fraction - 1)  # C alpha, so that alpha = 0 is no special case

    def rise(step: Int[Array, ""]) -> Scalar:
        k = jnp.minimum(step, warmup).astype(float)
        return jnp.where(k > 0, alpha * k / jnp.maximum(constant + k, 1), 0.0)

    return rise, warmup


def capped(
    alpha: float | Array, num_steps: int, num_integration_steps: int = 1, fraction: float = 0.8
) -> Strength:
    """The paper's capped warm-up and freeze.

    alpha rises as `k / (C + k / alpha)` for `min(3000, 0.1 num_steps)` gradients, which is that
    number divided by `num_integration_steps` in HMC transitions, ends at `fraction * alpha`, and
    stays there. `num_steps` is the length of the run in gradients.
    """
    rise, _ = _rise(alpha, num_steps, num_integration_steps, fraction)

    def init() -> tuple[Scalar, tuple[()]]:
        return rise(jnp.zeros((), int)), ()

    def update(state: tuple[()], seen: Seen) -> tuple[Scalar, tuple[()]]:
        return rise(seen.step), state

    return Strength(init, update, fraction * alpha)


class GuardState(NamedTuple):
    """The state of `guarded`.

    window
        The exponent scales of the current window.
    strikes
        The number of hot windows in a row.
    safe
        The last safe alpha.
    frozen
        Whether alpha has stopped rising.
    """

    window: Float[Array, " size"]
    strikes: Int[Array, ""]
    safe: Scalar
    frozen: Bool[Array, ""]


def guarded(
    alpha: float | Array,
    num_steps: int,
    num_integration_steps: int = 1,
    fraction: float = 0.8,
    threshold: float = 1.0,
    safe: str = "step",
) -> Strength:
    """`capped` with the paper's exponent-scale guardrail.

    While alpha rises, the 95% quantile of `alpha_k |theta_k·s(X_k)|` is taken over each window of
    `max(10, K_w / 20)` steps. When it exceeds `threshold` in two consecutive windows, alpha freezes
    at "the last safe value", which the paper leaves open; `safe` reads it as

    - "step": alpha_k at the last step k whose own scale did not exceed the threshold;
    - "window": alpha at the end of the last window whose quantile did not exceed it, which is 0,
      for good, if the first two windows do.

    A rise that lasts less than two windows is never stopped.
    """
    rise, warmup = _rise(alpha, num_steps, num_integration_steps, fraction)
    check_number("threshold", threshold, above=0.0)
    check_option("safe", safe, ("step", "window"))
    window_size = max(10, warmup // 20)

    def init() -> tuple[Scalar, GuardState]:
        start = rise(jnp.zeros((), int))
        window = jnp.zeros(window_size)
        return start, GuardState(window, jnp.zeros((), int), start, jnp.zeros((), bool))

    def update(state: GuardState, seen: Seen) -> tuple[Scalar, GuardState]:
        step, risen = seen.step, rise(seen.step)
        scale = risen * seen.alignment
        window = state.window.at[(step - 1) % window_size].set(scale)
        full = (step % window_size == 0) & (step <= warmup)
        hot = ~(jnp.quantile(window, 0.95) <= threshold)  # a NaN is hot
        strikes = jnp.where(full, jnp.where(hot, state.strikes + 1, 0), state.strikes)
        frozen = state.frozen | (strikes >= 2)
        is_safe = full & ~hot if safe == "window" else scale <= threshold
        last_safe = jnp.where(is_safe & ~state.frozen, risen, state.safe)
        return jnp.where(frozen, last_safe, risen), GuardState(window, strikes, last_safe, frozen)

    return Strength(init, update, fraction * alpha)
