"""The base kernel alone: strength 0."""

from srmc.repel.kernel import caches
from srmc.repel.parts import Parts, Step
from srmc.repel.state import RepelInfo, RepelState
from srmc.types import PRNGKey


def plain_step(parts: Parts) -> Step:
    """A step of the base kernel; theta averages the scores that it caches, if there are any."""

    def step(rng_key: PRNGKey, state: RepelState) -> tuple[RepelState, RepelInfo]:
        start = state.inner_state
        inner_state, inner_info, is_finite = parts.kernel.step(parts.target, rng_key, start)
        feature = parts.cached_feature(inner_state, state.feature)
        learns = caches(inner_state, "logdensity_grad")
        closed = parts.memory.close(state, feature, True, state.is_inside, learns)
        return (
            closed.state(state, inner_state.position, inner_state, state.feedback, state.is_inside),
            closed.info(
                inner_info, parts.spent(rng_key, start, inner_info), is_finite & closed.is_valid
            ),
        )

    return step
