"""Algorithm 1 of the paper: history, strength and surrogate around any base kernel."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from blackjax.base import SamplingAlgorithm

from srmc import _history
from srmc._checks import check_count, check_option, is_concrete
from srmc._kernel import Kernel
from srmc._strength import Strength, as_strength
from srmc._surrogate import Surrogate, move, tilt
from srmc._target import LogDensity, all_finite, as_position, check_start, like, rejecting
from srmc._when import when

PyTree = Any


class RepelState(NamedTuple):
    """State of a repelled chain.

    position
        The draw, X.
    theta
        The history: the running average of the score.
    alpha
        The strength of the next step.
    step
        The number of steps made.
    inner_state
        The base kernel's state; in the moving frame its position is the base chain's, Z.
    feature
        The score that was seen last.
    feedback
        The score of the draw minus the score of the base chain, when both were seen last; it
        stays 0 unless `feedback_every` is more than 1.
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
    strength_state: Any


class RepelInfo(NamedTuple):
    """What a repelled step did.

    inner_info
        The base kernel's own report.
    exponent
        The exponent scale `alpha |(A theta)·s(X)|`; repellence is mild while it is below 1.
    gradients
        Evaluations of the score that the step took; -1 if the kernel takes them in a loop and
        does not report `num_integration_steps`.
    hvps
        How many of these were Hessian-vector products, each of which costs another gradient.
    is_finite
        False if the step met a NaN or an infinity: a proposal without a finite density or with
        acceptance probability 0, or a score that was therefore kept out of the history.
    """

    inner_info: Any
    exponent: jax.Array
    gradients: jax.Array
    hvps: jax.Array
    is_finite: jax.Array


