"""Locally informed proposals: sites and values drawn by weights of the changes they make.

`locally_balanced` weighs exact ratios t by a balancing function, g(t) = t g(1/t). `gwg` (Gibbs with
gradients) predicts the ratios from one gradient, and takes their square root for temperature 2.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp

from srmc._checks import check_count, check_number, check_option
from srmc.kernels.discrete._sitewise import SiteAlgorithm, SiteInfo, SiteState, Transition, decide
from srmc.kernels.discrete.space import Space
from srmc.kernels.discrete.view import View
from srmc.types import Array, Float, Int, PRNGKey, Scalar

BALANCING: dict[str, Callable[[Array], Array]] = {
    "sqrt": lambda log_t: log_t / 2,
    "barker": jax.nn.log_sigmoid,
    "max": lambda log_t: jnp.maximum(log_t, 0),
}


def informed(
    rng_key: PRNGKey,
    state: SiteState,
    view: View,
    log_weight: Callable[[Array], Array],
    num_sites: int,
) -> tuple[SiteState, SiteInfo]:
    """A step that draws sites one after the other without repetition, then a value for each.

    The reverse proposal takes the same sites in the same order, so that its probability is known;
    for one site this is the plain proposal.
    """
    site_key, value_key, accept_key = jax.random.split(rng_key, 3)
    space, x = view.space, state.position
    labels = space.labels(x)
    here = view.bend(x, state.local)
    weights = offset_weights(space, labels, log_weight(here.guide))
    by_site = over_values(weights)
    sites = _draw_sites(site_key, by_site, num_sites)
    offsets = 1 + jax.random.categorical(value_key, weights[sites])
    values = (labels[sites] + offsets) % space.num_values
    y = space.place(x, sites, values)
    proposed = SiteState(y, view.look(y))
    there = view.bend(y, proposed.local)
    weights_back = offset_weights(space, labels.at[sites].set(values), log_weight(there.guide))
    forth = _log_path(weights, by_site, sites, offsets - 1)
    back_offsets = space.num_values - offsets
    back = _log_path(weights_back, over_values(weights_back), sites, back_offsets - 1)
    look, bend = view.evaluations(x)
    ratio = there.logdensity - here.logdensity + back - forth
    return decide(accept_key, state, proposed, ratio, forth, look + 2 * bend)


def offset_weights(
    space: Space, labels: Int[Array, " site"], log_weights: Float[Array, "site value"]
) -> Float[Array, "site offset"]:
    """Log weights (site, offset) of the values x_i + 1, x_i + 2, ..., modulo their number."""
    if space.num_values == 2:
        others = jnp.where(labels == 1, log_weights[:, 0], log_weights[:, 1])[:, None]
    else:
        values = (labels[:, None] + jnp.arange(1, space.num_values)[None]) % space.num_values
        others = jnp.take_along_axis(log_weights, values, axis=1)
    return jnp.where(jnp.isnan(others), -jnp.inf, others)


def over_values(weights: Float[Array, "site offset"]) -> Float[Array, " site"]:
    """The log weight of each site, summed over its values."""
    return weights[:, 0] if weights.shape[1] == 1 else jax.nn.logsumexp(weights, axis=1)


def _draw_sites(
    rng_key: PRNGKey, log_weights: Float[Array, " site"], num_sites: int
) -> Int[Array, " drawn"]:
    """Distinct sites, in the order in which they are drawn by their weights."""
    if num_sites == 1:
        return _draw_site(rng_key, log_weights)[None]
    noise = jax.random.gumbel(rng_key, log_weights.shape, log_weights.dtype)
    return jax.lax.top_k(log_weights + noise, num_sites)[1]


def _draw_site(rng_key: PRNGKey, log_weights: Float[Array, " site"]) -> Int[Array, ""]:
    """A site by its weight: first a block of sites, then one site of the block.

    No sum then runs over so many terms that it loses the small ones.
    """
    sites = len(log_weights)
    width = math.isqrt(sites - 1) + 1
    padded = jnp.pad(log_weights, (0, -sites % width), constant_values=-jnp.inf)
    blocks = jnp.exp(padded - jnp.max(padded)).reshape(-1, width)
    sums = jnp.sum(blocks, axis=1)
    ends = jnp.cumsum(sums)
    uniform = jax.random.uniform(rng_key, (2,), sums.dtype)
    block = jnp.sum(ends <= uniform[0] * ends[-1])
    block = jnp.minimum(block, len(sums) - 1)
    within = jnp.cumsum(blocks[block])
    site = block * width + jnp.sum(within <= uniform[1] * within[-1])
    return jnp.minimum(site, sites - 1)


def _log_path(
    weights: Float[Array, "site offset"],
    by_site: Float[Array, " site"],
    sites: Int[Array, " drawn"],
    offsets: Int[Array, " drawn"],
) -> Scalar:
    """The log probability of these sites in this order, each with its new value."""
    chosen = weights[sites, offsets]
    if len(sites) == 1:
        return chosen[0] - jax.nn.logsumexp(by_site)
    rest = jax.nn.logsumexp(by_site.at[sites].set(-jnp.inf))
    left = jax.lax.cumlogsumexp(jnp.append(by_site[sites], rest), reverse=True)[:-1]
    return jnp.sum(chosen - left)


def build_locally_balanced() -> Transition:
    """The transition of `locally_balanced`."""

    def kernel(
        rng_key: PRNGKey, state: SiteState, view: View, balancing: str = "sqrt"
    ) -> tuple[SiteState, SiteInfo]:
        return informed(rng_key, state, view, BALANCING[balancing], 1)

    return kernel


def check_balancing(balancing: str = "sqrt") -> None:
    check_option("balancing", balancing, BALANCING)


def build_gwg() -> Transition:
    """The transition of `gwg`, which changes `num_sites` sites per step."""

    def kernel(
        rng_key: PRNGKey,
        state: SiteState,
        view: View,
        temperature: float | Array = 2.0,
        num_sites: int = 1,
    ) -> tuple[SiteState, SiteInfo]:
        check_count("num_sites", num_sites)
        most = view.space.num_sites(state.position)
        if num_sites > most:
            raise ValueError(f"num_sites must be at most {most}, the sites of a state")
        return informed(rng_key, state, view, lambda log_t: log_t / temperature, num_sites)

    return kernel


def check_gwg(temperature: float | Array = 2.0, num_sites: int = 1) -> None:
    check_number("temperature", temperature, above=0.0)
    check_count("num_sites", num_sites)


locally_balanced = SiteAlgorithm(
    "locally_balanced", "exact", build_locally_balanced, check_balancing
)
gwg = SiteAlgorithm("gwg", "gradient", build_gwg, check_gwg)
