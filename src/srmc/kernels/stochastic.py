"""Stochastic gradients: SGLD and SGHMC, repelled by a history of minibatch scores.

Steps take a minibatch, as BlackJAX's do. The history reads the score before the move, at a
position that does not depend on the minibatch, so that what enters has the mean of the full score.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import optax
from blackjax.base import SamplingAlgorithm
from blackjax.sgmcmc import diffusions
from blackjax.util import generate_gaussian_noise

from srmc._checks import check_number
from srmc.kernels.langevin import UnadjustedInfo
from srmc.repel.compute import when
from srmc.repel.field import Field
from srmc.repel.history import gain as make_gain
from srmc.repel.loop import Found, Loop, Spent, make_loop
from srmc.repel.repel import as_surrogate, choose_frame, is_plain
from srmc.repel.state import RepelInfo, RepelState
from srmc.repel.strength import Strength, watched
from srmc.repel.surrogate import Surrogate, Tilt
from srmc.repel.target import all_finite, as_position, from_score
from srmc.types import Array, ArrayLike, Feature, Position, PRNGKey, PyTree, Score

# Minibatch noise dominates the exponent scale, so that only the rate of the loop is limited.
DEFAULT_STRENGTH = watched(3.0, limit=1e6)
# rho = 1 averages the noise of all minibatches so far.
DEFAULT_GAIN = make_gain(rho=1.0)

Minibatch: TypeAlias = PyTree
MinibatchScore: TypeAlias = Callable[[Any, Minibatch], Any]
StepSize: TypeAlias = ArrayLike | Callable[[Array], ArrayLike]


class StochasticState(NamedTuple):
    """Position and momentum, which is () for SGLD."""

    position: Position
    momentum: PyTree


class Integrator(NamedTuple):
    """Draws a momentum, and makes a step `(rng_key, state, score, step_size)`."""

    init: Callable[[PRNGKey | None, Position], PyTree]
    step: Callable[[PRNGKey, StochasticState, Score, Array], StochasticState]


class Parts(NamedTuple):
    """What the steps of both samplers are made of."""

    score_fn: MinibatchScore
    integrator: Integrator
    step_size: Callable[[Array], ArrayLike]
    surrogate: Surrogate
    loop: Loop
    frame: str
    is_plain: bool


def sgld(score_fn: MinibatchScore, step_size: StepSize, **options: Any) -> SamplingAlgorithm:
    """Repelled stochastic gradient Langevin dynamics: x + eta s(x) + sqrt(2 eta) xi.

    Parameters
    ----------
    score_fn
        `(position, minibatch) -> score`, an unbiased estimate of the gradient of the full log
        density, such as `blackjax.sgmcmc.gradients.grad_estimator` returns.
    step_size
        eta, or a schedule: a function of the number of the step, from 1 on.
    **options
        `alpha`, `gain`, `surrogate`, `frame`, `history_every` and `history_axis`, as in
        `srmc.repel`. The default gain is `srmc.gain(rho=1.0)`, since the history also has to
        average the noise of the minibatches; the default alpha is 3, lowered where the loop would
        be unstable. Give the surrogate a preconditioner close to the posterior covariance, as in
        `srmc.shift(covariance)`: without one alpha has the units of a variance.

    Returns
    -------
    A `SamplingAlgorithm` with `init(position, rng_key=None, theta=None)` and
    `step(rng_key, state, minibatch)`; see `RepelState` and `RepelInfo`. With `alpha=0` the step
    equals `blackjax.sgld`.
    """
    integrate = diffusions.overdamped_langevin()

    def step(
        rng_key: PRNGKey, state: StochasticState, score: Score, step_size: Array
    ) -> StochasticState:
        return StochasticState(integrate(rng_key, state.position, score, step_size), ())

    return _build(score_fn, step_size, Integrator(lambda _, x: (), step), **options)


def sghmc(
    score_fn: MinibatchScore, step_size: StepSize, friction: ArrayLike = 1.0, **options: Any
) -> SamplingAlgorithm:
    """Repelled stochastic gradient HMC: x + eta p, then p + eta (s(x) - friction p) + noise.

    The noise has variance 2 friction eta. The momentum, of unit mass, is kept from step to step;
    `init` draws it if it is given a key. The other arguments are documented in `srmc.sgld`.
    """
    check_number("friction", friction, above=0.0)
    integrate = diffusions.sghmc(alpha=friction)

    def init(rng_key: PRNGKey | None, position: Position) -> PyTree:
        if rng_key is None:
            return optax.tree.zeros_like(position)
        return generate_gaussian_noise(rng_key, position)

    def step(
        rng_key: PRNGKey, state: StochasticState, score: Score, step_size: Array
    ) -> StochasticState:
        return StochasticState(*integrate(rng_key, *state, score, step_size))

    return _build(score_fn, step_size, Integrator(init, step), **options)


def _build(
    score_fn: MinibatchScore,
    step_size: StepSize,
    integrator: Integrator,
    *,
    alpha: float | Array | Strength = DEFAULT_STRENGTH,
    gain: Callable[[Array], Array] = DEFAULT_GAIN,
    surrogate: Surrogate | Field | None = None,
    frame: str | None = None,
    history_every: int | Array | None = None,
    history_axis: str | tuple[str, ...] | None = None,
) -> SamplingAlgorithm:
    if not callable(score_fn):
        raise TypeError(f"score_fn must be a function of a position and a batch, got {score_fn!r}")
    if not callable(step_size):
        check_number("step_size", step_size, above=0.0)
    schedule = step_size if callable(step_size) else lambda n: step_size
    chosen = as_surrogate(surrogate)
    loop = make_loop(
        chosen.precondition,
        alpha=alpha,
        gain=gain,
        history_every=history_every,
        history_axis=history_axis,
    )
    frame = choose_frame(frame, chosen)
    parts = Parts(score_fn, integrator, schedule, chosen, loop, frame, is_plain(alpha))

    def init(
        position: Position, rng_key: PRNGKey | None = None, theta: Feature | None = None
    ) -> RepelState:
        position = as_position(position)
        zeros = chosen.field.init(position)
        inner_state = StochasticState(position, integrator.init(rng_key, position))
        return loop.start(position, inner_state, zeros, feedback=zeros, theta=theta)

    return SamplingAlgorithm(init, functools.partial(_step, parts))


def _step(
    parts: Parts, rng_key: PRNGKey, state: RepelState, minibatch: Minibatch
) -> tuple[RepelState, RepelInfo]:
    """Look at the minibatch, update history and strength, and move with the score seen."""
    score, feature, spent = _seen(parts, state, minibatch)
    eta = jnp.asarray(parts.step_size(state.step + 1))
    moved = parts.integrator.step(rng_key, state.inner_state, score, eta)
    is_finite = all_finite(moved)
    inner_state = optax.tree.where(is_finite, moved, state.inner_state)
    found = Found(
        position=inner_state.position,
        inner_state=inner_state,
        inner_info=UnadjustedInfo(jnp.where(is_finite, 1.0, 0.0)),
        feature=feature,
        spent=spent,
        is_finite=is_finite,
        is_inside=state.is_inside,
        feedback=state.feedback,
    )
    new, info = parts.loop.step(lambda *_: found, rng_key, state)
    if parts.frame == "moving" and not parts.is_plain:
        u = parts.loop.precondition(new.theta)
        weights = jax.tree.map(lambda leaf: new.alpha.astype(leaf.dtype) * leaf, u)
        new = new._replace(position=parts.surrogate.field.flow(new.position, weights))
    return new, info


def _seen(parts: Parts, state: RepelState, minibatch: Minibatch) -> tuple[Score, Feature, Spent]:
    """The score that drives the step, the feature that the history takes, and their cost."""
    density = from_score(lambda x: parts.score_fn(x, minibatch))
    score_at, feature_at = jax.grad(density), parts.surrogate.field.feature
    at = state.inner_state.position
    if parts.is_plain:
        score = score_at(at)
        return score, feature_at(at, score), (1, 0)
    u = parts.loop.precondition(state.theta)
    if isinstance(parts.surrogate, Tilt):  # the score is part of what drives the step
        (_, score), (_, bent) = parts.surrogate.fresh(density, at, u, state.alpha)
        return bent, feature_at(at, score), parts.surrogate.gradient_cost
    if parts.frame == "moving":
        drive = score_at(at)
    else:
        drive = jax.grad(parts.surrogate.bend(density))(at, u, state.alpha)

    def look(_: Feature) -> Feature:
        return feature_at(state.position, score_at(state.position))

    if parts.loop.history.at_each_step:
        return drive, look(state.feature), (2, 0)
    due = parts.loop.history.is_due(state.step)
    return drive, when(due, look, state.feature), (1 + due, 0)
