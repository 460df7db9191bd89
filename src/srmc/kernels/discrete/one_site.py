"""Kernels that change one site per step: Metropolis-Hastings and the Gibbs sampler."""

import jax
import jax.numpy as jnp

from srmc._checks import check_option
from srmc.kernels.discrete.sites import View
from srmc.kernels.discrete.sitewise import (
    SiteAlgorithm,
    SiteInfo,
    SiteState,
    TurnState,
    decide,
    first_turn,
)
from srmc.types import Array, PRNGKey


def _flip(rng_key: PRNGKey, state: SiteState, view: View) -> tuple[SiteState, SiteInfo]:
    """A random site takes a random other value."""
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


flip_mh = SiteAlgorithm("flip_mh", None, _flip, lambda: None)


def _gibbs(
    rng_key: PRNGKey, state: TurnState, view: View, scan: str = "random"
) -> tuple[TurnState, SiteInfo]:
    """One site, at random or if `scan` is "systematic" in turn, is drawn given all others."""
    site_key, value_key = jax.random.split(rng_key)
    x, num_sites = state.position, view.space.num_sites(state.position)
    site = state.turn
    if scan == "random":
        site = jax.random.randint(site_key, (), 0, num_sites)
    held, count = view.space.label(x, site), view.space.num_values
    values = (held + jnp.arange(count)) % count
    states, seen = jax.vmap(lambda k: view.visit(x, state.local, site, k))(values[1:])
    bend = lambda x, local: view.bend(x, local, site).logdensity
    logdensity = _prepend(bend(x, state.local), jax.vmap(bend)(states, seen))
    logits = jnp.where(jnp.isfinite(logdensity), logdensity, -jnp.inf)
    chosen = jax.random.categorical(value_key, logits)
    # Placing the value again is cheaper than selecting one of the states.
    position = view.space.place(x, site, values[chosen])
    local = jax.tree.map(lambda one, more: _prepend(one, more)[chosen], state.local, seen)
    info = SiteInfo(
        acceptance_rate=jnp.ones((), x.dtype),
        is_accepted=jnp.ones((), bool),
        is_finite=jnp.all(jnp.isfinite(logdensity)),
        proposal=position,
        log_proposal=jax.nn.log_softmax(logits)[chosen],
        evaluations=jnp.asarray((count - 1) * view.evaluations(x)[0]),
    )
    return TurnState(position, local, (site + 1) % num_sites), info


def _prepend(one: Array, more: Array) -> Array:
    return jnp.concatenate([one[None], more])


def _check_scan(scan: str = "random") -> None:
    check_option("scan", scan, ("random", "systematic"))


gibbs = SiteAlgorithm("gibbs", None, _gibbs, _check_scan, first_turn)
