"""Discrete targets on graphs: independent sites, and the Ising and Potts models."""

from collections.abc import Callable
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from srmc._checks import as_numbers, check_count, check_flag, short
from srmc.kernels.discrete.changes import SiteDifferences
from srmc.kernels.discrete.space import Binary, Categorical, Space
from srmc.targets._base import Target, enumerated, exact, spread
from srmc.types import Array, Float, Int, LogDensity, PRNGKey, Scalar

State: TypeAlias = Float[Array, "site ..."]
ValueAndSlope: TypeAlias = Callable[[State], tuple[Scalar, State]]


def lattice(rows: int, columns: int, periodic: bool = True) -> Int[np.ndarray, "edge 2"]:
    """Return the edges of a rectangular lattice, whose sites are numbered row by row.

    >>> len(lattice(4, 4)), len(lattice(4, 4, periodic=False))
    (32, 24)
    """
    check_count("rows", rows)
    check_count("columns", columns)
    check_flag("periodic", periodic)
    site = np.arange(rows * columns).reshape(rows, columns)
    right, down = np.roll(site, -1, axis=1), np.roll(site, -1, axis=0)
    if not periodic:
        right[:, -1], down[-1] = site[:, -1], site[-1]
    edges = np.stack([np.tile(site.ravel(), 2), np.concatenate([right.ravel(), down.ravel()])], 1)
    edges = edges[edges[:, 0] != edges[:, 1]]
    return np.unique(np.sort(edges, axis=1), axis=0)


def bernoulli(probabilities: ArrayLike = (0.1, 0.3, 0.5, 0.9)) -> Target:
    """Independent binary sites, each equal to 1 with its own probability."""
    p = np.atleast_1d(as_numbers("probabilities", probabilities))
    if p.ndim != 1 or not p.size or not np.all((p > 0) & (p < 1)):
        raise ValueError(f"probabilities must be numbers in (0, 1), got {probabilities!r}")
    logits = np.log(p / (1 - p))

    def sample(key: PRNGKey) -> State:
        return jax.random.bernoulli(key, p.astype(np.float32)).astype(float)

    return Target(
        "bernoulli",
        f"{len(p)} independent sites",
        lambda x: jnp.vdot(logits.astype(x.dtype), x),
        jnp.zeros(len(p)),
        exact(p, p * (1 - p)),
        sample,
        Binary(),
        lambda x: logits.astype(x.dtype) * (1 - 2 * x),
    )


def ising(
    graph: ArrayLike | None = None, coupling: ArrayLike = 0.3, field: ArrayLike = 0.1
) -> Target:
    """The Ising model on a graph.

    log pi(x) = sum_edges J_ij s_i s_j + sum_i b_i s_i, with x in {0, 1} and spins s = 2 x - 1.
    `graph` is an array of edges, (edge, 2), by default `lattice(4, 4)`. `coupling` J is a number or
    one number per edge, and `field` b a number or one number per site.
    """
    edges, couplings, fields = _graph(graph, coupling, field)
    sites = len(fields)
    neighbour_sum, one_sum = _neighbour_sum(edges, couplings, sites)

    def value_and_slope(x: State) -> tuple[Scalar, State]:
        spins, b = 2 * x - 1, fields.astype(x.dtype)
        pull = neighbour_sum(spins)
        return jnp.vdot(spins, pull / 2 + b), 2 * (pull + b)

    def slope_at(x: State, site: Int[Array, ""]) -> State:
        return 2 * (one_sum(2 * x - 1, site) + jnp.asarray(fields.astype(x.dtype))[site])

    return enumerated(
        Target(
            "ising",
            f"Ising model, {sites} sites, {len(edges)} edges",
            _with_slope(value_and_slope),
            jnp.zeros(sites),
            space=Binary(),
            differences=_linear(Binary(), value_and_slope, slope_at),
        )
    )


def potts(
    graph: ArrayLike | None = None,
    num_values: int = 3,
    coupling: ArrayLike = 0.5,
    field: ArrayLike = 0.0,
) -> Target:
    """The Potts model on a graph, with `num_values` values per site.

    log pi(x) = sum_edges J_ij [x_i = x_j] + sum_i b_i·x_i, with one-hot rows x_i. `graph` and
    `coupling` J are as for `ising`; `field` b is a number, one row, or one row per site.
    """
    space = Categorical(num_values)
    edges, couplings, _ = _graph(graph, coupling, 0.0)
    sites = int(edges.max()) + 1
    rows = spread("field", field, (sites, num_values))
    neighbour_sum, one_sum = _neighbour_sum(edges, couplings, sites)

    def value_and_slope(x: State) -> tuple[Scalar, State]:
        pull, b = neighbour_sum(x), rows.astype(x.dtype)
        return jnp.vdot(x, pull / 2 + b), pull + b

    def slope_at(x: State, site: Int[Array, ""]) -> State:
        return one_sum(x, site) + jnp.asarray(rows.astype(x.dtype))[site]

    return enumerated(
        Target(
            "potts",
            f"Potts model, {sites} sites with {num_values} values, {len(edges)} edges",
            _with_slope(value_and_slope),
            jnp.eye(num_values)[jnp.zeros(sites, int)],
            space=space,
            differences=_linear(space, value_and_slope, slope_at),
        )
    )


