"""A step on a tilted target that evaluates no score twice.

The score s(x) does not depend on theta. A kernel that is given the target in two parts, the score
and what theta adds to it, keeps the score of its position from step to step and hands it to the
history, so that nothing that it keeps goes stale when the target moves.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from blackjax import GenerateSamplingAPI

from srmc.repel.parts import Parts, Spent, Step
from srmc.repel.state import RepelInfo, RepelState
from srmc.repel.surrogate import Scored, Split
from srmc.types import Feature, KernelInfo, KernelState, Position, PRNGKey, Scalar, Score


class TwoPart(NamedTuple):
    """A surrogate as a kernel sees it that keeps the score of the target.

    look
        The value and score of the target at a position.
    again
        The value and gradient of the surrogate where those of the target are known:
        `(x, value, score)`.
    fresh
        Both at once: the value and score of the target, and those of the surrogate.
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


def can_split(parts: Parts) -> bool:
    """Whether kernel and surrogate come in two parts, and nothing is gained by other caches."""
    return (
        parts.kernel.split is not None
        and parts.surrogate.split is not None
        and parts.memory.updates_at_each_step
    )


def split_step(parts: Parts) -> Step:
    """A step of Algorithm 1 in the fixed frame (alg:sr_ula, alg:sr_mala)."""
    split, memory = parts.surrogate.split, parts.memory
    assert split is not None
    look = jax.value_and_grad(parts.target)
    again, fresh = split.again(parts.target), split.fresh(parts.target)

    def bent(u: Feature, alpha: Scalar) -> TwoPart:
        return TwoPart(
            look, lambda x, value, s: again(x, value, s, u, alpha), lambda x: fresh(x, u, alpha)
        )

    def step(rng_key: PRNGKey, state: RepelState) -> tuple[RepelState, RepelInfo]:
        target = bent(memory.precondition(state.theta), state.alpha)
        inner_state, info, is_finite = parts.kernel.split_step(target, rng_key, state.inner_state)
        feature = parts.cached_feature(inner_state, state.feature)
        is_inside = jnp.isfinite(inner_state.logdensity)
        closed = memory.close(state, feature, is_inside, is_inside)
        spent = _spent(split, parts.kernel.split.bends_proposal)
        return (
            closed.state(state, inner_state.position, inner_state, state.feedback, is_inside),
            closed.info(info, spent, is_finite & closed.is_valid & is_inside),
        )

    return step


def _spent(split: Split, bends_proposal: bool) -> Spent:
    """Gradients and Hessian-vector products: at the position, and at the proposal."""
    there = split.fresh_cost if bends_proposal else (1, 0)
    gradients, hvps = (sum(costs) for costs in zip(split.again_cost, there, strict=True))
    return jnp.asarray(gradients), jnp.asarray(hvps)
