"""The memory of a repelled chain: the history, and the strength that follows it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from srmc._checks import check_count, check_flag, check_option, is_concrete, outputs_of
from srmc.repel import history
from srmc.repel.state import RepelInfo, RepelState
from srmc.repel.strength import Seen, Strength, as_strength
from srmc.repel.sums import sums
from srmc.repel.target import like
from srmc.types import Array, Bool, Feature, Float, Int, KernelInfo, KernelState, Position


class Closed(NamedTuple):
    """The history and the strength after a step, and what the step's report says about them."""

    theta: Feature
    feature: Feature
    alpha: Float[Array, ""]
    strength_state: KernelState
    exponent: Float[Array, ""]
    is_hot: Bool[Array, ""]
    gain: Float[Array, ""]
    is_valid: Bool[Array, ""]

    def state(
        self,
        before: RepelState,
        position: Position,
        inner_state: KernelState,
        feedback: Feature,
        is_inside: Bool[Array, ""],
    ) -> RepelState:
        """The state after a step that began at `before`."""
        return RepelState(
            position=position,
            theta=self.theta,
            alpha=self.alpha,
            step=before.step + 1,
            inner_state=inner_state,
            feature=self.feature,
            feedback=feedback,
            is_inside=is_inside,
            strength_state=self.strength_state,
        )

    def info(
        self,
        inner_info: KernelInfo,
        spent: tuple[Int[Array, ""], Int[Array, ""]],
        is_finite: Bool[Array, ""],
    ) -> RepelInfo:
        """The report of a step that `spent` so many gradients and Hessian-vector products."""
        gradients, hvps = spent
        return RepelInfo(
            inner_info=inner_info,
            exponent=self.exponent,
            gradients=gradients,
            hvps=hvps,
            is_finite=is_finite,
            is_hot=self.is_hot,
            is_stable=self.exponent <= 10 + optax.tree.size(self.theta),
            gain=self.gain,
        )


class Learned(NamedTuple):
    """The history after a step, and what the strength needs to know about the step.

    gamma, enters
        The weight of the feature in the history, and whether it entered.
    size
        The relative size of the feature that was found.
    is_valid
        Whether that was finite, and valid otherwise.
    """

    theta: Feature
    feature: Feature
    gamma: Float[Array, ""]
    enters: Bool[Array, ""]
    size: Float[Array, ""]
    is_valid: Bool[Array, ""]


