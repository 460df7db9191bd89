"""The strength alpha_n of repellence: how hard the history pushes at each step."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax.tree_util import register_dataclass

from srmc._checks import check_count, check_number, check_option
from srmc.types import Array, Bool, Float, Int, Scalar

ScheduleState: TypeAlias = Any  # a pytree that the schedule defines
_TINY = np.finfo(float).tiny


class Seen(NamedTuple):
    """What a schedule of alpha sees after each step.

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


class Strength:
    """A schedule of alpha: a subclass with the methods below, or `Strength(init, update, most)`.

    init
        Returns the first alpha and the state of the schedule.
    update
        `(state, seen) -> (alpha, state)`, called after each step.
    most
        The largest alpha, if it is known; `srmc.sample` sets the gain by it.
    """

    init: Callable[..., tuple[Scalar, ScheduleState]]
    update: Callable[..., tuple[Scalar, ScheduleState]]
    most: Any

    def __new__(cls, *args: Any, **kwargs: Any) -> "Strength":
        return super().__new__(_OfFunctions if cls is Strength else cls)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class _OfFunctions(Strength):
    """A schedule that a user gives as two functions."""

    init: Callable[..., tuple[Scalar, ScheduleState]]
    update: Callable[..., tuple[Scalar, ScheduleState]]
    most: float | Array | None = None


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Fixed(Strength):
    """The same alpha at every step."""

    alpha: float | Array

    @property
    def most(self) -> float | Array:
        return self.alpha

    def init(self) -> tuple[Scalar, ScheduleState]:
        return jnp.asarray(self.alpha, float), ()

    def update(self, state: ScheduleState, seen: Seen) -> tuple[Scalar, ScheduleState]:
        return jnp.asarray(self.alpha, float), state


def fixed(alpha: float | Array) -> Strength:
    """The same alpha at every step."""
    check_number("alpha", alpha, at_least=0.0)
    return Fixed(alpha)


def as_strength(alpha: float | Array | Strength) -> Strength:
    """A number as a fixed strength; a schedule unchanged."""
    return alpha if isinstance(alpha, Strength) else fixed(alpha)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class GainLimited(Strength):
    """`min(alpha, kappa / (gamma_n lambda))`; see `gain_limited`."""

    most: float | Array
    kappa: float | Array
    top_eigenvalue: float | Array

    def init(self) -> tuple[Scalar, ScheduleState]:
        return jnp.zeros(()), ()

    def update(self, state: ScheduleState, seen: Seen) -> tuple[Scalar, ScheduleState]:
        limit = self.kappa / (self.top_eigenvalue * jnp.maximum(seen.gamma, _TINY))
        return jnp.minimum(jnp.asarray(self.most, float), limit.astype(float)), state


def gain_limited(
    alpha: float | Array, kappa: float | Array = 0.25, top_eigenvalue: float | Array = 1.0
) -> Strength:
    """`min(alpha, kappa / (gamma_n lambda))`, with lambda the top eigenvalue of A Cov(s).

    lambda is 1 only if A whitens the score. The loop of history and kernel is stable while
    gamma (1 + alpha lambda) < 2; the limit keeps it well inside that range while the gain is large.
    """
    check_number("alpha", alpha, at_least=0.0)
    check_number("kappa", kappa, above=0.0)
    check_number("top_eigenvalue", top_eigenvalue, above=0.0)
    return GainLimited(alpha, kappa, top_eigenvalue)


class WatchState(NamedTuple):
    """The state of `watched`."""

    # Running means of the squared exponent scale, of the size, and of the share of steps that were
    # not finite.
    heat: Scalar
    size: Scalar
    refused: Scalar
    share: Scalar  # factor on the watched alpha
    is_hot: Bool[Array, ""]  # whether alpha was lowered at the last step
    inner_state: ScheduleState  # state of the watched schedule


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Watched(Strength):
    """A schedule under a guard; see `watched`."""

    inner: Strength
    limit: float | Array
    rate: float | Array
    memory: float
    recovery: float

    @property
    def most(self) -> Any:
        return self.inner.most

    def init(self) -> tuple[Scalar, ScheduleState]:
        first, inner_state = self.inner.init()
        zero, one = jnp.zeros(()), jnp.ones(())
        return first, WatchState(zero, zero, zero, one, jnp.zeros((), bool), inner_state)

    def update(self, state: WatchState, seen: Seen) -> tuple[Scalar, ScheduleState]:
        wanted, inner_state = self.inner.update(state.inner_state, seen)
        # Clipped, one outlier weighs no more than 16 steps at the limit.
        exponent = jnp.clip(jnp.nan_to_num(seen.exponent, nan=jnp.inf), max=4 * self.limit)
        heat = state.heat + (exponent**2 - state.heat) / self.memory
        size = jnp.where(seen.is_finite, seen.size, 0).astype(float)
        size = _averaged(state.size, size, seen, 10 * self.memory)
        refused = _averaged(state.refused, ~seen.is_finite, seen, 50 * self.memory)
        is_hot = (heat > self.limit**2) | ~seen.is_finite
        cool = (heat < (self.limit / 2) ** 2) & (refused < 0.01)
        change = jnp.where(is_hot, 0.9, jnp.where(cool, 1 + self.recovery, 1.0))
        share = jnp.clip(change * state.share, 1e-9, 1.0)
        most = self.rate / jnp.maximum(seen.gamma * size, _TINY)
        is_hot |= most < share * wanted
        state = WatchState(heat, size, refused, share, is_hot, inner_state)
        return jnp.minimum(share * wanted, most.astype(float)), state


