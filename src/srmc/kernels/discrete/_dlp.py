"""The discrete Langevin proposal, all sites at once: q ~ exp(-|y - x - eta s|^2 / (4 eta))."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from srmc._checks import check_flag, check_number
from srmc.kernels.discrete._sitewise import SiteAlgorithm, SiteInfo, SiteState, Transition, decide
from srmc.kernels.discrete.space import Space
from srmc.kernels.discrete.view import View
from srmc.types import Array, Float, Int, PRNGKey, Scalar


def everywhere(
    rng_key: PRNGKey,
    state: SiteState,
    view: View,
    logits: Callable[[Array, Float[Array, "site value"]], Float[Array, "site value"]],
    adjusted: bool = True,
) -> tuple[SiteState, SiteInfo]:
    """A step that draws all sites independently, by logits from a state and its guide."""
    draw_key, accept_key = jax.random.split(rng_key)
    space, x = view.space, state.position
    here = view.bend(x, state.local)
    at_x = logits(x, here.guide)
    values = _draw(draw_key, at_x)
    y = space.state(values, x)
    proposed = SiteState(y, view.look(y))
    forth = _log_probability(at_x, values)
    ratio = jnp.zeros_like(forth)
    if adjusted:
        there = view.bend(y, proposed.local)
        back = _log_probability(logits(y, there.guide), space.labels(x))
        ratio = there.logdensity - here.logdensity + back - forth
    look, bend = view.evaluations(x)
    return decide(accept_key, state, proposed, ratio, forth, look + (1 + adjusted) * bend)


def build_kernel() -> Transition:
    """The transition of `dlp`; `adjusted=False` skips the Metropolis correction."""

    def kernel(
        rng_key: PRNGKey,
        state: SiteState,
        view: View,
        step_size: float | Array,
        adjusted: bool = True,
    ) -> tuple[SiteState, SiteInfo]:
        logits = lambda x, guide: _logits(view.space, x, guide, step_size)
        return everywhere(rng_key, state, view, logits, adjusted)

    return kernel


def _logits(
    space: Space, x: Array, guide: Float[Array, "site value"], step_size: float | Array
) -> Float[Array, "site value"]:
    """`s_i (k - x_i) / 2 - (k - x_i)^2 / (4 eta)`, (site, value)."""
    step_size = jnp.asarray(step_size, x.dtype)
    return guide / 2 - space.distances(x) / (4 * step_size)


def _draw(rng_key: PRNGKey, logits: Float[Array, "site value"]) -> Int[Array, " site"]:
    """A value for each site, from one uniform number per site."""
    if logits.shape[1] == 2:
        uniform = jax.random.uniform(rng_key, (len(logits),), logits.dtype)
        return (uniform < jax.nn.sigmoid(logits[:, 1] - logits[:, 0])).astype(int)
    below = jnp.cumsum(jax.nn.softmax(logits, axis=1), axis=1)[:, :-1]
    uniform = jax.random.uniform(rng_key, (len(logits), 1), logits.dtype)
    return jnp.sum(uniform > below, axis=1)


def _log_probability(logits: Float[Array, "site value"], values: Int[Array, " site"]) -> Scalar:
    """The log probability of drawing these values."""
    if logits.shape[1] == 2:
        difference = logits[:, 1] - logits[:, 0]
        return -jnp.sum(jax.nn.softplus(jnp.where(values == 1, -difference, difference)))
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits, axis=1), values[:, None], axis=1)
    return jnp.sum(chosen)


def check(step_size: float | Array, adjusted: bool = True) -> None:
    check_number("step_size", step_size, above=0.0)
    check_flag("adjusted", adjusted)


dlp = SiteAlgorithm("dlp", "gradient", build_kernel, check, sweeps=True)
