"""The state of a repelled chain, and what closes its loop: the history, and alpha after it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from srmc._checks import check_count, is_concrete
from srmc.core import history as _history
from srmc.core.strength import Seen, Strength, as_strength

PyTree = Any


class RepelState(NamedTuple):
    """State of a repelled chain.

    position
        The draw, X.
    theta
        The history: the running average of the score, or of a field's features.
    alpha
        The strength of the next step.
    step
        The number of steps made.
    inner_state
        The base kernel's state; in the moving frame its position is the base chain's, Z.
    feature
        The score, or features, that were seen last.
    feedback
        The feature of the draw minus that of the base chain, when both were seen last; it stays
        0 unless `feedback_every` is more than 1.
    is_inside
        In the moving frame, whether the move was found acceptable when it was looked at last.
    strength_state
        What the schedule of alpha carries.
    """

    position: PyTree
    theta: PyTree
    alpha: jax.Array
    step: jax.Array
    inner_state: Any
    feature: PyTree
    feedback: PyTree
    is_inside: jax.Array
    strength_state: Any


class RepelInfo(NamedTuple):
    """What a repelled step did.

    inner_info
        The base kernel's own report.
    exponent
        The exponent scale `alpha |(A theta)·s(X)|`, with features in place of the score along a
        field; repellence is mild while it is below 1.
    gradients
        Evaluations of the score that the step took; -1 if the kernel takes them in a loop and
        does not report `num_integration_steps`. On discrete spaces, evaluations of the log
        density, with a gradient or a set of supplied `differences` counted as one.
    hvps
        How many of these were Hessian-vector products, each of which costs another gradient.
    is_finite
        False if the step met a NaN or an infinity: a proposal without a finite density, or whose
        acceptance probability is 0 in floating point (most kernels do not tell the two apart), a
        move that was not made (see `frame`), or a score that was kept out of the history.
    is_hot
        True if a watched strength lowered alpha at this step.
    gain
        The weight with which the step entered the history; 0 if it did not.
    """

    inner_info: Any
    exponent: jax.Array
    gradients: jax.Array
    hvps: jax.Array
    is_finite: jax.Array
    is_hot: jax.Array
    gain: jax.Array


class Closed(NamedTuple):
    """The new history and strength, and what the step's report says of them."""

    theta: PyTree
    feature: PyTree
    alpha: jax.Array
    strength_state: Any
    exponent: jax.Array
    is_hot: jax.Array
    gain: jax.Array
    is_valid: jax.Array


class Loop(NamedTuple):
    """The keywords of `repel` that make the history and the strength."""

    strength: Strength
    gain: Callable[[jax.Array], jax.Array]
    precondition: Callable[[PyTree], PyTree]
    every: int
    average: bool
    axis: str | None

    def close(self, state, feature, valid, inside, learns) -> Closed:
        """After a step of `state`, at which `feature` was seen.

        It has a say if it is `valid` and finite, and enters the history if the step `learns`.
        """
        closes = (state.step + 1) % self.every == 0
        entering = feature
        if self.average:
            entering = jax.tree.map(lambda old, new: (old + new) / 2, state.feature, feature)
        size = relative_size(self.precondition, feature)
        valid &= jnp.isfinite(size)
        enters = closes & valid & learns
        gamma = self.gain(jnp.maximum((state.step + 1) // self.every, 1))
        theta = _history.update(state.theta, entering, gamma, enters, self.axis)
        feature = optax.tree.where(valid, feature, state.feature)
        exponent = state.alpha * jnp.abs(optax.tree.vdot(self.precondition(theta), feature))
        seen = Seen(state.step + 1, gamma, exponent, valid & inside, size)
        alpha, strength_state = self.strength.update(state.strength_state, seen)
        alpha = jnp.where(closes, alpha, state.alpha)
        is_hot = getattr(strength_state, "is_hot", jnp.zeros((), bool))
        gain = jnp.where(enters, gamma, 0)
        return Closed(theta, feature, alpha, strength_state, exponent, is_hot, gain, valid)


def relative_size(precondition: Callable[[PyTree], PyTree], feature: PyTree) -> jax.Array:
    """`(A phi)·phi` over the number of entries, the largest over the leaves of phi."""
    products = jax.tree.map(lambda a, b: jnp.mean(a * b), precondition(feature), feature)
    return jnp.max(jnp.stack(jax.tree.leaves(products)))


def make_loop(
    alpha: float | Strength,
    gain: Callable[[jax.Array], jax.Array] | None,
    precondition: Callable[[PyTree], PyTree],
    every: int,
    average: bool,
    axis: str | None,
) -> Loop:
    """The loop, or an error that names the keyword."""
    if gain is None:
        gain = _history.gain()
    elif not callable(gain):
        raise TypeError(f"gain must be srmc.gain(...) or a function of n, got {gain!r}")
    if is_concrete(every):
        check_count("history_every", every)
    if not isinstance(average, bool):
        raise TypeError(f"history_average must be True or False, got {average!r}")
    return Loop(as_strength(alpha), gain, precondition, every, average, axis)


def is_plain(alpha: Any) -> bool:
    """Whether the strength is 0 for good, so that the base kernel runs alone."""
    return not isinstance(alpha, Strength) and is_concrete(alpha) and float(alpha) == 0.0
