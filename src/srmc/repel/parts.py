"""The components of a repelled kernel, and what the steps of both frames share."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from srmc.repel.kernel import Kernel, caches
from srmc.repel.memory import Memory
from srmc.repel.state import RepelInfo, RepelState
from srmc.repel.surrogate import Surrogate
from srmc.repel.target import all_finite
from srmc.types import (
    Array,
    ArrayLike,
    Feature,
    Int,
    KernelInfo,
    KernelState,
    LogDensity,
    Position,
    PRNGKey,
)

Step = Callable[[PRNGKey, RepelState], tuple[RepelState, RepelInfo]]
Spent = tuple[Int[Array, ""], Int[Array, ""]]  # gradients, and Hessian-vector products


def unknown() -> Spent:
    """The cost of a step of a kernel that does not tell it."""
    return jnp.asarray(-1), jnp.asarray(-1)


class Parts(NamedTuple):
    """What a step is made of.

    target
        The log density, -inf wherever it is not a number.
    feedback_every
        In the moving frame, the number of steps per evaluation of the draw's own score.
    """

    target: LogDensity
    kernel: Kernel
    surrogate: Surrogate
    memory: Memory
    feedback_every: int = 1

    def cached_feature(self, inner_state: KernelState, otherwise: Feature) -> Feature:
        """The feature at the base chain's position, from the score that the kernel cached."""
        if caches(inner_state, "logdensity_grad"):
            return self.surrogate.field.feature(inner_state.position, inner_state.logdensity_grad)
        return otherwise

    def spent(
        self, rng_key: PRNGKey, start: KernelState, info: KernelInfo, more: ArrayLike = 0
    ) -> Spent:
        """The cost of a step on the target itself, from `start`, and of `more` gradients."""
        calls = self.kernel.step_calls(rng_key, start, info)
        return unknown() if calls is None else (calls[1] + more, 0 * calls[1])

    def rescore(self, state: RepelState) -> RepelState:
        """The state, with what its kernel cached evaluated again on the target."""
        return state._replace(inner_state=self.kernel.rescore(self.target, state.inner_state))

    def start(
        self, position: Position, rng_key: PRNGKey | None, theta: Feature | None, is_plain: bool
    ) -> RepelState:
        """The state of a chain that starts at a position, with this history."""
        zeros = self.surrogate.field.init(position)
        jax.eval_shape(self.memory.precondition, zeros)  # refuses what does not suit theta
        inner_state = self.kernel.init(
            self.target, position, rng_key, needs_gradient=self.feedback_every > 1
        )
        feature = self.cached_feature(inner_state, zeros)
        if (self.memory.average or self.memory.start == "score") and not is_plain:
            feature = self.surrogate.field.feature(position, jax.grad(self.target)(position))
        feature = optax.tree.where(all_finite(feature), feature, zeros)
        alpha, strength_state = self.memory.strength.init()
        return RepelState(
            position=position,
            theta=self.memory.first(theta, feature, zeros),
            alpha=alpha,
            step=jnp.zeros((), int),
            inner_state=inner_state,
            feature=feature,
            feedback=zeros,
            is_inside=jnp.ones((), bool),
            strength_state=strength_state,
        )
