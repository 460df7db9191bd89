"""Algorithm 1 of the paper: history, strength and surrogate around any base kernel."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from blackjax.base import SamplingAlgorithm

from srmc._checks import check_count, check_option, is_concrete
from srmc.core.field import Field
from srmc.core.kernel import Kernel
from srmc.core.loop import RepelInfo, RepelState, is_plain, make_loop
from srmc.core.strength import Strength
from srmc.core.surrogate import Surrogate, along, tilt
from srmc.core.target import LogDensity, all_finite, as_position, check_start, like, rejecting
from srmc.core.when import when
from srmc.discrete.kernels import SiteAlgorithm
from srmc.discrete.repel import repel_sites

PyTree = Any


def repel(
    algorithm: Callable[..., SamplingAlgorithm],
    logdensity_fn: LogDensity,
    *args: Any,
    alpha: float | Strength = 1.0,
    gain: Callable[[jax.Array], jax.Array] | None = None,
    surrogate: Surrogate | Field | None = None,
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
        A BlackJAX algorithm, such as `blackjax.nuts`, or any function of a log density (the whole
        of it, not a likelihood) that returns a `blackjax.SamplingAlgorithm`. Its state is a
        NamedTuple with `position`; what it caches of the target is called `logdensity` and
        `logdensity_grad`. Or a kernel on discrete spaces, such as `srmc.kernels.gwg`, which
        takes `space`, `feature`, `differences` and `preconditioner`; see `srmc.gwg`.
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
        `srmc.tilt()`, the paper's and the default, or `srmc.shift()`; or a field to move along,
        such as `srmc.affine()`.
    frame
        "fixed": the chain stays where it is when the target moves, as in the paper. "moving",
        for `shift` and fields alone: it moves along; the base chain is then the plain one,
        whatever alpha is. A move that is found to cost more than 10 + d in log density is not
        made, and counts as not finite; moves are looked at when the history is. The default is
        "moving" for a field, "fixed" for a tilt and for kernels with short steps (random walks,
        Langevin, Barker), else "moving".
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
    if isinstance(algorithm, SiteAlgorithm):
        for name, is_given in (
            ("surrogate", surrogate is not None),
            ("frame", frame is not None),
            ("feedback_every", feedback_every != 1),
        ):
            if is_given:
                raise ValueError(f"{name} is for continuous kernels; {algorithm.name} is not one")
        return repel_sites(
            algorithm,
            logdensity_fn,
            *args,
            alpha=alpha,
            gain=gain,
            history_every=history_every,
            history_average=history_average,
            history_axis=history_axis,
            **kwargs,
        )
    kernel = Kernel(algorithm, args, kwargs)
    surrogate = tilt() if surrogate is None else surrogate
    surrogate = along(surrogate) if isinstance(surrogate, Field) else surrogate
    if not isinstance(surrogate, Surrogate):
        raise TypeError(
            f"surrogate must be srmc.tilt(), srmc.shift() or a field, got {surrogate!r}"
        )
    if frame is None:
        stays = kernel.is_local or not surrogate.carries
        frame = "fixed" if stays and surrogate.bend is not None else "moving"
    check_option("frame", frame, ("fixed", "moving"))
    if frame == "fixed" and surrogate.bend is None:
        raise ValueError("frame='fixed' needs srmc.tilt() or srmc.shift(); a field moves the state")
    if frame == "moving" and not surrogate.carries:
        raise ValueError("frame='moving' needs surrogate=srmc.shift(); the tilt has no such frame")
    moving = frame == "moving"
    loop = make_loop(
        alpha, gain, surrogate.precondition, history_every, history_average, history_axis
    )
    check_count("feedback_every", feedback_every)
    each_step = is_concrete(history_every) and history_every == 1
    if feedback_every > 1 and not (moving and each_step):
        raise ValueError(
            f"feedback_every={feedback_every} needs frame='moving' and history_every=1, "
            f"got {frame!r} and {history_every}"
        )
    plain = is_plain(alpha)

    target = rejecting(logdensity_fn)
    field = surrogate.field
    bent: Any = None if surrogate.bend is None else surrogate.bend(target)
    bends = not (plain or moving)  # whether the kernel acts on the surrogate

    def when_due(due, function, operand):
        always = each_step and feedback_every == 1
        return function(operand) if always else when(due, function, operand)

    def cached_feature(inner_state, otherwise):
        """The feature of the base chain, from the score that the kernel has cached."""
        if hasattr(inner_state, "logdensity_grad"):
            return field.feature(inner_state.position, inner_state.logdensity_grad)
        return otherwise

    def init(position, rng_key=None, theta=None):
        position = as_position(position)
        check_start(logdensity_fn, position, with_score=not plain)
        zeros = field.init(position)
        inner_state = kernel.init(target, position, rng_key, needs_gradient=feedback_every > 1)
        feature = cached_feature(inner_state, zeros)
        if history_average and not plain:
            feature = field.feature(position, jax.grad(target)(position))
        feature = optax.tree.where(all_finite(feature), feature, zeros)
        first_alpha, strength_state = loop.strength.init()
        return RepelState(
            position,
            zeros if theta is None else like("theta", theta, zeros),
            first_alpha,
            jnp.zeros((), int),
            inner_state,
            feature,
            zeros,
            jnp.ones((), bool),
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

    def look(operand):
        position, floor, _, _ = operand
        value, score = jax.value_and_grad(target)(position)
        feature = field.feature(position, score)
        inside = jnp.isfinite(value) & (value > floor)
        if feedback_every > 1:
            inside &= all_finite(feature)  # it will be lived on for many steps
        return position, floor, feature, inside

    def step(rng_key, state):
        # The surrogate stands still from one update of the history to the next.
        opens = state.step % history_every == 0
        closes = (state.step + 1) % history_every == 0
        looks = closes & (state.step % feedback_every == 0)
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
            feature = cached_feature(inner_state, state.feature)
            inside = state.is_inside
        else:
            base, floor = position, -jnp.inf
            if moving:
                weights = jax.tree.map(lambda leaf: alpha.astype(leaf.dtype) * leaf, u)
                position = field.flow(base, weights)
                floor = getattr(inner_state, "logdensity", floor) - 10 - optax.tree.size(base)
            unseen = (position, jnp.asarray(floor), state.feature, state.is_inside)
            position, _, feature, inside = when_due(looks, look, unseen)
            if moving:
                position = optax.tree.where(inside, position, base)
                # The draw that is kept in place of a refused one is what the history sees.
                kept = cached_feature(inner_state, optax.tree.zeros_like(theta))
            if feedback_every > 1:
                fresh = optax.tree.sub(feature, kept)
                feedback = optax.tree.where(looks & inside, fresh, feedback)
                feature = optax.tree.add(kept, feedback)
            if moving:
                feature = optax.tree.where(inside, feature, kept)

        learns = not plain or hasattr(inner_state, "logdensity_grad")
        closed = loop.close(state, feature, inside | moving, inside, learns)
        is_finite &= closed.is_valid & inside
        if bends and surrogate.carries:
            # A target that jumps back would leave the chain where nothing is accepted.
            shift = lambda alpha, theta: optax.tree.scale(alpha, surrogate.precondition(theta))
            jump = optax.tree.sub(shift(closed.alpha, closed.theta), shift(alpha, theta))
            carried = kernel.carry(inner_state, lambda x: field.flow(x, jump))
            inner_state = optax.tree.where(closed.is_hot, carried, inner_state)
            position = inner_state.position
        return (
            RepelState(
                position,
                closed.theta,
                closed.alpha,
                state.step + 1,
                inner_state,
                closed.feature,
                feedback,
                inside,
                closed.strength_state,
            ),
            RepelInfo(
                inner_info, closed.exponent, gradients, hvps, is_finite, closed.is_hot, closed.gain
            ),
        )

    return SamplingAlgorithm(init, step)
