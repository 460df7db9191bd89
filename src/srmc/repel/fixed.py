"""The fixed frame: the kernel acts on the surrogate, and the chain stays put when that moves."""

import jax
import jax.numpy as jnp
import optax

from srmc.repel.memory import Closed
from srmc.repel.parts import Parts, Spent, Step, unknown
from srmc.repel.state import RepelInfo, RepelState
from srmc.repel.when import when
from srmc.types import Array, Bool, Feature, KernelInfo, KernelState, LogDensity, Position, PRNGKey


def fixed_step(parts: Parts) -> Step:
    """A step of Algorithm 1 as the paper has it (alg:srmc).

    The surrogate pi_theta stands still from one update of the history to the next. When it has
    moved, what the kernel cached about it is evaluated again.
    """
    kernel, memory = parts.kernel, parts.memory

    def step(rng_key: PRNGKey, state: RepelState) -> tuple[RepelState, RepelInfo]:
        bent = _bent(parts, memory.precondition(state.theta), state.alpha)
        start = _rescored(parts, state)
        inner_state, inner_info, is_finite = kernel.step(bent, rng_key, start)
        feature, is_inside = _seen(parts, state, inner_state.position)
        closed = memory.close(state, feature, is_inside, is_inside)
        spent = _spent(parts, rng_key, state, start, inner_info)
        inner_state = _carried(parts, state, closed, inner_state)
        return (
            closed.state(state, inner_state.position, inner_state, state.feedback, is_inside),
            closed.info(inner_info, spent, is_finite & closed.is_valid & is_inside),
        )

    return step


def rescore(parts: Parts, state: RepelState) -> RepelState:
    """The state, with what its kernel cached evaluated on the surrogate as it is now."""
    bent = _bent(parts, parts.memory.precondition(state.theta), state.alpha)
    return state._replace(inner_state=parts.kernel.rescore(bent, state.inner_state))


def _bent(parts: Parts, u: Feature, alpha: Array) -> LogDensity:
    """The log density of the surrogate."""
    assert parts.surrogate.bend is not None
    surrogate = parts.surrogate.bend(parts.target)
    return lambda x: surrogate(x, u, alpha)


def _rescored(parts: Parts, state: RepelState) -> KernelState:
    """The kernel's state at the beginning of a step."""
    u = parts.memory.precondition(state.theta)

    def again(
        operand: tuple[KernelState, Feature, Array],
    ) -> tuple[KernelState, Feature, Array]:
        inner_state, u, alpha = operand
        return parts.kernel.rescore(_bent(parts, u, alpha), inner_state), u, alpha

    operand = state.inner_state, u, state.alpha
    if parts.memory.updates_at_each_step:
        return again(operand)[0]
    return when(parts.memory.opens(state), again, operand)[0]


def _seen(parts: Parts, state: RepelState, position: Position) -> tuple[Feature, Bool[Array, ""]]:
    """The feature at the draw, and whether the target has a density there; where it is due."""

    def evaluate(
        operand: tuple[Position, Feature, Array],
    ) -> tuple[Position, Feature, Array]:
        x, _, _ = operand
        value, score = jax.value_and_grad(parts.target)(x)
        return x, parts.surrogate.field.feature(x, score), jnp.isfinite(value)

    operand = position, state.feature, state.is_inside
    if parts.memory.updates_at_each_step:
        return evaluate(operand)[1:]
    _, feature, inside = when(parts.memory.closes(state), evaluate, operand)
    return feature, inside


def _carried(
    parts: Parts, state: RepelState, closed: Closed, inner_state: KernelState
) -> KernelState:
    """The kernel's state, moved along with a shifted target when a watched strength falls.

    A target that jumps back would leave the chain where nothing is accepted.
    """
    surrogate = parts.surrogate
    if not surrogate.carries:
        return inner_state
    before, after = (
        optax.tree.scale(at.alpha, surrogate.precondition(at.theta)) for at in (state, closed)
    )
    jump = optax.tree.sub(after, before)
    carried = parts.kernel.carry(inner_state, lambda x: surrogate.field.flow(x, jump))
    return optax.tree.where(closed.is_hot, carried, inner_state)


def _spent(
    parts: Parts, rng_key: PRNGKey, state: RepelState, start: KernelState, info: KernelInfo
) -> Spent:
    """Gradients and Hessian-vector products: of the kernel, of re-scoring, and of the history."""
    calls = parts.kernel.step_calls(rng_key, start, info)
    if calls is None:
        return unknown()
    opens, surrogate = parts.memory.opens(state), parts.surrogate
    more_values, more_gradients = parts.kernel.rescore_calls(start)
    values, gradients = calls[0] + opens * more_values, calls[1] + opens * more_gradients
    hvps = surrogate.gradient_hvps * gradients
    total = surrogate.value_gradients * values + surrogate.gradient_gradients * gradients
    return total + parts.memory.closes(state), hvps
