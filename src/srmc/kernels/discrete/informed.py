"""Locally informed proposals: sites and values drawn by weights of the changes they make.

`locally_balanced` weighs exact ratios t by a balancing function, g(t) = t g(1/t). `gwg` (Gibbs with
gradients) predicts the ratios from one gradient, and takes their square root for temperature 2.
`path_auxiliary` changes sites one by one along a path, accepted or rejected as a whole.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp

from srmc._checks import check_count, check_number, check_option, is_concrete
from srmc.kernels.discrete.sites import View
from srmc.kernels.discrete.sitewise import SiteAlgorithm, SiteInfo, SiteState, decide
from srmc.kernels.discrete.space import Space
from srmc.types import Array, Bool, Float, Int, PRNGKey, Scalar

Drawn = Int[Array, " drawn"]
PerSite = Float[Array, " site"]
Offsets = Float[Array, "site offset"]
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
) -> Offsets:
    """Log weights (site, offset) of the values x_i + 1, x_i + 2, ..., modulo their number."""
    if space.num_values == 2:
        others = jnp.where(labels == 1, log_weights[:, 0], log_weights[:, 1])[:, None]
    else:
        values = (labels[:, None] + jnp.arange(1, space.num_values)[None]) % space.num_values
        others = jnp.take_along_axis(log_weights, values, axis=1)
    return jnp.where(jnp.isnan(others), -jnp.inf, others)


def over_values(weights: Offsets) -> PerSite:
    """The log weight of each site, summed over its values."""
    return weights[:, 0] if weights.shape[1] == 1 else jax.nn.logsumexp(weights, axis=1)


def _draw_sites(rng_key: PRNGKey, log_weights: PerSite, num_sites: int) -> Drawn:
    """Distinct sites by weight; a single site takes one random number, not one per site."""
    if num_sites == 1:
        return _draw_site(rng_key, log_weights)[None]
    return _draw_distinct(rng_key, log_weights, num_sites)


def _draw_distinct(rng_key: PRNGKey, log_weights: PerSite, num_sites: int) -> Drawn:
    """Distinct sites, in the order in which they are drawn by their weights."""
    noise = jax.random.gumbel(rng_key, log_weights.shape, log_weights.dtype)
    return jax.lax.top_k(log_weights + noise, num_sites)[1]


def _draw_site(rng_key: PRNGKey, log_weights: PerSite) -> Int[Array, ""]:
    """A site by its weight: first a block of sites, then one site of the block.

    Sums are then short enough not to round small terms away.
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


def _log_path(weights: Offsets, by_site: PerSite, sites: Drawn, offsets: Drawn) -> Scalar:
    """The log probability of these sites in this order, each with its new value."""
    chosen = weights[sites, offsets]
    if len(sites) == 1:
        return chosen[0] - jax.nn.logsumexp(by_site)
    rest = jax.nn.logsumexp(by_site.at[sites].set(-jnp.inf))
    left = jax.lax.cumlogsumexp(jnp.append(by_site[sites], rest), reverse=True)[:-1]
    return jnp.sum(chosen - left)


def _locally_balanced(
    rng_key: PRNGKey, state: SiteState, view: View, balancing: str = "sqrt"
) -> tuple[SiteState, SiteInfo]:
    return informed(rng_key, state, view, BALANCING[balancing], 1)


def check_balancing(balancing: str = "sqrt") -> None:
    check_option("balancing", balancing, BALANCING)


locally_balanced = SiteAlgorithm("locally_balanced", "exact", _locally_balanced, check_balancing)