class Memory(NamedTuple):
    """How the history is kept, and the strength that it leads to; the keywords of `repel`."""

    strength: Strength
    gain: Callable[[Array], Array]
    precondition: Callable[[Feature], Feature]
    every: int | Array
    average: bool
    axis: str | tuple[str, ...] | None
    start: str

    def first(self, theta: Feature | None, feature: Feature, zeros: Feature) -> Feature:
        """theta_0: as given, or what the keyword asks for at a start with this feature."""
        if theta is not None:
            return like("theta", theta, zeros)
        return feature if self.start == "score" else zeros

    def opens(self, state: RepelState) -> Bool[Array, ""]:
        """Whether the history was updated at the end of the last step."""
        return state.step % self.every == 0

    def closes(self, state: RepelState) -> Bool[Array, ""]:
        """Whether the history is updated at the end of this step."""
        return (state.step + 1) % self.every == 0

    @property
    def updates_at_each_step(self) -> bool:
        return is_concrete(self.every) and bool(self.every == 1)

    def close(
        self,
        state: RepelState,
        feature: Feature,
        valid: Bool[Array, ""] | bool,
        inside: Bool[Array, ""],
        learns: bool = True,
        entering: Feature | None = None,
    ) -> Closed:
        """Close the loop after a step that began at `state` and found `feature`.

        The feature, or what is `entering` in its place, enters the history if it is `valid` and
        finite, and if the step `learns`.
        """
        return self.strengthen(state, self.learn(state, feature, valid, learns, entering), inside)

    def learn(
        self,
        state: RepelState,
        feature: Feature,
        valid: Bool[Array, ""] | bool = True,
        learns: bool = True,
        entering: Feature | None = None,
    ) -> Learned:
        """The history after a step; see `close`."""
        entering = feature if entering is None else entering
        if self.average:
            entering = jax.tree.map(lambda old, new: (old + new) / 2, state.feature, feature)
        size = relative_size(self.precondition, feature)
        valid = jnp.isfinite(size) & valid
        enters = self.closes(state) & valid & learns
        gamma = self.gain(jnp.maximum((state.step + 1) // self.every, 1))
        theta = history.update(state.theta, entering, gamma, enters, self.axis)
        feature = optax.tree.where(valid, feature, state.feature)
        return Learned(theta, feature, gamma, enters, size, valid)

    def strengthen(self, state: RepelState, now: Learned, inside: Bool[Array, ""]) -> Closed:
        """The loop after a step, with the strength that follows from the history."""
        alignment = self.alignment(now.theta, now.feature)
        exponent = state.alpha * alignment
        is_finite = now.is_valid & inside
        seen = Seen(state.step + 1, now.gamma, exponent, is_finite, now.size, alignment)
        alpha, strength_state = self.strength.update(state.strength_state, seen)
        return Closed(
            theta=now.theta,
            feature=now.feature,
            alpha=jnp.where(self.closes(state), alpha, state.alpha),
            strength_state=strength_state,
            exponent=exponent,
            is_hot=getattr(strength_state, "is_hot", jnp.zeros((), bool)),
            gain=jnp.where(now.enters, now.gamma, 0),
            is_valid=now.is_valid,
        )

    def alignment(self, theta: Feature, feature: Feature) -> Float[Array, ""]:
        """`|(A theta)·phi|`, the exponent scale per unit of alpha."""
        return jnp.abs(jnp.sum(sums(*_products(self.precondition(theta), feature))))

    def rest(self, state: RepelState) -> Closed:
        """The loop after a step that began at `state` and leaves the history as it was."""
        return Closed(
            theta=state.theta,
            feature=state.feature,
            alpha=state.alpha,
            strength_state=state.strength_state,
            exponent=state.alpha * self.alignment(state.theta, state.feature),
            is_hot=jnp.zeros((), bool),
            gain=jnp.zeros_like(state.alpha),
            is_valid=jnp.ones((), bool),
        )


def relative_size(precondition: Callable[[Feature], Feature], feature: Feature) -> Float[Array, ""]:
    """`(A phi)·phi` over the number of entries, the largest over the leaves of phi."""
    products = _products(precondition(feature), feature)
    counts = jnp.asarray([product.size for product in products], products[0].dtype)
    return jnp.max(sums(*products) / counts)


def _products(a: Feature, b: Feature) -> list[Array]:
    return jax.tree.leaves(jax.tree.map(jnp.multiply, a, b))


def make_memory(
    precondition: Callable[[Feature], Feature],
    *,
    alpha: float | Array | Strength,
    gain: Callable[[Array], Array] | None,
    history_every: int | Array | None,
    history_average: bool,
    history_axis: str | tuple[str, ...] | None,
    history_start: str = "zero",
) -> Memory:
    """The memory that these keywords of `repel` ask for, or an error that names the keyword."""
    if gain is None:
        gain = history.gain()
    elif not isinstance(gain, history.Gain):
        _check_gain(gain)
    history_every = 1 if history_every is None else history_every
    if is_concrete(history_every):
        check_count("history_every", history_every)
    check_flag("history_average", history_average)
    check_axis(history_axis)
    check_option("history_start", history_start, ("zero", "score"))
    if history_start == "score" and history_axis is not None:
        raise ValueError("history_start='score' needs history_axis=None: chains start apart")
    return Memory(
        as_strength(alpha),
        gain,
        precondition,
        history_every,
        history_average,
        history_axis,
        history_start,
    )


def check_axis(axis: Any) -> None:
    """Refuse what is no name of an axis of `vmap`, nor several."""
    names = axis if isinstance(axis, tuple) else (axis,)
    if axis is not None and not (names and all(isinstance(name, str) for name in names)):
        raise TypeError(f"history_axis must be the name of an axis of a vmap, got {axis!r}")


def _check_gain(gain: Any) -> None:
    """Refuse a gain that does not return a number."""
    out = outputs_of("gain", gain, jnp.ones((), int), of="n")
    if getattr(out, "shape", None) != ():
        raise ValueError(f"gain must return one number, got {out}")


def is_plain(alpha: float | Array | Strength) -> bool:
    """Whether the strength is 0 for good, so that the base kernel runs alone."""
    return not isinstance(alpha, Strength) and is_concrete(alpha) and float(alpha) == 0.0
