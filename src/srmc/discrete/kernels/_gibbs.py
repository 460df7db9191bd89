"""The Gibbs sampler: each step draws one site given all others."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from srmc._checks import check_option
from srmc._types import Array, Int, PRNGKey
from srmc.discrete.kernels._sitewise import SiteAlgorithm, SiteInfo, Transition
from srmc.discrete.view import Local, View


class GibbsState(NamedTuple):
    """The position, what is known about the target there, and the site whose turn it is."""

    position: Array
    local: Local
    site: Int[Array, ""]


def init(position: Array, view: View) -> GibbsState:
    """The state at a position, with the first site next."""
    return GibbsState(position, view.look(position), jnp.zeros((), int))


def build_kernel() -> Transition:
    """The transition of `gibbs`; sites come at random or, if `scan` is "systematic", in turn."""

    def kernel(
        rng_key: PRNGKey, state: GibbsState, view: View, scan: str = "random"
    ) -> tuple[GibbsState, SiteInfo]:
        site_key, value_key = jax.random.split(rng_key)
        x, num_sites = state.position, view.space.num_sites(state.position)
        site = state.site
        if scan == "random":
            site = jax.random.randint(site_key, (), 0, num_sites)
        states, seen = _candidates(state, view, site)
        bend = lambda x, local: view.bend(x, local, site)
        logdensity = jax.vmap(bend)(states, seen).logdensity
        logits = jnp.where(jnp.isfinite(logdensity), logdensity, -jnp.inf)
        chosen = jax.random.categorical(value_key, logits)
        position, local = jax.tree.map(lambda leaf: leaf[chosen], (states, seen))
        info = SiteInfo(
            acceptance_rate=jnp.ones((), x.dtype),
            is_accepted=jnp.ones((), bool),
            is_finite=jnp.all(jnp.isfinite(logdensity)),
            proposal=position,
            log_proposal=jax.nn.log_softmax(logits)[chosen],
            evaluations=jnp.asarray((view.space.num_values - 1) * view.evaluations(x)[0]),
        )
        return GibbsState(position, local, (site + 1) % num_sites), info

    return kernel


def _candidates(state: GibbsState, view: View, site: Int[Array, ""]) -> tuple[Array, Local]:
    """The current position and those with other values at a site, and what is known of each."""
    space, x = view.space, state.position
    label, values = space.label(x, site), space.num_values
    others = (label + jnp.arange(1, values)) % values
    states, seen = jax.vmap(lambda k: view.visit(x, state.local, site, k))(others)

    def prepend(one: Array, more: Array) -> Array:
        return jnp.concatenate([one[None], more])

    stacked: tuple[Array, Local] = jax.tree.map(prepend, (x, state.local), (states, seen))
    return stacked


def check(scan: str = "random") -> None:
    check_option("scan", scan, ("random", "systematic"))


gibbs = SiteAlgorithm("gibbs", None, build_kernel, check, init)