def _gwg(
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


def _check_gwg(temperature: float | Array = 2.0, num_sites: int = 1) -> None:
    check_number("temperature", temperature, above=0.0)
    check_count("num_sites", num_sites)


gwg = SiteAlgorithm("gwg", "gradient", _gwg, _check_gwg)


def _path_auxiliary(
    rng_key: PRNGKey,
    state: SiteState,
    view: View,
    path_length: float | Array,
    balancing: str = "sqrt",
) -> tuple[SiteState, SiteInfo]:
    """Sites drawn without repetition, by locally balanced weights at the state.

    This is the fast form of Sun, Dai, Xia and Ramamurthy (2022). The reverse path takes the sites
    in reverse order, by the weights at its other end, so that a step takes one gradient.
    """
    length_key, site_key, value_key, accept_key = jax.random.split(rng_key, 4)
    space, x, log_weight = view.space, state.position, BALANCING[balancing]
    mean, most = _lengths(path_length, space.num_sites(x))
    count, log_count = _draw_count(length_key, jnp.asarray(mean, x.dtype))
    labels, here = space.labels(x), view.bend(x, state.local)
    weights = offset_weights(space, labels, log_weight(here.guide))
    sites = _draw_distinct(site_key, over_values(weights), most)
    offsets = _draw_offsets(value_key, weights[sites])
    on_path = jnp.arange(most) < count
    values = (labels[sites] + jnp.where(on_path, offsets, 0)) % space.num_values
    y = space.place(x, sites, values)
    proposed = SiteState(y, view.look(y))
    there = view.bend(y, proposed.local)
    labels = labels.at[sites].set(values)
    back_weights = offset_weights(space, labels, log_weight(there.guide))
    back_offsets = space.num_values - offsets
    forth = _log_reversible_path(weights, sites, offsets, on_path)
    back = _log_reversible_path(back_weights, sites[::-1], back_offsets[::-1], on_path[::-1])
    look, bend = view.evaluations(x)
    ratio = there.logdensity - here.logdensity + back - forth
    return decide(accept_key, state, proposed, ratio, log_count + forth, look + 2 * bend)


def longest(num_sites: int) -> int:
    """The most sites on a path whose length is traced: twice the optimal order of sites^(2/3).

    Sun, Dai and Schuurmans (2022) derive the order. Up to 64 sites there is no such bound.
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
    """The number of sites that change, and its log probability.

    It is a number drawn uniformly between mean / 2 and 3 mean / 2, rounded. Were it always the
    same even number, the number of ones of a binary state would remain even or odd.
    """
    drawn = mean * (0.5 + jax.random.uniform(rng_key, (), mean.dtype))
    count = jnp.floor(drawn + 0.5)
    width = jnp.minimum(count + 0.5, 1.5 * mean) - jnp.maximum(count - 0.5, 0.5 * mean)
    return count.astype(int), jnp.log(width / mean)


def _draw_offsets(rng_key: PRNGKey, weights: Float[Array, "drawn offset"]) -> Drawn:
    """The move of each site, modulo the number of values."""
    if weights.shape[1] == 1:
        return jnp.ones((len(weights),), int)
    return 1 + jax.random.categorical(rng_key, weights)


def _log_reversible_path(
    weights: Offsets, sites: Drawn, offsets: Drawn, on_path: Bool[Array, " drawn"]
) -> Scalar:
    """The log probability of the sites on a path in this order, each with its new value."""
    by_site = over_values(weights)
    top, chosen = jnp.max(by_site), by_site[sites]
    rest = by_site.at[sites].set(jnp.where(on_path, -jnp.inf, chosen))
    taken = jnp.where(on_path, jnp.exp(chosen - top), 0)
    left = jnp.sum(jnp.exp(rest - top)) + jax.lax.cumsum(taken, reverse=True)
    return jnp.sum(jnp.where(on_path, weights[sites, offsets - 1] - top - jnp.log(left), 0))


def _check_path(path_length: float | Array, balancing: str = "sqrt") -> None:
    check_number("path_length", path_length, at_least=1.0)
    check_balancing(balancing)


path_auxiliary = SiteAlgorithm(
    "path_auxiliary", "gradient", _path_auxiliary, _check_path, sweeps=True
)
