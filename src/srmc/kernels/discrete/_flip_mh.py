"""Metropolis-Hastings on a discrete space: a random site takes a random other value."""

import jax
import jax.numpy as jnp

from srmc.kernels.discrete._sitewise import SiteAlgorithm, SiteInfo, SiteState, Transition, decide
from srmc.kernels.discrete.view import View
from srmc.types import PRNGKey


def build_kernel() -> Transition:
    """The transition of `flip_mh`."""

    def kernel(rng_key: PRNGKey, state: SiteState, view: View) -> tuple[SiteState, SiteInfo]:
        site_key, value_key, accept_key = jax.random.split(rng_key, 3)
        space, x = view.space, state.position
        site = jax.random.randint(site_key, (), 0, space.num_sites(x))
        offset = jax.random.randint(value_key, (), 1, space.num_values)
        value = (space.label(x, site) + offset) % space.num_values
        proposed = SiteState(*view.visit(x, state.local, site, value))
        here, there = (view.bend(s.position, s.local, site).logdensity for s in (state, proposed))
        log_proposal = -jnp.log(jnp.asarray(space.num_neighbours(x), x.dtype))
        evaluations = view.evaluations(x)[0]
        return decide(accept_key, state, proposed, there - here, log_proposal, evaluations)

    return kernel


flip_mh = SiteAlgorithm("flip_mh", None, build_kernel, lambda: None)
