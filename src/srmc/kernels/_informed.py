"""Locally informed proposals: sites and values drawn by weights of the changes they make.

`locally_balanced` weighs exact ratios t by a balancing function, g(t) = t g(1/t); `gwg`
(Gibbs with gradients) takes the ratios from one gradient, and their root for temperature 2.
"""

import jax
import jax.numpy as jnp

from srmc._checks import check_count, check_number, check_option
from srmc.kernels._sitewise import SiteAlgorithm, SiteState, decide

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
    by_site = jax.nn.logsumexp(weights, axis=1)
    noisy = by_site + jax.random.gumbel(site_key, by_site.shape, by_site.dtype)
    sites = jnp.argmax(noisy)[None] if num_sites == 1 else jax.lax.top_k(noisy, num_sites)[1]
    values = jax.random.categorical(value_key, weights[sites])
    y = space.place(x, sites, values)
    proposed = SiteState(y, view.look(y))
    there = view.bend(y, proposed.local)
    back = _weights(space, labels.at[sites].set(values), log_weight(there.guide))
    forth, back = _log_path(weights, sites, values), _log_path(back, sites, labels[sites])
    look, bend = view.evaluations(x)
    ratio = there.logdensity - here.logdensity + back - forth
    return decide(accept_key, state, proposed, ratio, forth, look + 2 * bend)


def _weights(space, labels, log_weights):
    """Log weights (site, value), none for the value that the site has."""
    held = jnp.arange(space.num_values)[None] == labels[:, None]
    return jnp.where(held | jnp.isnan(log_weights), -jnp.inf, log_weights)


def _log_path(weights, sites, values):
    """The log probability of these sites in this order, each with its new value."""
    by_site = jax.nn.logsumexp(weights, axis=1)
    rest = jax.nn.logsumexp(by_site.at[sites].set(-jnp.inf))
    left = jax.lax.cumlogsumexp(jnp.append(by_site[sites], rest), reverse=True)[:-1]
    return jnp.sum(weights[sites, values] - left)


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
