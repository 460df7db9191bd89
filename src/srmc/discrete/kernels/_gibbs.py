"""The Gibbs sampler: one site a step is drawn given all others."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from srmc._checks import check_option
from srmc.discrete.kernels._sitewise import SiteAlgorithm, SiteInfo
from srmc.discrete.sites import Local, View


class GibbsState(NamedTuple):
    """The state, what was seen of the target there, and the site whose turn it is."""

    position: jax.Array
    local: Local
    site: jax.Array


def init(position: jax.Array, view: View) -> GibbsState:
    return GibbsState(position, view.look(position), jnp.zeros((), int))


def build_kernel():
    def kernel(rng_key, state, view, scan="random"):
        site_key, value_key = jax.random.split(rng_key)
        space, x = view.space, state.position
        labels, values = space.labels(x), space.num_values
        site = state.site
        if scan == "random":
            site = jax.random.randint(site_key, (), 0, len(labels))
        others = (labels[site] + jnp.arange(1, values)) % values
        states = jax.vmap(lambda k: space.place(x, site, k))(others)
        seen = jax.vmap(view.look)(states)
        first = lambda one, more: jnp.concatenate([one[None], more])
        states, seen = jax.tree.map(first, (x, state.local), (states, seen))
        logdensity = jax.vmap(view.bend)(states, seen).logdensity
        logits = jnp.where(jnp.isfinite(logdensity), logdensity, -jnp.inf)
        chosen = jax.random.categorical(value_key, logits)
        position, local = jax.tree.map(lambda leaf: leaf[chosen], (states, seen))
        info = SiteInfo(
            jnp.ones((), x.dtype),
            jnp.ones((), bool),
            jnp.all(jnp.isfinite(logdensity)),
            position,
            jax.nn.log_softmax(logits)[chosen],
            jnp.asarray((values - 1) * view.evaluations(x)[0]),
        )
        return GibbsState(position, local, (site + 1) % len(labels)), info

    return kernel


def check(scan: str = "random") -> None:
    check_option("scan", scan, ("random", "systematic"))


gibbs = SiteAlgorithm("gibbs", None, build_kernel, check, init)
