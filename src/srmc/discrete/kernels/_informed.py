"""Locally informed proposals: sites and values drawn by weights of the changes they make.

`locally_balanced` weighs exact ratios t by a balancing function, g(t) = t g(1/t); `gwg`
(Gibbs with gradients) takes the ratios from one gradient, and their root for temperature 2.
"""

import math

import jax
import jax.numpy as jnp

from srmc._checks import check_count, check_number, check_option
from srmc.discrete.kernels._sitewise import SiteAlgorithm, SiteState, decide

BALANCING = {
    "sqrt": lambda log_t: log_t / 2,
    "barker": jax.nn.log_sigmoid,
    "max": lambda log_t: jnp.maximum(log_t, 0),
}


def informed(rng_key, state, view, log_weight, num_sites):
    """Sites are drawn one after the other without repetition, then a new value for each.

    The way back takes the same sites in the same order, so that its probability is known; for one
    site this is the plain proposal.
    """
    site_key, value_key, accept_key = jax.random.split(rng_key, 3)
    space, x = view.space, state.position
    labels = space.labels(x)
    here = view.bend(x, state.local)
    weights = _weights(space, labels, log_weight(here.guide))
    by_site = _over_values(weights)
    if num_sites == 1:
        sites = _draw_site(site_key, by_site)[None]
    else:
        noise = jax.random.gumbel(site_key, by_site.shape, by_site.dtype)
        sites = jax.lax.top_k(by_site + noise, num_sites)[1]
    offsets = 1 + jax.random.categorical(value_key, weights[sites])
    values = (labels[sites] + offsets) % space.num_values
    y = space.place(x, sites, values)
    proposed = SiteState(y, view.look(y))
    there = view.bend(y, proposed.local)
    weights_back = _weights(space, labels.at[sites].set(values), log_weight(there.guide))
    forth = _log_path(weights, by_site, sites, offsets - 1)
    back_offsets = space.num_values - offsets
    back = _log_path(weights_back, _over_values(weights_back), sites, back_offsets - 1)
    look, bend = view.evaluations(x)
    ratio = there.logdensity - here.logdensity + back - forth
    return decide(accept_key, state, proposed, ratio, forth, look + 2 * bend)


def _weights(space, labels, log_weights):
    """Log weights (site, offset) of the values x_i + 1, x_i + 2, ..., around the circle."""
    if space.num_values == 2:
        others = jnp.where(labels == 1, log_weights[:, 0], log_weights[:, 1])[:, None]
    else:
        values = (labels[:, None] + jnp.arange(1, space.num_values)[None]) % space.num_values
        others = jnp.take_along_axis(log_weights, values, axis=1)
    return jnp.where(jnp.isnan(others), -jnp.inf, others)


def _over_values(weights):
    return weights[:, 0] if weights.shape[1] == 1 else jax.nn.logsumexp(weights, axis=1)


def _draw_site(rng_key, log_weights):
    """A site by its weight: first a block of sites, then one of the block.

    So no sum runs over so many terms that it loses the small ones.
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


def _log_path(weights, by_site, sites, offsets):
    """The log probability of these sites in this order, each with its new value."""
    chosen = weights[sites, offsets]
    if len(sites) == 1:
        return chosen[0] - jax.nn.logsumexp(by_site)
    rest = jax.nn.logsumexp(by_site.at[sites].set(-jnp.inf))
    left = jax.lax.cumlogsumexp(jnp.append(by_site[sites], rest), reverse=True)[:-1]
    return jnp.sum(chosen - left)


def build_locally_balanced():
    def kernel(rng_key, state, view, balancing="sqrt"):
        return informed(rng_key, state, view, BALANCING[balancing], 1)

    return kernel


def check_balancing(balancing: str = "sqrt") -> None:
    check_option("balancing", balancing, BALANCING)


def build_gwg():
    def kernel(rng_key, state, view, temperature=2.0, num_sites=1):
        check_count("num_sites", num_sites)
        most = state.position.size // view.space.width
        if num_sites > most:
            raise ValueError(f"num_sites must be at most {most}, the sites of a state")
        return informed(rng_key, state, view, lambda log_t: log_t / temperature, num_sites)

    return kernel


def check_gwg(temperature: float = 2.0, num_sites: int = 1) -> None:
    check_number("temperature", temperature, above=0.0)
    check_count("num_sites", num_sites)


locally_balanced = SiteAlgorithm(
    "locally_balanced", "exact", build_locally_balanced, check_balancing
)
gwg = SiteAlgorithm("gwg", "gradient", build_gwg, check_gwg)
