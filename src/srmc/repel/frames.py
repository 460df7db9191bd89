"""What differs between frames: how the kernel moves, and which feature the history sees.

- `plain`: the base kernel alone, strength 0.
- `fixed`: the kernel acts on the surrogate, and the chain stays where it is when that moves
  (the paper's alg:srmc).
- `split`: the same for a tilt, around a kernel that keeps the score s(x), which does not depend on
  theta, from step to step. No score is evaluated twice (alg:sr_ula, alg:sr_mala).
- `moving`: the kernel acts on the target itself, and each draw is moved by `alpha A theta`.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from blackjax import GenerateSamplingAPI
from jax.tree_util import register_dataclass

from srmc.repel.compute import when
from srmc.repel.kernel import Kernel, caches
from srmc.repel.loop import Found, Loop, Spent
from srmc.repel.state import RepelInfo, RepelState
from srmc.repel.surrogate import Scored, Surrogate, Tilt
from srmc.repel.target import Target, all_finite
from srmc.types import (
    Array,
    Bool,
    Feature,
    KernelInfo,
    KernelState,
    LogDensity,
    Position,
    PRNGKey,
    Scalar,
    Score,
)

UNKNOWN: Spent = (-1, -1)  # the cost of a step of a kernel that does not report it


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Frame:
    """The components of a repelled kernel; as a frame, the plain kernel.

    feedback_every
        In the moving frame, the number of steps per evaluation of the draw's own score.
    """

    target: Target
    kernel: Kernel
    surrogate: Surrogate
    loop: Loop
    feedback_every: int = dataclasses.field(default=1, metadata={"static": True})

    def start(
        self, position: Position, rng_key: PRNGKey | None, theta: Feature | None, is_plain: bool
    ) -> RepelState:
        """The state of a chain that starts at a position, with this history."""
        field, history = self.surrogate.field, self.loop.history
        zeros = field.init(position)
        inner_state = self.kernel.init(
            self.target, position, rng_key, needs_gradient=self.feedback_every > 1
        )
        feature = self.cached_feature(inner_state, zeros)
        if (history.average or history.start == "score") and not is_plain:
            feature = field.feature(position, jax.grad(self.target)(position))
        feature = optax.tree.where(all_finite(feature), feature, zeros)
        return self.loop.start(
            position, inner_state, zeros, feature=feature, feedback=zeros, theta=theta
        )

    def step(self, rng_key: PRNGKey, state: RepelState) -> tuple[RepelState, RepelInfo]:
        """One step of Algorithm 1, in this frame."""
        return self.loop.step(self.move, rng_key, state)

    def move(self, rng_key: PRNGKey, state: RepelState) -> Found:
        """A step of the kernel; theta averages the scores that it caches, if there are any."""
        start = state.inner_state
        inner_state, info, is_finite = self.kernel.step(self.target, rng_key, start)
        return Found(
            position=inner_state.position,
            inner_state=inner_state,
            inner_info=info,
            feature=self.cached_feature(inner_state, state.feature),
            spent=self.spent(rng_key, start, info),
            is_finite=is_finite,
            is_inside=state.is_inside,
            learns=caches(inner_state, "logdensity_grad"),
            feedback=state.feedback,
        )

    def rescore(self, state: RepelState) -> RepelState:
        """The state, with what its kernel cached evaluated again."""
        return state._replace(inner_state=self.kernel.rescore(self.target, state.inner_state))

    def cached_feature(self, inner_state: KernelState, otherwise: Feature) -> Feature:
        """The feature at the base chain's position, from the score that the kernel cached."""
        if caches(inner_state, "logdensity_grad"):
            return self.surrogate.field.feature(inner_state.position, inner_state.logdensity_grad)
        return otherwise

    def spent(self, rng_key: PRNGKey, start: KernelState, info: KernelInfo, more: Any = 0) -> Spent:
        """The cost of a step on the target itself, from `start`, and of `more` gradients."""
        calls = self.kernel.step_calls(rng_key, start, info)
        return UNKNOWN if calls is None else (calls[1] + more, 0 * calls[1])


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Fixed(Frame):
    """The kernel acts on pi_theta, which does not change between updates of the history.

    When it has moved, what the kernel cached about it is evaluated again.
    """

    def step(self, rng_key: PRNGKey, state: RepelState) -> tuple[RepelState, RepelInfo]:
        new, info = super().step(rng_key, state)
        return self._carried(state, new, info.is_hot), info

    def move(self, rng_key: PRNGKey, state: RepelState) -> Found:
        start = self._rescored(state)
        inner_state, info, is_finite = self.kernel.step(self._bent(state), rng_key, start)
        feature, is_inside = self._look(state, inner_state.position)
        return Found(
            position=inner_state.position,
            inner_state=inner_state,
            inner_info=info,
            feature=feature,
            spent=self._spent(rng_key, state, start, info),
            is_finite=is_finite,
            is_inside=is_inside,
            is_valid=is_inside,
            feedback=state.feedback,
        )

    def rescore(self, state: RepelState) -> RepelState:
        inner_state = self.kernel.rescore(self._bent(state), state.inner_state)
        return state._replace(inner_state=inner_state)

    def _bent(self, state: RepelState) -> LogDensity:
        """The log density of the surrogate."""
        return self._bent_by(self.surrogate.precondition(state.theta), state.alpha)

    def _bent_by(self, u: Feature, alpha: Array) -> LogDensity:
        bent = self.surrogate.bend(self.target)
        return lambda x: bent(x, u, alpha)

    def _rescored(self, state: RepelState) -> KernelState:
        """The kernel's state at the beginning of a step."""

        def again(
            operand: tuple[KernelState, Feature, Array],
        ) -> tuple[KernelState, Feature, Array]:
            inner_state, u, alpha = operand
            return self.kernel.rescore(self._bent_by(u, alpha), inner_state), u, alpha

        operand = state.inner_state, self.surrogate.precondition(state.theta), state.alpha
        if self.loop.history.at_each_step:
            return again(operand)[0]
        return when(self.loop.history.was_updated(state.step), again, operand)[0]

    def _look(self, state: RepelState, position: Position) -> tuple[Feature, Bool[Array, ""]]:
        """The feature at the draw, and whether the target has a density there, if it is due."""

        def evaluate(operand: tuple[Position, Feature, Array]) -> tuple[Position, Feature, Array]:
            x, _, _ = operand
            value, score = self.target.value_and_score(x)
            return x, self.surrogate.field.feature(x, score), jnp.isfinite(value)

        operand = position, state.feature, state.is_inside
        if self.loop.history.at_each_step:
            return evaluate(operand)[1:]
        _, feature, inside = when(self.loop.history.is_due(state.step), evaluate, operand)
        return feature, inside

    def _carried(self, before: RepelState, after: RepelState, is_hot: Array) -> RepelState:
        """The chain moved along with a shifted target when a watched strength falls.

        A target that jumps back would leave the chain where nothing is accepted.
        """
        surrogate = self.surrogate
        if not surrogate.carries:
            return after
        start, end = (
            optax.tree.scale(at.alpha, surrogate.precondition(at.theta)) for at in (before, after)
        )
        jump = optax.tree.sub(end, start)
        carried = self.kernel.carry(after.inner_state, lambda x: surrogate.field.flow(x, jump))
        inner_state = optax.tree.where(is_hot, carried, after.inner_state)
        return after._replace(inner_state=inner_state, position=inner_state.position)

    def _spent(
        self, rng_key: PRNGKey, state: RepelState, start: KernelState, info: KernelInfo
    ) -> Spent:
        """The cost of the kernel, of re-scoring, and of the history."""
        calls = self.kernel.step_calls(rng_key, start, info)
        if calls is None:
            return UNKNOWN
        history, (per_gradient, products) = self.loop.history, self.surrogate.gradient_cost
        opens = history.was_updated(state.step)
        more_values, more_gradients = self.kernel.rescore_calls(start)
        values, gradients = calls[0] + opens * more_values, calls[1] + opens * more_gradients
        total = self.surrogate.value_gradients * values + per_gradient * gradients
        return total + history.is_due(state.step), products * gradients


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Moving(Frame):
    """The kernel acts on pi, so that the base chain does not depend on alpha."""

    def move(self, rng_key: PRNGKey, state: RepelState) -> Found:
        start = state.inner_state
        inner_state, info, is_finite = self.kernel.step(self.target, rng_key, start)
        u = self.surrogate.precondition(state.theta)
        weights = jax.tree.map(lambda leaf: state.alpha.astype(leaf.dtype) * leaf, u)
        moved = self.surrogate.field.flow(inner_state.position, weights)
        feature, is_inside, feedback = self._look(state, inner_state, moved)
        return Found(
            position=optax.tree.where(is_inside, moved, inner_state.position),
            inner_state=inner_state,
            inner_info=info,
            feature=feature,
            spent=self.spent(rng_key, start, info, more=self._looks(state)),
            is_finite=is_finite,
            is_inside=is_inside,
            feedback=feedback,
        )

    def _looks(self, state: RepelState) -> Bool[Array, ""]:
        """Whether the score of the draw is evaluated at this step."""
        return self.loop.history.is_due(state.step) & (state.step % self.feedback_every == 0)

    def _look(
        self, state: RepelState, inner_state: KernelState, moved: Position
    ) -> tuple[Feature, Bool[Array, ""], Feature]:
        """The feature that the history takes, whether the move is made, and the feedback.

        A move is refused if it costs more than 10 + d in log density. The draw is then the base
        chain's, and so is the feature. Between two evaluations of the draw's score the feature is
        the base chain's plus the last difference of the two, the feedback.
        """
        value_at_base = inner_state.logdensity if caches(inner_state, "logdensity") else -jnp.inf
        floor = jnp.asarray(value_at_base - 10 - optax.tree.size(inner_state.position))
        at_base = self.cached_feature(inner_state, optax.tree.zeros_like(state.theta))

        def evaluate(_: tuple[Feature, Array]) -> tuple[Feature, Array]:
            value, score = self.target.value_and_score(moved)
            feature = self.surrogate.field.feature(moved, score)
            return feature, jnp.isfinite(value) & (value > floor)

        def compare(seen: tuple[Feature, Array]) -> tuple[Feature, Array]:
            feature, inside = evaluate(seen)
            inside &= all_finite(feature)  # it is used for many steps
            return optax.tree.where(inside, optax.tree.sub(feature, at_base), seen[0]), inside

        feedback, looks = state.feedback, self._looks(state)
        if self.feedback_every > 1:
            feedback, inside = when(looks, compare, (feedback, state.is_inside))
            feature = optax.tree.add(at_base, feedback)
        elif self.loop.history.at_each_step:
            feature, inside = evaluate((state.feature, state.is_inside))
        else:
            feature, inside = when(looks, evaluate, (state.feature, state.is_inside))
        return optax.tree.where(inside, feature, at_base), inside, feedback