def _graph(
    graph: ArrayLike | None, coupling: ArrayLike, field: ArrayLike
) -> tuple[Int[np.ndarray, "edge 2"], Float[np.ndarray, " edge"], Float[np.ndarray, " site"]]:
    """Check a graph, and return its edges with one coupling per edge and one field per site."""
    edges = np.asarray(lattice(4, 4) if graph is None else graph)
    is_pairs = edges.ndim == 2 and edges.shape[1] == 2 and len(edges) > 0
    if not (is_pairs and np.issubdtype(edges.dtype, np.integer)):
        raise ValueError(
            f"graph must be pairs of site numbers, (edge, 2), not empty, got {short(graph)}"
        )
    if edges.min() < 0 or np.any(edges[:, 0] == edges[:, 1]):
        raise ValueError("graph must join different sites, counted from 0")
    sites = int(edges.max()) + 1
    couplings = spread("coupling", coupling, (len(edges),))
    return edges, couplings, spread("field", field, (sites,))


def _neighbour_sum(
    edges: Int[np.ndarray, "edge 2"], coupling: Float[np.ndarray, " edge"], sites: int
) -> tuple[Callable[[State], State], Callable[[State, Int[Array, ""]], State]]:
    """The map s -> sum_j J_ij s_j, for all i and for one of them.

    By a table of neighbours, or by a matrix if they are many.
    """
    both = np.concatenate([edges, edges[:, ::-1]])
    weight = np.concatenate([coupling, coupling])
    order = np.argsort(both[:, 0], kind="stable")
    both, weight = both[order], weight[order]
    degree = np.bincount(both[:, 0], minlength=sites)
    if 4 * int(np.max(degree)) > sites:
        matrix = np.zeros((sites, sites))
        np.add.at(matrix, (both[:, 0], both[:, 1]), weight)
        couple = lambda s: jnp.asarray(matrix.astype(s.dtype))
        return lambda s: couple(s) @ s, lambda s, site: couple(s)[site] @ s
    rank = np.arange(len(both)) - np.repeat(np.cumsum(degree) - degree, degree)
    neighbour = np.zeros((sites, int(np.max(degree))), np.int32)
    table = np.zeros((sites, int(np.max(degree))))
    neighbour[both[:, 0], rank], table[both[:, 0], rank] = both[:, 1], weight

    def apply(s: State) -> State:
        weights = jnp.asarray(table.astype(s.dtype)).reshape(table.shape + (1,) * (s.ndim - 1))
        terms = (weights[:, k] * s[neighbour[:, k]] for k in range(table.shape[1]))
        return sum(terms, start=jnp.zeros_like(s))

    def at(s: State, site: Int[Array, ""]) -> State:
        return jnp.asarray(table.astype(s.dtype))[site] @ s[jnp.asarray(neighbour)[site]]

    return apply, at


def _with_slope(value_and_slope: ValueAndSlope) -> LogDensity:
    """The log density with an explicit gradient; JAX would turn the gather into a slow scatter."""

    @jax.custom_jvp
    def function(x: State) -> Scalar:
        return value_and_slope(x)[0]

    @function.defjvp
    def jvp(primals: tuple[State], tangents: tuple[State]) -> tuple[Scalar, Scalar]:
        value, slope = value_and_slope(primals[0])
        return value, jnp.vdot(slope, tangents[0])

    return function


def _linear(
    space: Space, value_and_slope: ValueAndSlope, slope_at: Callable[[State, Int[Array, ""]], State]
) -> SiteDifferences:
    """One-site changes of a log density that is linear in each site.

    Those of one site take its neighbours alone, so that nothing has to be kept of a state.
    """
    return SiteDifferences(
        lambda x: space.linear(x, value_and_slope(x)[1]),
        lambda x: (),
        lambda kept, x, site: space.linear(space.rows(x)[site], slope_at(x, site))[0],
        lambda kept, x, site, value: kept,
    )
