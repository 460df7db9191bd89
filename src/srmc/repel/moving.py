"""The moving frame: the kernel acts on the target itself, and the draw travels with the history."""

import jax
import jax.numpy as jnp
import optax

from srmc.repel.kernel import caches
from srmc.repel.parts import Parts, Step
from srmc.repel.state import RepelInfo, RepelState
from srmc.repel.target import all_finite
from srmc.repel.when import when
from srmc.types import Array, Bool, Feature, KernelState, Position, PRNGKey


def moving_step(parts: Parts) -> Step:
    """A step of the plain chain Z, and of the draw X, which is Z moved by `alpha A theta`.

    The base chain is that of the plain kernel whatever alpha is; history sees the draws.
    """
    kernel, memory, field = parts.kernel, parts.memory, parts.surrogate.field

    def step(rng_key: PRNGKey, state: RepelState) -> tuple[RepelState, RepelInfo]:
        start = state.inner_state
        inner_state, inner_info, is_finite = kernel.step(parts.target, rng_key, start)
        u = memory.precondition(state.theta)
        weights = jax.tree.map(lambda leaf: state.alpha.astype(leaf.dtype) * leaf, u)
        moved = field.flow(inner_state.position, weights)
        feature, is_inside, feedback = _seen(parts, state, inner_state, moved)
        position = optax.tree.where(is_inside, moved, inner_state.position)
        closed = memory.close(state, feature, True, is_inside)
        spent = parts.spent(rng_key, start, inner_info, more=_looks(parts, state))
        return (
            closed.state(state, position, inner_state, feedback, is_inside),
            closed.info(inner_info, spent, is_finite & closed.is_valid & is_inside),
        )

    return step


def _looks(parts: Parts, state: RepelState) -> Bool[Array, ""]:
    """Whether the score of the draw is evaluated at this step."""
    return parts.memory.closes(state) & (state.step % parts.feedback_every == 0)


def _seen(
    parts: Parts, state: RepelState, inner_state: KernelState, moved: Position
) -> tuple[Feature, Bool[Array, ""], Feature]:
    """The feature that the history takes, whether the move stands, and the feedback.

    A move is refused if it costs more than 10 + d in log density. The draw is then the base
    chain's, and so is the feature. Between two evaluations of the draw's score the feature is the
    base chain's plus the last difference of the two, the feedback.
    """
    seldom = parts.feedback_every > 1
    value_at_base = inner_state.logdensity if caches(inner_state, "logdensity") else -jnp.inf
    floor = jnp.asarray(value_at_base - 10 - optax.tree.size(inner_state.position))
    at_base = parts.cached_feature(inner_state, optax.tree.zeros_like(state.theta))

    def evaluate(_: tuple[Feature, Array]) -> tuple[Feature, Array]:
        value, score = jax.value_and_grad(parts.target)(moved)
        feature = parts.surrogate.field.feature(moved, score)
        return feature, jnp.isfinite(value) & (value > floor)

    def compare(seen: tuple[Feature, Array]) -> tuple[Feature, Array]:
        feature, inside = evaluate(seen)
        inside &= all_finite(feature)  # it serves for many steps
        return optax.tree.where(inside, optax.tree.sub(feature, at_base), seen[0]), inside

    feedback, looks = state.feedback, _looks(parts, state)
    if seldom:
        feedback, inside = when(looks, compare, (feedback, state.is_inside))
        feature = optax.tree.add(at_base, feedback)
    elif parts.memory.updates_at_each_step:
        feature, inside = evaluate((state.feature, state.is_inside))
    else:
        feature, inside = when(looks, evaluate, (state.feature, state.is_inside))
    return optax.tree.where(inside, feature, at_base), inside, feedback