class TwoPart(NamedTuple):
    """A target as a kernel sees it that keeps the score s(x).

    look
        The value and score of the target at a position.
    again
        The value and gradient of the surrogate, given the value and score of the target:
        `(x, value, score)`.
    fresh
        The value and score of the target and of the surrogate, in one evaluation.
    """

    look: Callable[[Position], Scored]
    again: Callable[[Position, Scalar, Score], Scored]
    fresh: Callable[[Position], tuple[Scored, Scored]]

    def bent(self, state: KernelState) -> KernelState:
        """A state that holds what is known of the target, as it is under the surrogate."""
        value, gradient = self.again(state.position, state.logdensity, state.logdensity_grad)
        return state._replace(logdensity=value, logdensity_grad=gradient)


@dataclasses.dataclass
class SplitAlgorithm(GenerateSamplingAPI):  # type: ignore[misc]  # BlackJAX has no types
    """A kernel in BlackJAX's form that can also be given its target in two parts.

    build_split_kernel
        Returns `(rng_key, state, target, *args) -> (state, info)`, which bends the target at its
        position once and, if it `bends_proposal`, evaluates it afresh at one other.
    adjusted
        Whether it uses values of the log density, as a Metropolis correction does.
    """

    name: str
    build_split_kernel: Callable[[], Callable[..., tuple[KernelState, KernelInfo]]]
    bends_proposal: bool
    adjusted: bool


