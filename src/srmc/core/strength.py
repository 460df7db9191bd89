"""The strength alpha_n of repellence: how hard the history pushes, step after step."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from srmc._checks import check_count, check_number


class Seen(NamedTuple):
    """What a schedule of alpha is told after each step.

    step, gamma
        The number of steps made, and the last gain.
    exponent
        The exponent scale `alpha |(A theta)·s|`.
    is_finite
        Whether the score of the draw was finite, and its move acceptable.
    size
        `(A s)·s` over the number of features, the largest over their kinds: 1 on average if A
        whitens them.
    """

    step: jax.Array
    gamma: jax.Array
    exponent: jax.Array
    is_finite: jax.Array
    size: jax.Array


class Strength(NamedTuple):
    """A schedule of alpha.

    init
        Returns the first alpha and the schedule's state.
    update
        `(state, seen) -> (alpha, state)`, called after each step.
    """

    init: Callable[[], tuple[jax.Array, Any]]
    update: Callable[[Any, Seen], tuple[jax.Array, Any]]


def fixed(alpha: float) -> Strength:
    """The same alpha at every step."""
    check_number("alpha", alpha, at_least=0.0)

    def init():
        return jnp.asarray(alpha, float), ()

    def update(state, seen):
        return jnp.asarray(alpha, float), state

    return Strength(init, update)


def gain_limited(alpha: float, kappa: float = 0.25, top_eigenvalue: float = 1.0) -> Strength:
    """`min(alpha, kappa / (gamma_n lambda))`, lambda the top eigenvalue of A Cov(s).

    lambda is 1 only if A whitens the score; say what it is if not, or the limit does not hold.
    The loop of history and kernel is stable while gamma (1 + alpha lambda) < 2; the limit keeps
    it well inside while the gain is still large, and lets alpha reach its value as gamma falls.
    """
    check_number("alpha", alpha, at_least=0.0)
    check_number("kappa", kappa, above=0.0)
    check_number("top_eigenvalue", top_eigenvalue, above=0.0)

    def init():
        return jnp.zeros(()), ()

    def update(state, seen):
        limit = kappa / (top_eigenvalue * jnp.maximum(seen.gamma, jnp.finfo(float).tiny))
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
        return jnp.where(k > 0, alpha * k / jnp.maximum(constant + k, 1), 0.0)

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

    def update(state, seen):
        return rise(seen.step), state

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
    at the value it had at the end of the last window that did not. A rise of less than two windows
    is never stopped.
    """
    rise, warmup = _rise(alpha, num_steps, num_integration_steps, fraction)
    check_number("threshold", threshold, above=0.0)
    size = max(10, warmup // 20)

    def init():
        start = rise(jnp.zeros((), int))
        return start, GuardState(jnp.zeros(size), jnp.zeros((), int), start, jnp.zeros((), bool))

    def update(state, seen):
        step = seen.step
        window = state.window.at[(step - 1) % size].set(seen.exponent)
        full = (step % size == 0) & (step <= warmup)
        hot = ~(jnp.quantile(window, 0.95) <= threshold)  # a NaN is hot
        strikes = jnp.where(full, jnp.where(hot, state.strikes + 1, 0), state.strikes)
        frozen = state.frozen | (strikes >= 2)
        risen = rise(step)
        safe = jnp.where(full & ~hot & ~frozen, risen, state.safe)
        return jnp.where(frozen, safe, risen), GuardState(window, strikes, safe, frozen)

    return Strength(init, update)


class WatchState(NamedTuple):
    """What `watched` carries.

    heat, size, refused
        Running means of the squared exponent, of the size, and of steps that were not finite.
    share
        The share of alpha that is left.
    """

    heat: jax.Array
    size: jax.Array
    refused: jax.Array
    share: jax.Array
    is_hot: jax.Array
    inner_state: Any


def watched(
    alpha: Any, limit: Any = 1.0, rate: Any = 0.5, memory: float = 20.0, recovery: float = 0.01
) -> Strength:
    """A strength, or a schedule of it, under a guard that lowers it when the loop heats up.

    The root mean square of the exponent scale `alpha |(A theta)·s|` over about `memory` steps is
    the size of the push in units of the target's own score, whatever the preconditioner. Above
    `limit`, and at every step that met something not finite, alpha falls by a tenth; below half
    the limit, and while such steps are less than one in a hundred, it recovers by the share
    `recovery` a step. Also, the loop's rate `gamma alpha (A s)·s / d`, measured over ten times as
    many steps, is kept below `rate`, which catches a preconditioner that is off.

    `info.is_hot` tells when alpha was lowered. In the fixed frame of a shift the target then jumps
    back, and the chain is carried along, since it would be left where nothing is accepted.
    """
    check_number("limit", limit, above=0.0)
    check_number("rate", rate, above=0.0)
    check_number("memory", memory, at_least=1.0)
    check_number("recovery", recovery, at_least=0.0)
    inner = as_strength(alpha)

    def init():
        first, inner_state = inner.init()
        zero, one = jnp.zeros(()), jnp.ones(())
        return first, WatchState(zero, zero, zero, one, jnp.zeros((), bool), inner_state)

    def update(state, seen):
        wanted, inner_state = inner.update(state.inner_state, seen)
        # One wild step alone must not pass for many.
        exponent = jnp.clip(jnp.nan_to_num(seen.exponent, nan=jnp.inf), max=4 * limit)
        heat = state.heat + (exponent**2 - state.heat) / memory
        over = lambda steps: jnp.maximum(1 / steps, 1 / jnp.maximum(seen.step, 1)).astype(float)
        size = jnp.where(seen.is_finite, seen.size, 0).astype(float)
        size = state.size + over(10 * memory) * (size - state.size)
        refused = state.refused + over(50 * memory) * (~seen.is_finite - state.refused)
        is_hot = (heat > limit**2) | ~seen.is_finite
        cool = (heat < (limit / 2) ** 2) & (refused < 0.01)
        change = jnp.where(is_hot, 0.9, jnp.where(cool, 1 + recovery, 1.0))
        share = jnp.clip(change * state.share, 1e-9, 1.0)
        most = rate / jnp.maximum(seen.gamma * size, jnp.finfo(float).tiny)
        is_hot |= most < share * wanted
        state = WatchState(heat, size, refused, share, is_hot, inner_state)
        return jnp.minimum(share * wanted, most.astype(float)), state

    return Strength(init, update)


def as_strength(alpha: Any) -> Strength:
    """A number as a fixed strength; a schedule as it is."""
    return alpha if isinstance(alpha, Strength) else fixed(alpha)
