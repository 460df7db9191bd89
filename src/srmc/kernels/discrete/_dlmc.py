"""Discrete Langevin Monte Carlo (Sun, Dai, Dai, Zhou and Schuurmans, 2023).

Each site follows a continuous-time chain of its own for a time, with locally balanced rates of the
changes that a gradient predicts, and all sites are accepted or rejected together.
"""

import jax
import jax.numpy as jnp

from srmc._checks import check_number, check_option
from srmc.kernels.discrete._dlp import everywhere
from srmc.kernels.discrete._informed import BALANCING
from srmc.kernels.discrete._sitewise import SiteAlgorithm, SiteInfo, SiteState, Transition
from srmc.kernels.discrete.space import Space
from srmc.kernels.discrete.view import View
from srmc.types import Array, Float, PRNGKey


def build_kernel() -> Transition:
    """The transition of `dlmc`."""

    def kernel(
        rng_key: PRNGKey,
        state: SiteState,
        view: View,
        step_size: float | Array,
        balancing: str = "sqrt",
    ) -> tuple[SiteState, SiteInfo]:
        logits = lambda x, guide: _logits(view.space, x, guide, step_size, balancing)
        return everywhere(rng_key, state, view, logits)

    return kernel


def _logits(
    space: Space,
    x: Array,
    guide: Float[Array, "site value"],
    step_size: float | Array,
    balancing: str,
) -> Float[Array, "site value"]:
    """Log probabilities nu_k (1 - exp(-t g_k / nu_k)) of other values, and what is left to stay.

    Here g_k is the rate of a change to k, nu_k the probability of k given the other sites, and t
    the step size. For two values this is the transition of the chain whose limit is nu.
    """
    time = jnp.asarray(step_size, x.dtype)
    log_nu, log_rate = jax.nn.log_softmax(guide, axis=1), BALANCING[balancing](guide)
    log_scale = jnp.where(guide > -jnp.inf, log_rate - log_nu, -jnp.inf)
    move = log_nu + jnp.log(-jnp.expm1(-time * jnp.exp(log_scale)))
    is_held = jnp.arange(space.num_values)[None] == space.labels(x)[:, None]
    moved = jnp.sum(jnp.where(is_held, 0, jnp.exp(move)), axis=1, keepdims=True)
    # Rounded, what is left may be less than nu, below which it never falls.
    stay = jnp.maximum(jnp.log(jnp.maximum(1 - moved, 0)), log_nu)
    return jnp.where(is_held, stay, move)


def check(step_size: float | Array, balancing: str = "sqrt") -> None:
    check_number("step_size", step_size, above=0.0)
    check_option("balancing", balancing, BALANCING)


dlmc = SiteAlgorithm("dlmc", "gradient", build_kernel, check, sweeps=True)