def repel(
    algorithm: Callable[..., SamplingAlgorithm],
    logdensity_fn: LogDensity,
    *args: Any,
    alpha: float | Strength = 1.0,
    gain: Callable[[jax.Array], jax.Array] | None = None,
    surrogate: Surrogate | None = None,
    frame: str | None = None,
    history_every: int = 1,
    history_average: bool = False,
    history_axis: str | None = None,
    feedback_every: int = 1,
    **kwargs: Any,
) -> SamplingAlgorithm:
    """Repel a kernel: run it on a target bent away from the scores seen so far (alg:srmc).

    Parameters
    ----------
    algorithm
        A BlackJAX algorithm, such as `blackjax.nuts`, or any function of a log density that
        returns a `blackjax.SamplingAlgorithm`. Its state is a NamedTuple with `position`; what
        it caches of the target is called `logdensity` and `logdensity_grad`.
    logdensity_fn
        The log density of the target, up to a constant.
    *args, **kwargs
        Given to `algorithm`.
    alpha
        The strength of repellence, or a schedule of it. With 0 the base kernel runs alone; theta
        then comes from the gradients that it caches, and stays 0 if it has none.
    gain
        The weight of the n-th score in the history; `srmc.gain()` if not given.
    surrogate
        `srmc.tilt()`, the paper's and the default, or `srmc.shift()`.
    frame
        "fixed": the chain stays where it is when the target moves, as in the paper. "moving",
        for `shift` alone: it moves along; the base chain is then the plain one, whatever alpha
        is. The default is "moving" where a shift meets HMC, NUTS or MCLMC, else "fixed".
    history_every
        Update the history, and so the surrogate, once in so many steps.
    history_average
        Average the score over both ends of a transition, which keeps antithetic kernels stable;
        if not, take its end, as the paper does.
    history_axis
        The name of a `vmap` axis whose chains share one history.
    feedback_every
        In the moving frame, score the draw once in so many steps. In between the history takes
        the score that the kernel has cached for the base chain, plus the last difference of the
        two, which varies little: nearly all of the effect for a fraction of the cost.

    Returns
    -------
    A `SamplingAlgorithm` with `init(position, rng_key=None, theta=None)` and
    `step(rng_key, state)`; see `RepelState` and `RepelInfo`.
    """
    kernel = Kernel(algorithm, args, kwargs)
    surrogate = tilt() if surrogate is None else surrogate
    if not isinstance(surrogate, Surrogate):
        raise TypeError(f"surrogate must be srmc.tilt() or srmc.shift(), got {surrogate!r}")
    if frame is None:
        frame = "moving" if surrogate.carries and kernel.travels else "fixed"
    check_option("frame", frame, ("fixed", "moving"))
    if frame == "moving" and not surrogate.carries:
        raise ValueError("frame='moving' needs surrogate=srmc.shift(); the tilt has no such frame")
    if gain is None:
        gain = _history.gain()
    elif not callable(gain):
        raise TypeError(f"gain must be srmc.gain(...) or a function of n, got {gain!r}")
    check_count("history_every", history_every)
    check_count("feedback_every", feedback_every)
    if feedback_every > 1 and (frame != "moving" or history_every > 1):
        raise ValueError(
            f"feedback_every={feedback_every} needs frame='moving' and history_every=1, "
            f"got {frame!r} and {history_every}"
        )
    strength = as_strength(alpha)
    plain = not isinstance(alpha, Strength) and is_concrete(alpha) and float(alpha) == 0.0
    moving = frame == "moving"

    target = rejecting(logdensity_fn)
    bent = surrogate.bend(target)
    bends = not (plain or moving)  # whether the kernel acts on the surrogate

    def when_due(due, function, operand):
        always = history_every == feedback_every == 1
        return function(operand) if always else when(due, function, operand)

    def init(position, rng_key=None, theta=None):
        position = as_position(position)
        check_start(logdensity_fn, position)
        zeros = optax.tree.zeros_like(position)
        feature = zeros
        if history_average:
            score = jax.grad(target)(position)
            feature = optax.tree.where(all_finite(score), score, zeros)
        first_alpha, strength_state = strength.init()
        return RepelState(
            position,
            zeros if theta is None else like("theta", theta, position),
            first_alpha,
            jnp.zeros((), int),
            kernel.init(target, position, rng_key, needs_gradient=feedback_every > 1),
            feature,
            zeros,
            strength_state,
        )

    def spent(rng_key, start, info, opens, looks):
        """Gradients and Hessian-vector products of the step: kernel, re-scoring, history."""
        calls = kernel.step_calls(rng_key, start, info)
        if calls is None:
            return jnp.asarray(-1), jnp.asarray(-1)
        values, gradients = calls
        hvps = 0 * gradients
        if bends:
            more_values, more_gradients = kernel.rescore_calls(start)
            values, gradients = values + opens * more_values, gradients + opens * more_gradients
            hvps = surrogate.gradient_hvps * gradients
            gradients = (
                surrogate.value_gradients * values + surrogate.gradient_gradients * gradients
            )
        return gradients if plain else gradients + looks, hvps

    def rescore(operand):
        inner_state, u, alpha = operand
        return kernel.rescore(lambda x: bent(x, u, alpha), inner_state), u, alpha

    def observe(operand):
        position, _, _ = operand
        value, score = jax.value_and_grad(target)(position)
        return position, score, jnp.isfinite(value)

    def step(rng_key, state):
        # The surrogate stands still from one update of the history to the next.
        opens = state.step % history_every == 0
        closes = (state.step + 1) % history_every == 0
        looks = closes & (state.step % feedback_every == 0)
        updates = (state.step + 1) // history_every
        alpha, theta, inner_state = state.alpha, state.theta, state.inner_state
        u = surrogate.precondition(theta)

        logdensity = (lambda x: bent(x, u, alpha)) if bends else target
        if bends:
            inner_state, _, _ = when_due(opens, rescore, (inner_state, u, alpha))
        start = inner_state
        inner_state, inner_info, is_finite = kernel.step(logdensity, rng_key, start)
        gradients, hvps = spent(rng_key, start, inner_info, opens, looks)
        position, feedback = inner_state.position, state.feedback

        if plain:
            feature = getattr(inner_state, "logdensity_grad", state.feature)
            inside = jnp.ones((), bool)
        else:
            base = position
            position = move(base, alpha, u) if moving else base
            seen = when_due(looks, observe, (position, state.feature, jnp.ones((), bool)))
            position, feature, inside = seen
            if moving:
                position = optax.tree.where(inside, position, base)
            if feedback_every > 1:
                cached = inner_state.logdensity_grad
                fresh = optax.tree.sub(feature, cached)
                feedback = optax.tree.where(looks & all_finite(fresh), fresh, feedback)
                feature = optax.tree.add(cached, feedback)

        valid = inside & all_finite(feature)
        entering = feature
        if history_average:
            entering = jax.tree.map(lambda old, new: (old + new) / 2, state.feature, feature)
        gamma = gain(jnp.maximum(updates, 1))
        theta = _history.update(theta, entering, gamma, closes & valid, history_axis)
        feature = optax.tree.where(valid, feature, state.feature)
        exponent = alpha * jnp.abs(optax.tree.vdot(surrogate.precondition(theta), feature))
        next_alpha, strength_state = strength.update(
            state.strength_state, state.step + 1, gamma, exponent
        )
        return (
            RepelState(
                position,
                theta,
                next_alpha,
                state.step + 1,
                inner_state,
                feature,
                feedback,
                strength_state,
            ),
            RepelInfo(inner_info, exponent, gradients, hvps, is_finite & valid),
        )

    return SamplingAlgorithm(init, step)
