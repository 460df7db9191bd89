"""The path auxiliary sampler: one-site changes along a path, accepted or rejected as a whole.

Sites are drawn one after the other without repetition, by locally balanced weights at the state
(the fast form of Sun, Dai, Xia and Ramamurthy, 2022). The reverse path takes them in reverse order,
by the weights at its other end, so that a step takes one gradient.
"""

import math

import jax
import jax.numpy as jnp

from srmc._checks import check_number, check_option, is_concrete
from srmc.kernels.discrete._informed import BALANCING, offset_weights, over_values
from srmc.kernels.discrete._sitewise import SiteAlgorithm, SiteInfo, SiteState, Transition, decide
from srmc.kernels.discrete.view import View
from srmc.types import Array, Bool, Float, Int, PRNGKey, Scalar


def build_kernel() -> Transition:
    """The transition of `path_auxiliary`."""

    def kernel(
        rng_key: PRNGKey,
        state: SiteState,
        view: View,
        path_length: float | Array,
        balancing: str = "sqrt",
    ) -> tuple[SiteState, SiteInfo]:
        length_key, site_key, value_key, accept_key = jax.random.split(rng_key, 4)
        space, x, log_weight = view.space, state.position, BALANCING[balancing]
        mean, most = _lengths(path_length, space.num_sites(x))
        count, log_count = _draw_count(length_key, jnp.asarray(mean, x.dtype))
        labels, here = space.labels(x), view.bend(x, state.local)
        weights = offset_weights(space, labels, log_weight(here.guide))
        sites = _draw_sites(site_key, over_values(weights), most)
        offsets = _draw_offsets(value_key, weights[sites])
        on_path = jnp.arange(most) < count
        values = (labels[sites] + jnp.where(on_path, offsets, 0)) % space.num_values
        y = space.place(x, sites, values)
        proposed = SiteState(y, view.look(y))
        there = view.bend(y, proposed.local)
        labels = labels.at[sites].set(values)
        back_weights = offset_weights(space, labels, log_weight(there.guide))
        back_offsets = space.num_values - offsets
        forth = _log_path(weights, sites, offsets, on_path)
        back = _log_path(back_weights, sites[::-1], back_offsets[::-1], on_path[::-1])
        look, bend = view.evaluations(x)
        ratio = there.logdensity - here.logdensity + back - forth
        return decide(accept_key, state, proposed, ratio, log_count + forth, look + 2 * bend)

    return kernel


def longest(num_sites: int) -> int:
    """The most sites on a path whose length is traced: twice the optimal order of sites^(2/3).

    The order is that of Sun, Dai and Schuurmans (2022). Up to 64 sites there is no such bound.
    """
    return min(num_sites, max(64, 2 * math.ceil(math.cbrt(num_sites) ** 2)))


def longest_mean(num_sites: int) -> float:
    """The largest mean length of paths whose length is traced."""
    return max(1.0, longest(num_sites) / 1.5)


def _lengths(path_length: float | Array, num_sites: int) -> tuple[float | Array, int]:
    """The mean number of sites on a path, and the largest number."""
    if is_concrete(path_length):
        mean = float(path_length)
        check_number("path_length", mean, at_most=max(1.0, num_sites / 1.5))
        return mean, min(num_sites, math.floor(1.5 * mean + 0.5))
    return jnp.minimum(path_length, longest_mean(num_sites)), longest(num_sites)


def _draw_count(rng_key: PRNGKey, mean: Scalar) -> tuple[Int[Array, ""], Scalar]:
    """How many sites change, and the log probability of that number.

    It is a number drawn uniformly between mean / 2 and 3 mean / 2, rounded. Were it always the
    same even number, the number of ones of a binary state would remain even or odd.
    """
    drawn = mean * (0.5 + jax.random.uniform(rng_key, (), mean.dtype))
    count = jnp.floor(drawn + 0.5)
    width = jnp.minimum(count + 0.5, 1.5 * mean) - jnp.maximum(count - 0.5, 0.5 * mean)
    return count.astype(int), jnp.log(width / mean)


def _draw_sites(
    rng_key: PRNGKey, by_site: Float[Array, " site"], most: int
) -> Int[Array, " drawn"]:
    """Distinct sites, in the order in which they are drawn by their log weights."""
    noise = jax.random.gumbel(rng_key, by_site.shape, by_site.dtype)
    return jax.lax.top_k(by_site + noise, most)[1]


def _draw_offsets(rng_key: PRNGKey, weights: Float[Array, "drawn offset"]) -> Int[Array, " drawn"]:
    """How far, modulo the number of values, each site moves."""
    if weights.shape[1] == 1:
        return jnp.ones((len(weights),), int)
    return 1 + jax.random.categorical(rng_key, weights)


def _log_path(
    weights: Float[Array, "site offset"],
    sites: Int[Array, " drawn"],
    offsets: Int[Array, " drawn"],
    on_path: Bool[Array, " drawn"],
) -> Scalar:
    """The log probability of the sites on a path in this order, each with its new value."""
    by_site = over_values(weights)
    top, chosen = jnp.max(by_site), by_site[sites]
    rest = by_site.at[sites].set(jnp.where(on_path, -jnp.inf, chosen))
    taken = jnp.where(on_path, jnp.exp(chosen - top), 0)
    left = jnp.sum(jnp.exp(rest - top)) + jax.lax.cumsum(taken, reverse=True)
    return jnp.sum(jnp.where(on_path, weights[sites, offsets - 1] - top - jnp.log(left), 0))


def check(path_length: float | Array, balancing: str = "sqrt") -> None:
    check_number("path_length", path_length, at_least=1.0)
    check_option("balancing", balancing, BALANCING)


path_auxiliary = SiteAlgorithm("path_auxiliary", "gradient", build_kernel, check, sweeps=True)
