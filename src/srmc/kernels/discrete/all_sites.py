"""Kernels that draw all sites at once, independently, by logits from one gradient."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from srmc._checks import as_numbers, check_count, check_flag, check_number, short
from srmc.kernels.discrete.informed import BALANCING, check_balancing
from srmc.kernels.discrete.sites import View
from srmc.kernels.discrete.sitewise import (
    SiteAlgorithm,
    SiteInfo,
    SiteState,
    TurnState,
    decide,
    first_turn,
)
from srmc.kernels.discrete.space import Space
from srmc.types import Array, ArrayLike, Bool, Float, Int, PRNGKey, Scalar

Logits = Float[Array, "site value"]


def everywhere(
    rng_key: PRNGKey,
    state: SiteState,
    view: View,
    logits: Callable[[Array, Logits], Logits],
    adjusted: bool = True,
) -> tuple[SiteState, SiteInfo]:
    """A step that draws all sites independently, by logits from a state and its guide."""
    draw_key, accept_key = jax.random.split(rng_key)
    space, x = view.space, state.position
    here = view.bend(x, state.local)
    at_x = logits(x, here.guide)
    values = _draw(draw_key, at_x)
    y = space.state(values, x)
    proposed = SiteState(y, view.look(y))
    forth = _log_probability(at_x, values)
    ratio = jnp.zeros_like(forth)
    if adjusted:
        there = view.bend(y, proposed.local)
        back = _log_probability(logits(y, there.guide), space.labels(x))
        ratio = there.logdensity - here.logdensity + back - forth
    look, bend = view.evaluations(x)
    return decide(accept_key, state, proposed, ratio, forth, look + (1 + adjusted) * bend)


def _draw(rng_key: PRNGKey, logits: Logits) -> Int[Array, " site"]:
    """A value for each site, from one uniform number per site."""
    if logits.shape[1] == 2:
        uniform = jax.random.uniform(rng_key, (len(logits),), logits.dtype)
        return (uniform < jax.nn.sigmoid(logits[:, 1] - logits[:, 0])).astype(int)
    below = jnp.cumsum(jax.nn.softmax(logits, axis=1), axis=1)[:, :-1]
    uniform = jax.random.uniform(rng_key, (len(logits), 1), logits.dtype)
    return jnp.sum(uniform > below, axis=1)


def _log_probability(logits: Logits, values: Int[Array, " site"]) -> Scalar:
    """The log probability of drawing these values."""
    if logits.shape[1] == 2:
        difference = logits[:, 1] - logits[:, 0]
        return -jnp.sum(jax.nn.softplus(jnp.where(values == 1, -difference, difference)))
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits, axis=1), values[:, None], axis=1)
    return jnp.sum(chosen)


def _dlp(
    rng_key: PRNGKey,
    state: SiteState,
    view: View,
    step_size: float | Array,
    adjusted: bool = True,
    balancing: float | Array = 0.5,
) -> tuple[SiteState, SiteInfo]:
    """The discrete Langevin proposal, for b = 1/2 q ~ exp(-|y - x - eta s|^2 / (4 eta))."""

    def logits(x: Array, guide: Logits) -> Logits:
        """`b s_i (k - x_i) - (k - x_i)^2 / (4 eta)`."""
        eta, b = (jnp.asarray(v, x.dtype) for v in (step_size, balancing))
        return b * guide - view.space.distances(x) / (4 * eta)

    return everywhere(rng_key, state, view, logits, adjusted)


def _check_dlp(step_size: float | Array, adjusted: bool = True) -> None:
    check_number("step_size", step_size, above=0.0)
    check_flag("adjusted", adjusted)


dlp = SiteAlgorithm("dlp", "gradient", _dlp, _check_dlp, sweeps=True)


def _acs(
    rng_key: PRNGKey,
    state: TurnState,
    view: View,
    step_size: float | Array,
    period: int = 8,
    span: float | Array = 4.0,
) -> tuple[TurnState, SiteInfo]:
    """DLP by a cycle of step sizes, each with its own balance of the gradient.

    Steps are geometric about `step_size`, by factors from `span` to 1 / `span` along a cosine, as
    in automatic cyclical scheduling (Pynadath, Bhattacharya, Hariharan and Zhang, 2024).
    """
    x, local, turn = state
    angle = jnp.pi * (turn % period) / (period - 1)
    eta = jnp.asarray(step_size, x.dtype) * jnp.asarray(span, x.dtype) ** jnp.cos(angle)
    nearest = 2.0 if view.space.one_hot else 1.0
    # For one binary site, log q(y | x) - log q(x | y) = 2 b D / (1 + exp(-1 / (4 eta))) to first
    # order in the change D of the log density, which is D, and always accepted, for this b.
    balancing = (1 + jnp.exp(-nearest / (4 * eta))) / 2
    new, info = _dlp(rng_key, SiteState(x, local), view, eta, balancing=balancing)
    return TurnState(*new, (turn + 1) % period), info


def _check_acs(step_size: float | Array, period: int = 8, span: float | Array = 4.0) -> None:
    check_number("step_size", step_size, above=0.0)
    check_count("period", period, at_least=2)
    check_number("span", span, above=0.0)


acs = SiteAlgorithm("acs", "gradient", _acs, _check_acs, first_turn, sweeps=True)


def _dlmc(
    rng_key: PRNGKey,
    state: SiteState,
    view: View,
    step_size: float | Array,
    balancing: str = "sqrt",
) -> tuple[SiteState, SiteInfo]:
    """Discrete Langevin Monte Carlo (Sun, Dai, Dai, Zhou and Schuurmans, 2023).

    Each site follows a continuous-time chain of its own for a time, with locally balanced rates of
    the changes that a gradient predicts, and all sites are accepted or rejected together.
    """

    def logits(x: Array, guide: Logits) -> Logits:
        """Log probabilities nu_k (1 - exp(-t g_k / nu_k)) of other values, and of staying.

        Here g_k is the rate of a change to k, nu_k the probability of k given the other sites, and
        t the step size. For two values this is the transition of the chain whose limit is nu.
        """
        time = jnp.asarray(step_size, x.dtype)
        log_nu, log_rate = jax.nn.log_softmax(guide, axis=1), BALANCING[balancing](guide)
        log_scale = jnp.where(guide > -jnp.inf, log_rate - log_nu, -jnp.inf)
        move = log_nu + jnp.log(-jnp.expm1(-time * jnp.exp(log_scale)))
        is_held = _held(view.space, x)
        moved = jnp.sum(jnp.where(is_held, 0, jnp.exp(move)), axis=1, keepdims=True)
        # The exact value is at least nu; the rounded difference may be less.
        stay = jnp.maximum(jnp.log(jnp.maximum(1 - moved, 0)), log_nu)
        return jnp.where(is_held, stay, move)

    return everywhere(rng_key, state, view, logits)


def _check_dlmc(step_size: float | Array, balancing: str = "sqrt") -> None:
    check_number("step_size", step_size, above=0.0)
    check_balancing(balancing)


dlmc = SiteAlgorithm("dlmc", "gradient", _dlmc, _check_dlmc, sweeps=True)


def _block_gibbs(
    rng_key: PRNGKey, state: TurnState, view: View, graph: ArrayLike
) -> tuple[TurnState, SiteInfo]:
    """The Gibbs sampler of coloured blocks: sites that a graph does not join, drawn at once."""
    space, (x, local, block) = view.space, state
    colours = colouring(graph, space.num_sites(x))
    in_block = jnp.asarray(colours)[:, None] == block
    logits = lambda x, guide: jnp.where(in_block | _held(space, x), guide, -jnp.inf)
    # The sites of a block are independent given the rest, so that the correction accepts.
    new, info = everywhere(rng_key, SiteState(x, local), view, logits)
    return TurnState(*new, (block + 1) % (1 + max(colours))), info


def _held(space: Space, x: Array) -> Bool[Array, "site value"]:
    return jnp.arange(space.num_values)[None] == space.labels(x)[:, None]


def colouring(graph: ArrayLike, num_sites: int) -> Int[np.ndarray, " site"]:
    """A colour for each site: the first one that no coloured neighbour has."""
    edges = _edges(graph)
    if edges.max() >= num_sites:
        raise ValueError(f"graph must join sites below {num_sites}, got {edges.max()}")
    neighbours: list[list[int]] = [[] for _ in range(num_sites)]
    for one, other in edges:
        neighbours[one].append(other)
        neighbours[other].append(one)
    colours = np.full(num_sites, -1)
    for site in range(num_sites):
        taken = {*colours[neighbours[site]]}
        colours[site] = next(c for c in range(num_sites) if c not in taken)
    return colours


def _edges(graph: ArrayLike) -> Int[np.ndarray, "edge 2"]:
    numbers = as_numbers("graph", graph)
    is_pairs = numbers.ndim == 2 and numbers.shape[1] == 2 and numbers.size
    if not is_pairs or np.any(numbers != np.round(numbers)) or numbers.min() < 0:
        raise ValueError(
            f"graph must be pairs of site numbers, (edge, 2), not empty, got {short(graph)}"
        )
    if np.any(numbers[:, 0] == numbers[:, 1]):
        raise ValueError("graph must join different sites, counted from 0")
    return numbers.astype(int)


def _check_graph(graph: ArrayLike) -> None:
    _edges(graph)


block_gibbs = SiteAlgorithm("block_gibbs", "gradient", _block_gibbs, _check_graph, first_turn)
