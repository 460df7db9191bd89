"""Algorithm 1 on discrete spaces: history, strength and surrogate around any of our kernels."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from blackjax.base import SamplingAlgorithm

from srmc.core.loop import RepelInfo, RepelState, is_plain, make_loop
from srmc.core.strength import Strength
from srmc.core.surrogate import preconditioned
from srmc.core.target import LogDensity, all_finite, like
from srmc.discrete.kernels._sitewise import SiteAlgorithm
from srmc.discrete.sites import Changes, Sites
from srmc.discrete.space import Space


def repel_sites(
    algorithm: SiteAlgorithm,
    logdensity_fn: LogDensity,
    space: Space,
    *args: Any,
    alpha: float | Strength = 1.0,
    gain: Callable[[jax.Array], jax.Array] | None = None,
    feature: str | None = None,
    differences: Changes | None = None,
    preconditioner: Any = None,
    history_every: int = 1,
    history_average: bool = False,
    history_axis: str | None = None,
    **kwargs: Any,
) -> SamplingAlgorithm:
    """Repel a kernel on a discrete space: log pi_theta(x) = log pi(x) - alpha (A theta)·phi(x).

    `feature`, `differences` and `preconditioner` are described at `srmc.flip_mh`, the rest at
    `srmc.repel`. What is seen of a state does not depend on theta, so that bending it anew costs
    nothing, and with a feature that takes what the kernel has anyway a step costs what it costs
    without repellence.
    """
    sites = Sites(logdensity_fn, space, algorithm.guide, feature, differences)
    arguments, kernel = algorithm.bind(args, kwargs), algorithm.build_kernel()
    precondition = preconditioned(preconditioner)
    loop = make_loop(alpha, gain, precondition, history_every, history_average, history_axis)
    plain = is_plain(alpha)

    def init(position, rng_key=None, theta=None):
        x = space.as_state(position)
        sites.check_start(x)
        if not plain:
            sites.check_feature(x)
        zeros = jnp.zeros_like(x)
        view = sites.plain() if plain else sites.bent(zeros, jnp.zeros(()))
        inner_state = algorithm.init(x, view)
        seen = inner_state.local.feature
        seen = zeros if seen is None else jnp.where(all_finite(seen), seen, zeros)
        first_alpha, strength_state = loop.strength.init()
        return RepelState(
            x,
            zeros if theta is None else like("theta", theta, zeros),
            first_alpha,
            jnp.zeros((), int),
            inner_state,
            seen,
            (),
            jnp.ones((), bool),
            strength_state,
        )

    def step(rng_key, state):
        view = sites.plain()
        if not plain:
            view = sites.bent(precondition(state.theta), state.alpha)
        inner_state, info = kernel(rng_key, state.inner_state, view, **arguments)
        feature = state.feature if plain else inner_state.local.feature
        always = jnp.ones((), bool)
        closed = loop.close(state, feature, always, always, not plain)
        return (
            RepelState(
                inner_state.position,
                closed.theta,
                closed.alpha,
                state.step + 1,
                inner_state,
                closed.feature,
                (),
                always,
                closed.strength_state,
            ),
            RepelInfo(
                info,
                closed.exponent,
                info.evaluations,
                jnp.zeros_like(info.evaluations),
                info.is_finite & closed.is_valid,
                closed.is_hot,
                closed.gain,
            ),
        )

    return SamplingAlgorithm(init, step)
