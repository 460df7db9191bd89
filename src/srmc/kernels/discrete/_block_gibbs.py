"""The Gibbs sampler of coloured blocks: sites that a graph does not join are drawn at once."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from srmc._checks import as_numbers, short
from srmc.kernels.discrete._dlp import everywhere
from srmc.kernels.discrete._sitewise import SiteAlgorithm, SiteInfo, SiteState, Transition
from srmc.kernels.discrete.space import Space
from srmc.kernels.discrete.view import Local, View
from srmc.types import Array, ArrayLike, Float, Int, PRNGKey


class BlockState(NamedTuple):
    """The position, what is known about the target there, and the block whose turn it is."""

    position: Array
    local: Local
    block: Int[Array, ""]


def init(position: Array, view: View) -> BlockState:
    """The state at a position, with the first block next."""
    return BlockState(position, view.look(position), jnp.zeros((), int))


def build_kernel() -> Transition:
    """The transition of `block_gibbs`."""

    def kernel(
        rng_key: PRNGKey, state: BlockState, view: View, graph: ArrayLike
    ) -> tuple[BlockState, SiteInfo]:
        space, (x, local, block) = view.space, state
        colours = colouring(graph, space.num_sites(x))
        in_block = jnp.asarray(colours)[:, None] == block
        logits = lambda x, guide: jnp.where(in_block | _held(space, x), guide, -jnp.inf)
        # Of sites that the graph does not join, each has its conditional distribution whatever
        # values the others take, so that the correction then accepts.
        new, info = everywhere(rng_key, SiteState(x, local), view, logits)
        return BlockState(*new, (block + 1) % (1 + max(colours))), info

    return kernel


def _held(space: Space, x: Array) -> Float[Array, "site value"]:
    return jnp.arange(space.num_values)[None] == space.labels(x)[:, None]


def colouring(graph: ArrayLike, num_sites: int) -> Int[np.ndarray, " site"]:
    """A colour for each site, by turns the first one that no neighbour has."""
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
    edges: np.ndarray = numbers.astype(int)
    return edges


def check(graph: ArrayLike) -> None:
    _edges(graph)


block_gibbs = SiteAlgorithm("block_gibbs", "gradient", build_kernel, check, init)
