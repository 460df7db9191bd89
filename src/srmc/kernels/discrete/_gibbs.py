"""The Gibbs sampler: each step draws one site given all others."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from srmc._checks import check_option
from srmc.kernels.discrete._sitewise import SiteAlgorithm, SiteInfo, Transition
from srmc.kernels.discrete.view import Local, View
from srmc.types import Array, Int, PRNGKey


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
        held, count = view.space.label(x, site), view.space.num_values
        values = (held + jnp.arange(count)) % count
        states, seen = jax.vmap(lambda k: view.visit(x, state.local, site, k))(values[1:])
        bend = lambda x, local: view.bend(x, local, site).logdensity
        logdensity = _prepend(bend(x, state.local), jax.vmap(bend)(states, seen))
        logits = jnp.where(jnp.isfinite(logdensity), logdensity, -jnp.inf)
        chosen = jax.random.categorical(value_key, logits)
        # To place the value again is cheaper than to choose among states.
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
        return GibbsState(position, local, (site + 1) % num_sites), info

    return kernel


def _prepend(one: Array, more: Array) -> Array:
    return jnp.concatenate([one[None], more])


def check(scan: str = "random") -> None:
    check_option("scan", scan, ("random", "systematic"))


gibbs = SiteAlgorithm("gibbs", None, build_kernel, check, init)
