"""Algorithm 1 on discrete spaces: history, strength and surrogate around any of our kernels."""

from collections.abc import Callable
from typing import Any, Protocol

import jax.numpy as jnp
from blackjax.base import SamplingAlgorithm

from srmc._types import Array, KernelInfo, KernelState, LogDensity, PRNGKey
from srmc.core.memory import is_plain, make_memory
from srmc.core.repel import DEFAULT_STRENGTH
from srmc.core.state import RepelInfo, RepelState
from srmc.core.strength import Strength
from srmc.core.surrogate import preconditioned
from srmc.core.target import all_finite, like
from srmc.discrete.sites import Changes, Sites, View
from srmc.discrete.space import Space


class SiteKernel(Protocol):
    """What `repel_sites` needs of a kernel; `SiteAlgorithm` is it."""

    guide: str | None
    init: Callable[[Array, View], KernelState]
    build_kernel: Callable[[], Callable[..., tuple[KernelState, KernelInfo]]]

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]: ...


def repel_sites(
    algorithm: SiteKernel,
    logdensity_fn: LogDensity,
    space: Space,
    *args: Any,
    feature: str | None = None,
    differences: Changes | None = None,
    preconditioner: Any = None,
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
    is free, and with a feature that uses what the kernel evaluates anyway a repelled step costs
    as much as a plain one.
    """
    sites = Sites(logdensity_fn, space, algorithm.guide, feature, differences)
    arguments, kernel = algorithm.bind(args, kwargs), algorithm.build_kernel()
    precondition = preconditioned(preconditioner)
    memory = make_memory(
        precondition,
        alpha=alpha,
        gain=gain,
        history_every=history_every,
        history_average=history_average,
        history_axis=history_axis,
    )
    alone = is_plain(alpha)
    always = lambda: jnp.ones((), bool)

    def init(position: Any, rng_key: PRNGKey | None = None, theta: Any = None) -> RepelState:
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
