"""Algorithm 1 on discrete spaces: history, strength and surrogate around any site kernel."""

from collections.abc import Callable
from typing import Any, Protocol

import jax.numpy as jnp
from blackjax.base import SamplingAlgorithm

from srmc._types import Array, ArrayLike, Bool, KernelInfo, KernelState, LogDensity, PRNGKey
from srmc.core.memory import is_plain, make_memory
from srmc.core.repel import DEFAULT_STRENGTH
from srmc.core.state import RepelInfo, RepelState
from srmc.core.strength import Strength
from srmc.core.surrogate import Preconditioner, make_precondition
from srmc.core.target import all_finite, like
from srmc.discrete.changes import Differences
from srmc.discrete.sites import Sites
from srmc.discrete.space import Space
from srmc.discrete.view import View


class SiteKernel(Protocol):
    """What `repel_sites` needs of a kernel; `SiteAlgorithm` provides it."""

    @property
    def guide(self) -> str | None: ...

    @property
    def init(self) -> Callable[[Array, View], KernelState]: ...

    @property
    def build_kernel(self) -> Callable[[], Callable[..., tuple[KernelState, KernelInfo]]]: ...

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]: ...


def repel_sites(
    algorithm: SiteKernel,
    logdensity_fn: LogDensity,
    space: Space,
    *args: Any,
    feature: str | None = None,
    differences: Differences | None = None,
    preconditioner: Preconditioner = None,
    alpha: float | Array | Strength = DEFAULT_STRENGTH,
    gain: Callable[[Array], Array] | None = None,
    history_every: int | Array = 1,
    history_average: bool = False,
    history_axis: str | tuple[str, ...] | None = None,
    **kwargs: Any,
) -> SamplingAlgorithm:
    """Repel a kernel on a discrete space: log pi_theta(x) = log pi(x) - alpha (A theta)·phi(x).

    `feature`, `differences` and `preconditioner` are described at `srmc.flip_mh`, the rest at
    `srmc.repel`. What is evaluated at a state does not depend on theta, so that bending it again
    is free. If the feature uses only what the kernel evaluates anyway, a repelled step costs as
    much as a plain one.
    """
    sites = Sites(logdensity_fn, space, algorithm.guide, feature, differences)
    arguments, kernel = algorithm.bind(args, kwargs), algorithm.build_kernel()
    precondition = make_precondition(preconditioner)
    memory = make_memory(
        precondition,
        alpha=alpha,
        gain=gain,
        history_every=history_every,
        history_average=history_average,
        history_axis=history_axis,
    )
    alone = is_plain(alpha)

    def always() -> Bool[Array, ""]:
        return jnp.ones((), bool)

    def init(
        position: ArrayLike, rng_key: PRNGKey | None = None, theta: ArrayLike | None = None
    ) -> RepelState:
        x = space.as_state(position)
        sites.check_start(x)
        if not alone:
            sites.check_feature(x)
        zeros = jnp.zeros_like(x)
        view = sites.plain() if alone else sites.bent(zeros, jnp.zeros(()))
        inner_state = algorithm.init(x, view)
        seen = inner_state.local.feature
        first_alpha, strength_state = memory.strength.init()
        return RepelState(
            position=x,
            theta=zeros if theta is None else like("theta", theta, zeros),
            alpha=first_alpha,
            step=jnp.zeros((), int),
            inner_state=inner_state,
            feature=zeros if seen is None else jnp.where(all_finite(seen), seen, zeros),
            feedback=(),
            is_inside=always(),
            strength_state=strength_state,
        )

    def step(rng_key: PRNGKey, state: RepelState) -> tuple[RepelState, RepelInfo]:
        view = sites.plain()
        if not alone:
            view = sites.bent(precondition(state.theta), state.alpha)
        inner_state, info = kernel(rng_key, state.inner_state, view, **arguments)
        feature = state.feature if alone else inner_state.local.feature
        closed = memory.close(state, feature, True, always(), not alone)
        spent = info.evaluations, jnp.zeros_like(info.evaluations)
        return (
            closed.state(state, inner_state.position, inner_state, (), always()),
            closed.info(info, spent, info.is_finite & closed.is_valid),
        )

    return SamplingAlgorithm(init, step)