@register_dataclass
@dataclasses.dataclass(frozen=True)
class SplitFrame(Frame):
    """The fixed frame of a tilt, for a kernel that keeps the score of the target."""

    def move(self, rng_key: PRNGKey, state: RepelState) -> Found:
        tilt, split = self.surrogate, self.kernel.algorithm
        assert isinstance(tilt, Tilt)
        assert isinstance(split, SplitAlgorithm)
        u, alpha = tilt.precondition(state.theta), state.alpha
        target = TwoPart(
            self.target.value_and_score,
            lambda x, value, s: tilt.again(self.target, x, value, s, u, alpha),
            lambda x: tilt.fresh(self.target, x, u, alpha),
        )
        inner_state, info, is_finite = self.kernel.split_step(
            split.build_split_kernel(), target, rng_key, state.inner_state
        )
        is_inside = jnp.isfinite(inner_state.logdensity)
        at_proposal = tilt.gradient_cost if split.bends_proposal else (1, 0)
        gradients, hvps = (a + b for a, b in zip(tilt.again_cost, at_proposal, strict=True))
        return Found(
            position=inner_state.position,
            inner_state=inner_state,
            inner_info=info,
            feature=self.cached_feature(inner_state, state.feature),
            spent=(gradients, hvps),
            is_finite=is_finite,
            is_inside=is_inside,
            is_valid=is_inside,
            feedback=state.feedback,
        )


def frame_of(name: str, parts: Frame, is_plain: bool) -> Frame:
    """The frame of this name with these components."""
    cls: type[Frame] = Moving if name == "moving" else Fixed
    if is_plain:
        cls = Frame
    elif (
        name == "fixed"
        and isinstance(parts.surrogate, Tilt)
        and isinstance(parts.kernel.algorithm, SplitAlgorithm)
        and parts.loop.history.at_each_step
    ):
        cls = SplitFrame
    components = (getattr(parts, field.name) for field in dataclasses.fields(parts))
    return cls(*components)
