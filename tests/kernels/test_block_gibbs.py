"""Blocks of sites that a graph does not join, drawn at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc
from enumerated import ALPHA, SPACES, normalised, observed
from srmc.kernels.discrete.all_sites import colouring

CHAIN = np.array([[0, 1], [1, 2]])
TABLE = np.random.default_rng(2).normal(size=(2, 3, 3))


def linear(x):
    return x[0] @ TABLE[0] @ x[1] + x[1] @ TABLE[1] @ x[2]


TARGETS = {  # the space, the log density, the shape, the graph, and whether that is all it couples
    "ising": (srmc.Binary(), lambda x: 1.3 * x[0] * x[1] - x[1] * x[2] + 0.4 * x[2], (3,), True),
    "potts": (srmc.Categorical(3), linear, (3,), True),
    "not linear": (*SPACES["binary"][:2], (3,), False),
    "more coupled": (srmc.Binary(), lambda x: x[0] * x[1] - 0.9 * x[0] * x[2], (3,), False),
    "ordinal": (srmc.Ordinal(3), lambda x: jnp.cos(x[0] * x[1]) - 0.4 * x[1] * x[2], (3,), False),
}
OPTIONS = {
    "plain": {"alpha": 0.0},
    "sites": {"alpha": ALPHA, "feature": "gibbs", "bend": "sites"},
    "feature": {"alpha": ALPHA, "feature": "gibbs", "bend": "feature"},
}


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("bend", OPTIONS)
@pytest.mark.parametrize("name", TARGETS)
def test_each_block_leaves_the_surrogate_invariant(name, bend):
    space, logdensity_fn, shape, is_whole = TARGETS[name]
    options = OPTIONS[bend] | {"gain": srmc.gain(scale=0.0)}
    algorithm = srmc.block_gibbs(logdensity_fn, space, CHAIN, **options)
    states = jnp.asarray(space.all_states(shape))
    theta = jnp.asarray(0.4 * np.random.default_rng(5).normal(size=states.shape[1:]))
    to, log_q, rate, _, phi = observed(algorithm, space, states, theta, 3000)
    by = {"plain": 0 * phi[:, 0], "sites": -np.asarray(states), "feature": phi[:, 0]}[bend]
    more = np.sum(np.asarray(theta) * by, axis=tuple(range(1, by.ndim)))
    pi = normalised(np.asarray(jax.vmap(logdensity_fn)(states)) - ALPHA * more)
    proposals, matrix = np.zeros((2, len(pi), len(pi)))
    rows = np.broadcast_to(np.arange(len(pi))[:, None], to.shape)
    proposals[rows, to] = np.exp(log_q)
    matrix[rows, to] = np.exp(log_q) * rate
    np.testing.assert_allclose(proposals.sum(axis=1), 1, atol=1e-10)  # all of them were seen
    matrix += np.diag(1 - matrix.sum(axis=1))
    np.testing.assert_allclose(pi @ matrix, pi, atol=1e-12)
    if is_whole and bend != "feature":
        np.testing.assert_allclose(rate, 1, atol=1e-12)
    else:
        assert np.min(rate) < 1 or bend == "plain"


def test_blocks_come_in_turn_and_cost_one_gradient_each():
    graph = srmc.targets.lattice(6, 6)
    target = srmc.targets.ising(graph, 0.3, 0.1)
    algorithm = srmc.block_gibbs(target.logdensity_fn, target.space, graph, alpha=0.0)
    one = lambda state, key: algorithm.step(key, state)
    keys = jax.random.split(jax.random.key(0), 40)
    _, info = jax.jit(lambda x: jax.lax.scan(one, algorithm.init(x), keys))(target.position)
    x = info.inner_info.proposal
    changed = np.asarray(x[1:] != x[:-1])
    even = np.add(*np.divmod(np.arange(36), 6)) % 2 == 0
    assert not np.any(changed[0::2] & even[None])  # the second step, and every other
    assert not np.any(changed[1::2] & ~even[None])
    assert np.all(np.any(changed, axis=0))
    np.testing.assert_array_equal(info.gradients, 1)
    np.testing.assert_allclose(info.inner_info.acceptance_rate, 1, atol=1e-4)


def test_neighbours_have_different_colours():
    edges = np.random.default_rng(0).integers(0, 30, size=(80, 2))
    edges = edges[edges[:, 0] != edges[:, 1]]
    colours = colouring(edges, 31)
    assert np.all(colours[edges[:, 0]] != colours[edges[:, 1]])
    assert colours[30] == 0
    assert set(colouring(srmc.targets.lattice(50, 50), 2500)) == {0, 1}
