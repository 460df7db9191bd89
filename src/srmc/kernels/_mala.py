"""The Metropolis-adjusted Langevin algorithm: BlackJAX's, and on a target in two parts."""

from collections.abc import Callable
from typing import TypeAlias

import jax
import jax.numpy as jnp
import optax
from blackjax.mcmc.diffusions import overdamped_langevin
from blackjax.mcmc.mala import MALAInfo, MALAState, as_top_level_api, build_kernel, init
from blackjax.mcmc.proposal import compute_asymmetric_acceptance_ratio, static_binomial_sampling

from srmc.repel.split import TwoPart
from srmc.types import PRNGKey, Scalar

__all__ = ["as_top_level_api", "build_kernel", "build_split_kernel", "init"]

Kernel: TypeAlias = Callable[
    [PRNGKey, MALAState, TwoPart, float | Scalar], tuple[MALAState, MALAInfo]
]


def build_split_kernel() -> Kernel:
    """BlackJAX's transition, with states that hold value and score of the target itself."""

    def kernel(
        rng_key: PRNGKey, state: MALAState, target: TwoPart, step_size: float | Scalar
    ) -> tuple[MALAState, MALAInfo]:
        move_key, accept_key = jax.random.split(rng_key)
        here = target.bent(state)
        # The Langevin move evaluates what it is given at its end: both parts of the target.
        y, seen, bent = overdamped_langevin(target.fresh)(move_key, here, step_size)
        proposed, there = MALAState(y, *seen), MALAState(y, *bent)
        log_ratio = compute_asymmetric_acceptance_ratio(_energy)(here, there, step_size=step_size)
        accepted, info = static_binomial_sampling(accept_key, log_ratio, state, proposed)
        is_accepted, acceptance_rate, _ = info
        return accepted, MALAInfo(acceptance_rate, is_accepted)

    return kernel


def _energy(start: MALAState, end: MALAState, step_size: float | Scalar) -> Scalar:
    """`-log pi_theta(y) - log q(y, x)`, for a move from x to y."""
    missed = jax.tree.map(
        lambda x, y, g: x - y - step_size * g, start.position, end.position, end.logdensity_grad
    )
    squares = optax.tree.vdot(missed, missed)
    return jnp.asarray(-end.logdensity + 0.25 * (1.0 / step_size) * squares)