def _averaged(old: Scalar, new: Array, seen: Seen, num_steps: float) -> Scalar:
    """A running mean over `num_steps` steps, or over all steps while there are fewer."""
    weight = jnp.maximum(1 / num_steps, 1 / jnp.maximum(seen.step, 1)).astype(float)
    return old + weight * (new - old)


def watched(
    alpha: float | Array | Strength,
    limit: float | Array = 1.0,
    rate: float | Array = 0.5,
    memory: float = 20.0,
    recovery: float = 0.01,
) -> Strength:
    """A strength, or a schedule of it, with a guard that lowers it when the loop is unstable.

    The guard measures the push by the root mean square of the exponent scale
    `alpha |(A theta)·s|` over about `memory` steps, which has no units. alpha falls by a tenth at
    each step on which this exceeds `limit`, and at each step that is not finite. While it is below
    half the limit and fewer than one step in a hundred is not finite, alpha grows by the factor
    `1 + recovery` per step. In addition, the loop's rate `gamma alpha (A s)·s / d`, averaged over
    ten times as many steps, is kept below `rate`, which detects a badly scaled preconditioner.

    `info.is_hot` reports when alpha was lowered. In the fixed frame of a shift, the chain then
    moves with the target, since it could otherwise be left where nothing is accepted.
    """
    check_number("limit", limit, above=0.0)
    check_number("rate", rate, above=0.0)
    check_number("memory", memory, at_least=1.0)
    check_number("recovery", recovery, at_least=0.0)
    return Watched(as_strength(alpha), limit, rate, memory, recovery)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Capped(Strength):
    """`alpha_k = k / (C + k / alpha)` until step K_w, where it is `fraction * alpha`."""

    alpha: float | Array
    fraction: float
    warmup: int = dataclasses.field(metadata={"static": True})

    @property
    def most(self) -> float | Array:
        return self.fraction * self.alpha

    def at(self, step: Int[Array, ""]) -> Scalar:
        """alpha_k."""
        k = jnp.minimum(step, self.warmup).astype(float)
        constant = self.warmup * (1 / self.fraction - 1)  # C alpha, defined for alpha = 0 too
        return jnp.where(k > 0, self.alpha * k / jnp.maximum(constant + k, 1), 0.0)

    def init(self) -> tuple[Scalar, ScheduleState]:
        return self.at(jnp.zeros((), int)), ()

    def update(self, state: ScheduleState, seen: Seen) -> tuple[Scalar, ScheduleState]:
        return self.at(seen.step), state


def capped(
    alpha: float | Array, num_steps: int, num_integration_steps: int = 1, fraction: float = 0.8
) -> Capped:
    """The paper's capped warm-up and freeze (app:hyperparameter_sensitivity).

    alpha rises as `k / (C + k / alpha)` for `min(3000, 0.1 num_steps)` gradients, which is that
    number divided by `num_integration_steps` in HMC transitions, ends at `fraction * alpha`, and
    stays there. `num_steps` is the length of the run in gradients.
    """
    check_number("alpha", alpha, at_least=0.0)
    check_count("num_steps", num_steps)
    check_count("num_integration_steps", num_integration_steps)
    check_number("fraction", fraction, above=0.0, at_most=1.0)
    warmup = max(1, int(min(3000, 0.1 * num_steps) / num_integration_steps))
    return Capped(alpha, fraction, warmup)


class GuardState(NamedTuple):
    """The state of `guarded`."""

    window: Float[Array, " size"]  # exponent scales of the current window
    strikes: Int[Array, ""]  # number of consecutive hot windows
    safe: Scalar  # last safe alpha
    frozen: Bool[Array, ""]  # whether alpha has stopped rising


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Guarded(Strength):
    """A capped rise that stops when it is hot; see `guarded`."""

    rise: Capped
    threshold: float
    safe: str = dataclasses.field(metadata={"static": True})

    @property
    def most(self) -> float | Array:
        return self.rise.most

    @property
    def window_size(self) -> int:
        return max(10, self.rise.warmup // 20)

    def init(self) -> tuple[Scalar, ScheduleState]:
        start, _ = self.rise.init()
        window = jnp.zeros(self.window_size)
        return start, GuardState(window, jnp.zeros((), int), start, jnp.zeros((), bool))

    def update(self, state: GuardState, seen: Seen) -> tuple[Scalar, ScheduleState]:
        step, risen = seen.step, self.rise.at(seen.step)
        scale = risen * seen.alignment
        window = state.window.at[(step - 1) % self.window_size].set(scale)
        full = (step % self.window_size == 0) & (step <= self.rise.warmup)
        hot = ~(jnp.quantile(window, 0.95) <= self.threshold)  # true for NaN
        strikes = jnp.where(full, jnp.where(hot, state.strikes + 1, 0), state.strikes)
        frozen = state.frozen | (strikes >= 2)
        is_safe = full & ~hot if self.safe == "window" else scale <= self.threshold
        safe = jnp.where(is_safe & ~state.frozen, risen, state.safe)
        return jnp.where(frozen, safe, risen), GuardState(window, strikes, safe, frozen)


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
    at "the last safe value", which the paper does not define; `safe` reads it as

    - "step": alpha_k at the last step k whose own scale did not exceed the threshold;
    - "window": alpha at the end of the last window whose quantile did not exceed it, which stays at
      0 if the first two windows exceed it.

    A rise that lasts less than two windows is never stopped.
    """
    rise = capped(alpha, num_steps, num_integration_steps, fraction)
    check_number("threshold", threshold, above=0.0)
    check_option("safe", safe, ("step", "window"))
    return Guarded(rise, threshold, safe)
