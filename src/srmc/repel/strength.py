"""The strength alpha_n of repellence: how hard the history pushes at each step."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax.numpy as jnp
import numpy as np

from srmc._checks import check_number
from srmc.types import Array, Bool, Int, Scalar

ScheduleState: TypeAlias = Any  # a pytree that the schedule defines
_TINY = np.finfo(float).tiny


class Seen(NamedTuple):
    """What a schedule of alpha is told after each step.

    step, gamma
        The number of steps taken, and the last gain.
    exponent
        The exponent scale `alpha |(A theta)·s|`.
    is_finite
        Whether the score of the draw was finite and its move acceptable.
    size
        `(A s)·s` divided by the number of features; along a field with several parts, the largest
        over the parts. It averages 1 if A whitens the features.
    alignment
        `|(A theta)·s|`, the exponent scale per unit of alpha.
    """

    step: Int[Array, ""]
    gamma: Scalar
    exponent: Scalar
    is_finite: Bool[Array, ""]
    size: Scalar
    alignment: Scalar


class Strength(NamedTuple):
    """A schedule of alpha.

    init
        Returns the first alpha and the state of the schedule.
    update
        `(state, seen) -> (alpha, state)`, called after each step.
    most
        The largest alpha that it takes, if that is known; `srmc.sample` sets the gain by it.
    """

    init: Callable[[], tuple[Scalar, ScheduleState]]
    update: Callable[[ScheduleState, Seen], tuple[Scalar, ScheduleState]]
    most: float | Array | None = None


def fixed(alpha: float | Array) -> Strength:
    """The same alpha at every step."""
    check_number("alpha", alpha, at_least=0.0)

    def init() -> tuple[Scalar, tuple[()]]:
        return jnp.asarray(alpha, float), ()

    def update(state: tuple[()], seen: Seen) -> tuple[Scalar, tuple[()]]:
        return jnp.asarray(alpha, float), state

    return Strength(init, update, alpha)


def gain_limited(
    alpha: float | Array, kappa: float | Array = 0.25, top_eigenvalue: float | Array = 1.0
) -> Strength:
    """`min(alpha, kappa / (gamma_n lambda))`, with lambda the top eigenvalue of A Cov(s).

    lambda is 1 only if A whitens the score; otherwise give it, or the limit does not hold. The
    loop of history and kernel is stable while gamma (1 + alpha lambda) < 2. The limit keeps it
    well inside that range while the gain is large, and lets alpha reach its value as gamma falls.
    """
    check_number("alpha", alpha, at_least=0.0)
    check_number("kappa", kappa, above=0.0)
    check_number("top_eigenvalue", top_eigenvalue, above=0.0)

    def init() -> tuple[Scalar, tuple[()]]:
        return jnp.zeros(()), ()

    def update(state: tuple[()], seen: Seen) -> tuple[Scalar, tuple[()]]:
        limit = kappa / (top_eigenvalue * jnp.maximum(seen.gamma, _TINY))
        return jnp.minimum(jnp.asarray(alpha, float), limit.astype(float)), state

    return Strength(init, update, alpha)


class WatchState(NamedTuple):
    """The state of `watched`.

    heat, size, refused
        Running means of the squared exponent scale, of the size, and of the share of steps that
        were not finite.
    share
        The share of alpha that is left.
    is_hot
        Whether alpha was lowered at the last step.
    inner_state
        The state of the schedule that is watched.
    """

    heat: Scalar
    size: Scalar
    refused: Scalar
    share: Scalar
    is_hot: Bool[Array, ""]
    inner_state: ScheduleState


def watched(
    alpha: float | Array | Strength,
    limit: float | Array = 1.0,
    rate: float | Array = 0.5,
    memory: float = 20.0,
    recovery: float = 0.01,
) -> Strength:
    """A strength, or a schedule of it, under a guard that lowers it when the loop heats up.

    The root mean square of the exponent scale `alpha |(A theta)·s|` over about `memory` steps
    measures the push in units of the target's own score, whatever the preconditioner. alpha falls
    by a tenth at each step on which this exceeds `limit`, and at each step that is not finite.
    While it is below half the limit and fewer than one step in a hundred is not finite, alpha
    recovers by the share `recovery` per step. In addition, the loop's rate
    `gamma alpha (A s)·s / d`, averaged over ten times as many steps, is kept below `rate`, which
    catches a badly scaled preconditioner.

    `info.is_hot` reports when alpha was lowered. In the fixed frame of a shift, the target then
    jumps back and carries the chain along, which would otherwise be left where nothing is accepted.
    """
    check_number("limit", limit, above=0.0)
    check_number("rate", rate, above=0.0)
    check_number("memory", memory, at_least=1.0)
    check_number("recovery", recovery, at_least=0.0)
    inner = as_strength(alpha)

    def init() -> tuple[Scalar, WatchState]:
        first, inner_state = inner.init()
        zero, one = jnp.zeros(()), jnp.ones(())
        return first, WatchState(zero, zero, zero, one, jnp.zeros((), bool), inner_state)

    def averaged(old: Scalar, new: Array, seen: Seen, num_steps: float) -> Scalar:
        """A running mean over that many steps, or over all steps while there are fewer."""
        weight = jnp.maximum(1 / num_steps, 1 / jnp.maximum(seen.step, 1)).astype(float)
        return old + weight * (new - old)

    def update(state: WatchState, seen: Seen) -> tuple[Scalar, WatchState]:
        wanted, inner_state = inner.update(state.inner_state, seen)
        # The clip keeps one wild step from weighing as much as many.
        exponent = jnp.clip(jnp.nan_to_num(seen.exponent, nan=jnp.inf), max=4 * limit)
        heat = state.heat + (exponent**2 - state.heat) / memory
        size = jnp.where(seen.is_finite, seen.size, 0).astype(float)
        size = averaged(state.size, size, seen, 10 * memory)
        refused = averaged(state.refused, ~seen.is_finite, seen, 50 * memory)
        is_hot = (heat > limit**2) | ~seen.is_finite
        cool = (heat < (limit / 2) ** 2) & (refused < 0.01)
        change = jnp.where(is_hot, 0.9, jnp.where(cool, 1 + recovery, 1.0))
        share = jnp.clip(change * state.share, 1e-9, 1.0)
        most = rate / jnp.maximum(seen.gamma * size, _TINY)
        is_hot |= most < share * wanted
        state = WatchState(heat, size, refused, share, is_hot, inner_state)
        return jnp.minimum(share * wanted, most.astype(float)), state

    return Strength(init, update, inner.most)


def as_strength(alpha: float | Array | Strength) -> Strength:
    """A number as a fixed strength; a schedule as it is."""
    return alpha if isinstance(alpha, Strength) else fixed(alpha)
