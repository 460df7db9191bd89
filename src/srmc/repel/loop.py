"""Algorithm 1 of the paper, written once: `Loop.step`.

What differs between the frames, between kinds of kernels, and between continuous and discrete
spaces is in the `Move`: how the kernel runs, and which feature the history then sees.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import optax
from jax.tree_util import register_dataclass

from srmc.repel.compute import sums, when
from srmc.repel.history import History, make_history
from srmc.repel.state import RepelInfo, RepelState
from srmc.repel.strength import Seen, Strength, as_strength
from srmc.types import Array, ArrayLike, Bool, Feature, Float, KernelInfo, KernelState

Spent: TypeAlias = tuple[ArrayLike, ArrayLike]  # gradients, and Hessian-vector products


class Found(NamedTuple):
    """What a move found.

    position, inner_state, inner_info
        The draw X_{n+1}, and the state and the report of the base kernel.
    feature
        phi(X_{n+1}); or None, which leaves history and strength unchanged; or a function that
        evaluates it, which is called only at updates of the history, as is the strength.
    entering
        What enters the history in place of the feature.
    spent
        The gradients and Hessian-vector products of the step.
    is_finite
        Whether the step of the kernel was finite.
    is_inside
        Whether the target has a density at the draw, and the draw could be moved.
    is_valid, learns
        Whether the feature may enter the history, at this step and at all.
    """

    position: Any
    inner_state: KernelState
    inner_info: KernelInfo
    feature: Any
    spent: Spent
    is_finite: Bool[Array, ""]
    is_inside: Bool[Array, ""]
    is_valid: Bool[Array, ""] | bool = True
    learns: bool = True
    feedback: Feature = ()
    entering: Feature | None = None


Move: TypeAlias = Callable[..., Found]


class _Learned(NamedTuple):
    """The history after a step, and what the strength needs to know about the feature."""

    theta: Feature
    feature: Feature
    gamma: Float[Array, ""]
    enters: Bool[Array, ""]
    size: Float[Array, ""]
    is_valid: Bool[Array, ""]


class _Strength(NamedTuple):
    """The strength after a step."""

    alpha: Float[Array, ""]
    strength_state: Any
    exponent: Float[Array, ""]
    is_hot: Bool[Array, ""]
    gain: Float[Array, ""]


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Loop:
    """History and strength, with the map theta -> A theta."""

    history: History
    strength: Strength
    precondition: Callable[[Feature], Feature]

    def start(
        self,
        position: Any,
        inner_state: KernelState,
        zeros: Feature,
        *,
        feature: Feature | None = None,
        feedback: Feature = (),
        theta: Feature | None = None,
    ) -> RepelState:
        """The state of a chain before its first step."""
        jax.eval_shape(self.precondition, zeros)  # raises if it does not fit theta
        feature = zeros if feature is None else feature
        alpha, strength_state = self.strength.init()
        return RepelState(
            position=position,
            theta=self.history.first(theta, feature, zeros),
            alpha=alpha,
            step=jnp.zeros((), int),
            inner_state=inner_state,
            feature=feature,
            feedback=feedback,
            is_inside=jnp.ones((), bool),
            strength_state=strength_state,
        )

    def step(
        self, move: Move, rng_key: Any, state: RepelState, *data: Any
    ) -> tuple[RepelState, RepelInfo]:
        """One step of Algorithm 1 (alg:srmc)."""
        found = move(rng_key, state, *data)  # X_{n+1} and phi(X_{n+1})
        if found.feature is None:
            learned, pushed = self._unchanged(state)
        elif callable(found.feature):
            learned, pushed = self._at_updates(state, found)
        else:
            learned = self._update_history(state, found, found.feature)  # theta_{n+1}
            pushed = self._update_strength(state, learned, found.is_inside)  # alpha_{n+1}
        new = RepelState(
            position=found.position,
            theta=learned.theta,
            alpha=pushed.alpha,
            step=state.step + 1,
            inner_state=found.inner_state,
            feature=learned.feature,
            feedback=found.feedback,
            is_inside=found.is_inside,
            strength_state=pushed.strength_state,
        )
        gradients, hvps = found.spent
        info = RepelInfo(
            inner_info=found.inner_info,
            exponent=pushed.exponent,
            gradients=jnp.asarray(gradients),
            hvps=jnp.asarray(hvps),
            is_finite=found.is_finite & learned.is_valid & found.is_inside,
            is_hot=pushed.is_hot,
            is_stable=pushed.exponent <= 10 + optax.tree.size(learned.theta),
            gain=pushed.gain,
        )
        return new, info

    def _update_history(self, state: RepelState, found: Found, feature: Feature) -> _Learned:
        """The history: theta + gamma (phi - theta), if the feature is valid and finite."""
        entering = feature if found.entering is None else found.entering
        if self.history.average:
            entering = jax.tree.map(lambda old, new: (old + new) / 2, state.feature, feature)
        size = relative_size(self.precondition, feature)
        valid = jnp.isfinite(size) & found.is_valid
        enters = self.history.is_due(state.step) & valid & found.learns
        gamma = self.history.gamma(state.step + 1)
        theta = self.history.update(state.theta, entering, gamma, enters)
        feature = optax.tree.where(valid, feature, state.feature)
        return _Learned(theta, feature, gamma, enters, size, valid)

    def _update_strength(
        self, state: RepelState, learned: _Learned, is_inside: Bool[Array, ""]
    ) -> _Strength:
        """The strength, which may depend on the exponent scale |alpha (A theta)·phi|."""
        alignment = self._alignment(learned.theta, learned.feature)
        exponent = state.alpha * alignment
        is_finite = learned.is_valid & is_inside
        seen = Seen(state.step + 1, learned.gamma, exponent, is_finite, learned.size, alignment)
        alpha, strength_state = self.strength.update(state.strength_state, seen)
        return _Strength(
            alpha=jnp.where(self.history.is_due(state.step), alpha, state.alpha),
            strength_state=strength_state,
            exponent=exponent,
            is_hot=getattr(strength_state, "is_hot", jnp.zeros((), bool)),
            gain=jnp.where(learned.enters, learned.gamma, 0),
        )

    def _alignment(self, theta: Feature, feature: Feature) -> Float[Array, ""]:
        """`|(A theta)·phi|`, the exponent scale per unit of alpha."""
        return jnp.abs(jnp.sum(sums(*_products(self.precondition(theta), feature))))

    def _unchanged(self, state: RepelState) -> tuple[_Learned, _Strength]:
        """History and strength of a step without an update."""
        zero, yes = jnp.zeros_like(state.alpha), jnp.ones((), bool)
        exponent = state.alpha * self._alignment(state.theta, state.feature)
        return (
            _Learned(state.theta, state.feature, zero, ~yes, zero, yes),
            _Strength(state.alpha, state.strength_state, exponent, ~yes, zero),
        )

    def _at_updates(self, state: RepelState, found: Found) -> tuple[_Learned, _Strength]:
        """History and strength inside conditionals, as a loop whose steps are the updates.

        XLA updates theta in place only if nothing else in the conditional reads it; so there are
        two conditionals, and the exponent, which only the report needs, is computed outside.
        """
        due, every = self.history.is_due(state.step), self.history.every
        loop = dataclasses.replace(self, history=dataclasses.replace(self.history, every=1))
        updates = state._replace(step=state.step // every)
        learn = lambda _: loop._update_history(updates, found, found.feature())
        idle, rests = self._unchanged(state)
        like = jax.eval_shape(learn, None)
        idle = jax.tree.map(lambda leaf, other: leaf.astype(other.dtype), idle, like)
        learned: _Learned = when(due, learn, idle)
        zero = jnp.zeros_like(state.alpha)
        push = lambda _: loop._update_strength(updates, learned, found.is_inside)._replace(
            exponent=zero
        )
        pushed: _Strength = when(due, push, rests._replace(exponent=zero))
        exponent = state.alpha * self._alignment(learned.theta, learned.feature)
        return learned, pushed._replace(exponent=exponent)


def relative_size(precondition: Callable[[Feature], Feature], feature: Feature) -> Float[Array, ""]:
    """`(A phi)·phi` over the number of entries, the largest over the leaves of phi."""
    products = _products(precondition(feature), feature)
    counts = jnp.asarray([product.size for product in products], products[0].dtype)
    return jnp.max(sums(*products) / counts)


def _products(a: Feature, b: Feature) -> list[Array]:
    return jax.tree.leaves(jax.tree.map(jnp.multiply, a, b))


def make_loop(
    precondition: Callable[[Feature], Feature], *, alpha: float | Array | Strength, **history: Any
) -> Loop:
    """The loop that these keywords of `repel` describe."""
    return Loop(make_history(**history), as_strength(alpha), precondition)
