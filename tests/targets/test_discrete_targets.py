"""Log densities against their formulas, differences against evaluations, sums against tables."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

import srmc
from srmc.kernels.discrete.sites import Sites

T = srmc.targets
BUILDS = {
    "bernoulli": T.bernoulli,
    "ising": lambda: T.ising(T.lattice(3, 3), np.linspace(-0.5, 0.5, 18), np.linspace(-1, 1, 9)),
    "ising-dense": lambda: T.ising([[0, 1], [0, 2], [1, 2], [2, 3]], [0.5, -0.3, 0.2, 0.1]),
    "potts": lambda: T.potts(T.lattice(2, 3), 3, 0.4, [0.1, 0.0, -0.2]),
    "rbm": lambda: T.rbm(num_visible=6, num_hidden=4, scale=0.8, visible_bias=0.3),
    "factorial_hmm": lambda: T.factorial_hmm(4, 2),
}


def states_and_changes(target):
    """Random states, and the changes of the log density at all their neighbours, evaluated."""
    like = target.position.astype(float)
    x = jax.vmap(lambda key: target.space.random(key, like))(jax.random.split(jax.random.key(0), 5))
    plain = Sites(target.logdensity_fn, target.space, "exact", "gibbs")
    return x, jax.vmap(lambda x: plain.look(x).guide)(x)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", [name for name in BUILDS if name != "factorial_hmm"])
def test_supplied_differences_are_exact(name):
    target = BUILDS[name]()
    x, expected = states_and_changes(target)
    given = Sites(target.logdensity_fn, target.space, "exact", "gibbs", target.differences)
    found = jax.vmap(lambda x: given.look(x).guide)(x)
    np.testing.assert_allclose(found, expected, atol=1e-10)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", ["bernoulli", "ising", "ising-dense", "potts"])
def test_gradients_give_the_differences_of_targets_that_are_linear_in_each_site(name):
    target = BUILDS[name]()
    x, expected = states_and_changes(target)
    linear = Sites(target.logdensity_fn, target.space, "gradient")
    slopes = jax.vmap(lambda x: linear.look(x, with_feature=False).guide)(x)
    np.testing.assert_allclose(slopes, expected, atol=1e-10)


@pytest.mark.parametrize("sides", [(2, 2), (3, 4)])  # by a matrix, and by a table of neighbours
def test_the_ising_model_is_what_it_says(sides):
    edges = T.lattice(*sides)
    assert len(edges) == {(2, 2): 4, (3, 4): 24}[sides]  # each pair once
    rng = np.random.default_rng(0)
    coupling, field = rng.normal(size=len(edges)), rng.normal(size=np.prod(sides))
    target = T.ising(edges, coupling, field)
    for spins in rng.choice([-1, 1], size=(16, len(field))):
        expected = coupling @ (spins[edges[:, 0]] * spins[edges[:, 1]]) + field @ spins
        value = float(target.logdensity_fn(jnp.asarray((spins + 1) / 2)))
        assert value == pytest.approx(expected, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("sides", [(2, 2), (3, 4)])
def test_the_potts_model_is_what_it_says(sides):
    edges = T.lattice(*sides)
    rng = np.random.default_rng(0)
    coupling, field = rng.normal(size=len(edges)), rng.normal(size=(np.prod(sides), 3))
    target = T.potts(edges, 3, coupling, field)
    for x in rng.integers(3, size=(16, len(field))):
        expected = coupling @ (x[edges[:, 0]] == x[edges[:, 1]]) + field[np.arange(len(x)), x].sum()
        value = float(target.logdensity_fn(target.space.as_state(x)))
        assert value == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_the_rbm_sums_over_its_hidden_units():
    rng = np.random.default_rng(0)
    w, b, c = rng.normal(size=(3, 5)), rng.normal(size=5), rng.normal(size=3)
    target = T.rbm(w, b, c)
    hidden = np.array(list(itertools.product([0, 1], repeat=3)))
    for v in rng.integers(2, size=(8, 5)):
        expected = b @ v + logsumexp(hidden @ (c + w @ v))
        value = float(target.logdensity_fn(jnp.asarray(v, float)))
        assert value == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_tables_are_normalised_and_have_the_moments():
    target = BUILDS["potts"]()
    table = target.table
    assert table.states.shape == (3**6, 6, 3)
    assert np.exp(table.log_probability).sum() == pytest.approx(1)
    mean = np.tensordot(np.exp(table.log_probability), table.states, 1)
    np.testing.assert_allclose(target.moments.mean, mean, atol=1e-12)
    np.testing.assert_allclose(target.moments.variance, mean * (1 - mean), atol=1e-12)
    bernoulli = T.bernoulli()
    np.testing.assert_allclose(
        np.exp(bernoulli.table.log_probability) @ bernoulli.table.states, bernoulli.moments.mean
    )
    np.testing.assert_allclose(
        target.second_moments, np.einsum("n,ni,nj->ij", *_flat(table)), atol=1e-12
    )
    assert T.ising(T.lattice(6, 6)).moments is None
    with pytest.raises(ValueError, match="at most 2"):
        T.ising(T.lattice(5, 5)).table  # noqa: B018
    with pytest.raises(ValueError, match="target must be discrete"):
        T.banana().table  # noqa: B018
    with pytest.raises(ValueError, match="target must be discrete"):
        T.banana().second_moments  # noqa: B018


def _flat(table):
    flat = table.states.reshape(len(table.states), -1)
    return np.exp(table.log_probability), flat, flat


def test_an_equinox_module_makes_an_energy_based_model():
    eqx = pytest.importorskip("equinox")
    network = eqx.nn.MLP(4, 1, 8, 1, activation=jnp.tanh, key=jax.random.key(0))
    target = T.ebm(network, 4)
    x = jnp.array([1.0, 0, 1, 1])
    assert float(target.logdensity_fn(x)) == pytest.approx(-float(network(x)[0]), rel=1e-5)
    assert target.moments.mean.shape == (4,)
    result = srmc.sample(target, num_samples=200, num_warmup=100, progress=False)
    assert np.abs(result.draws["x"].mean(axis=(0, 1)) - target.moments.mean).max() < 0.1


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: T.ising([[0, 0]]), "graph must join different sites"),
        (lambda: T.ising([0, 1]), "graph must be pairs of site numbers"),
        (lambda: T.ising(coupling=np.nan), "coupling must be finite"),
        (lambda: T.bernoulli([0.5, 1.0]), "probabilities must be numbers in"),
        (lambda: T.rbm(np.ones(3)), "weights must have shape"),
        (lambda: T.potts(num_values=1), "num_values must be >= 2"),
    ],
)
def test_bad_targets_are_named(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("scale", [0.05, 3.0])  # by a series, and by products
def test_changes_of_the_rbm_are_those_of_its_log_density(scale):
    target = T.rbm(num_visible=7, num_hidden=30, scale=scale, visible_bias=0.2, hidden_bias=-0.3)
    x = target.space.random(jax.random.key(0), jnp.zeros(7))
    flips = jnp.abs(x[None] - jnp.eye(7))
    exact = jax.vmap(target.logdensity_fn)(flips) - target.logdensity_fn(x)
    np.testing.assert_allclose(target.differences(x), exact, rtol=1e-10, atol=1e-12)
