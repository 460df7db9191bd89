"""Discrete targets with pairwise interactions on a graph: Bernoulli, Ising, Potts."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from srmc._checks import check_count, check_number
from srmc.discrete.space import Binary, Categorical, Space
from srmc.targets._base import Target, enumerated, exact


def lattice(rows: int, columns: int, periodic: bool = True) -> np.ndarray:
    """The edges of a rectangular lattice, (edge, 2), its sites counted row by row.

    >>> len(lattice(4, 4)), len(lattice(4, 4, periodic=False))
    (32, 24)
    """
    check_count("rows", rows)
    check_count("columns", columns)
    site = np.arange(rows * columns).reshape(rows, columns)
    right, down = np.roll(site, -1, axis=1), np.roll(site, -1, axis=0)
    if not periodic:
        right[:, -1], down[-1] = site[:, -1], site[-1]
    edges = np.stack([np.tile(site.ravel(), 2), np.concatenate([right.ravel(), down.ravel()])], 1)
    edges = edges[edges[:, 0] != edges[:, 1]]
    return np.unique(np.sort(edges, axis=1), axis=0)


def bernoulli(probabilities: Any = (0.1, 0.3, 0.5, 0.9)) -> Target:
    """Independent sites that are 1 with these probabilities."""
    p = np.atleast_1d(np.asarray(probabilities, float))
    if p.ndim != 1 or not np.all((p > 0) & (p < 1)):
        raise ValueError(f"probabilities must be numbers in (0, 1), got {probabilities!r}")
    logits = np.log(p / (1 - p))
    return Target(
        "bernoulli",
        f"{len(p)} independent sites",
        lambda x: jnp.vdot(logits.astype(x.dtype), x),
        jnp.zeros(len(p)),
        exact(p, p * (1 - p)),
        lambda key: jax.random.bernoulli(key, p.astype(np.float32)).astype(float),
        Binary(),
        lambda x: logits.astype(x.dtype) * (1 - 2 * x),
    )


def ising(graph: Any = None, coupling: Any = 0.3, field: Any = 0.1) -> Target:
    """log pi = sum_edges J_ij s_i s_j + sum_i b_i s_i with spins s = 2 x - 1, x in {0, 1}.

    `graph` is an array of edges, such as `lattice(4, 4)`, the default; `coupling` a number or one
    for each edge, `field` a number or one for each site.
    """
    edges, coupling, field = _graph(graph, coupling, field)
    sites = len(field)
    energy = _pairwise(edges, coupling, sites)

    def value_and_slope(x):
        spins, b = 2 * x - 1, field.astype(x.dtype)
        pull = energy(spins)
        return jnp.vdot(spins, pull / 2 + b), 2 * (pull + b)

    return enumerated(
        Target(
            "ising",
            f"Ising model, {sites} sites, {len(edges)} edges",
            _with_slope(value_and_slope),
            jnp.zeros(sites),
            space=Binary(),
            differences=_linear(Binary(), value_and_slope),
        )
    )


def potts(graph: Any = None, num_values: int = 3, coupling: Any = 0.5, field: Any = 0.0) -> Target:
    """log pi = sum_edges J_ij [x_i = x_j] + sum_i b_i·x_i on one-hot rows x_i.

    `graph` and `coupling` are as for `ising`; `field` is a number or a row for each site.
    """
    space = Categorical(num_values)
    edges, coupling, _ = _graph(graph, coupling, 0.0)
    sites = int(edges.max()) + 1
    rows = np.broadcast_to(np.asarray(field, float), (sites, num_values))
    energy = _pairwise(edges, coupling, sites)

    def value_and_slope(x):
        pull, b = energy(x), rows.astype(x.dtype)
        return jnp.vdot(x, pull / 2 + b), pull + b

    return enumerated(
        Target(
            "potts",
            f"Potts model, {sites} sites with {num_values} values, {len(edges)} edges",
            _with_slope(value_and_slope),
            jnp.eye(num_values)[jnp.zeros(sites, int)],
            space=space,
            differences=_linear(space, value_and_slope),
        )
    )


def _graph(graph, coupling, field):
    edges = np.asarray(lattice(4, 4) if graph is None else graph)
    if edges.ndim != 2 or edges.shape[1] != 2 or not np.issubdtype(edges.dtype, np.integer):
        raise ValueError(f"graph must be pairs of site numbers, (edge, 2), got {edges.shape}")
    if edges.min() < 0 or np.any(edges[:, 0] == edges[:, 1]):
        raise ValueError("graph must join different sites, counted from 0")
    check_number("coupling", coupling, scalar=False)
    check_number("field", field, scalar=False)
    sites = int(edges.max()) + 1
    return (
        edges,
        np.broadcast_to(np.asarray(coupling, float), (len(edges),)),
        np.broadcast_to(np.asarray(field, float), (sites,)),
    )


def _pairwise(edges: np.ndarray, coupling: np.ndarray, sites: int) -> Callable:
    """s -> sum_j J_ij s_j, by a table of neighbours, or a matrix where there are many."""
    both = np.concatenate([edges, edges[:, ::-1]])
    weight = np.concatenate([coupling, coupling])
    order = np.argsort(both[:, 0], kind="stable")
    both, weight = both[order], weight[order]
    degree = np.bincount(both[:, 0], minlength=sites)
    if 4 * degree.max() > sites:
        matrix = np.zeros((sites, sites))
        np.add.at(matrix, (both[:, 0], both[:, 1]), weight)
        return lambda s: matrix.astype(s.dtype) @ s
    rank = np.arange(len(both)) - np.repeat(np.cumsum(degree) - degree, degree)
    neighbour = np.zeros((sites, degree.max()), np.int32)
    table = np.zeros((sites, degree.max()))
    neighbour[both[:, 0], rank], table[both[:, 0], rank] = both[:, 1], weight

    def apply(s):
        weights = table.astype(s.dtype).reshape(table.shape + (1,) * (s.ndim - 1))
        return sum(weights[:, k] * s[neighbour[:, k]] for k in range(table.shape[1]))

    return apply


def _with_slope(value_and_slope: Callable) -> Callable:
    """A function with a gradient of its own, since that of a gather is a slow scatter."""

    @jax.custom_jvp
    def function(x):
        return value_and_slope(x)[0]

    @function.defjvp
    def jvp(primals, tangents):
        value, slope = value_and_slope(primals[0])
        return value, jnp.vdot(slope, tangents[0])

    return function


def _linear(space: Space, value_and_slope: Callable) -> Callable:
    """One-site changes of a function that is linear in each site."""
    return lambda x: space.linear(x, value_and_slope(x)[1])
