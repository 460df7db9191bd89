import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc
from srmc.sample.tune import measure
from srmc.sample.tune.measure import settings
from srmc.sample.tune.tuner import is_on
from srmc_studies.bench import cases
from srmc_studies.bench.study import study

measured = jax.jit(measure.measure, static_argnums=2, static_argnames="together")


def gaussian_draws(chains, length, dim, seed=0):
    """Independent draws of a correlated Gaussian, and their scores."""
    i = np.arange(dim)
    covariance = 0.9 ** np.abs(i[:, None] - i)
    rng = np.random.default_rng(seed)
    draws = rng.normal(size=(chains, length, dim)) @ np.linalg.cholesky(covariance).T
    return jnp.asarray(draws), jnp.asarray(-draws @ np.linalg.inv(covariance)), covariance


@pytest.mark.usefixtures("x64")
def test_a_gaussian_is_measured_as_what_it_is():
    draws, scores, covariance = gaussian_draws(4, 4000, 5)
    loop = measured(draws, scores, 1000, together=4)
    np.testing.assert_allclose(loop.root @ loop.root.T, covariance, atol=0.1)
    assert float(loop.top_eigenvalue) == pytest.approx(1, abs=0.1)
    assert np.all(np.asarray(loop.time) < 1.6)
    assert np.all(np.asarray(loop.explained) > 0.95)
    np.testing.assert_allclose(loop.factors[1], 1, atol=0.1)
    np.testing.assert_allclose(loop.factors[0], 0.5, atol=0.1)
    alone = measured(draws, scores, 1000)
    assert float(loop.rate) == pytest.approx(2 * float(alone.rate), rel=1e-6)


@pytest.mark.usefixtures("x64")
def test_few_draws_of_a_gaussian_tell_its_covariance():
    """A hundred and fifty draws of an autoregression in a hundred dimensions, seen in part."""
    draws, scores, covariance = gaussian_draws(1, 150, 100)
    loop = measured(draws + 0.3, scores, 1000)
    found = np.asarray(loop.root @ loop.root.T)
    eigenvalues = np.linalg.eigvals(found @ np.linalg.inv(covariance))
    assert np.all(eigenvalues.real > 0.2)
    assert np.max(eigenvalues.real) < 1.2


@pytest.mark.usefixtures("x64")
def test_large_dimensions_are_diagonal():
    rng = np.random.default_rng(0)
    scale = np.linspace(0.5, 2, 300)
    draws = jnp.asarray(rng.normal(size=(2, 400, 300)) * scale)
    loop = measured(draws, -draws / scale[None, None] ** 2, 1000)
    assert loop.root.shape == (300,)
    assert [factor.shape for factor in loop.factors] == [(300,), (300,)]
    np.testing.assert_allclose(loop.root**2, scale**2, rtol=0.35)


def turning_draws(retained, length, seed=0):
    """Autoregressions of a white Gaussian that keep so much a step, in rotated coordinates."""
    rng = np.random.default_rng(seed)
    retained = np.asarray(retained)
    modes = np.linalg.qr(rng.normal(size=(len(retained),) * 2))[0]
    y = rng.normal(size=(2, len(retained)))
    draws = []
    for _ in range(length):
        y = retained * y + np.sqrt(1 - retained**2) * rng.normal(size=y.shape)
        draws.append(y @ modes.T)
    return jnp.asarray(np.stack(draws, axis=1)), modes


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("retained", [[0.99, 0.5, 0.4, 0.3], [0.6, 0.5, 0.4, 0.3]])
def test_coordinates_are_turned_to_slow_modes_only(retained):
    draws, modes = turning_draws(retained, 4000)
    loop = measured(draws, -draws, 10_000)
    aligned = np.max(np.abs(modes.T @ np.asarray(loop.root)), axis=0)
    assert np.all(aligned > 0.9) == (max(retained) > 0.9), aligned


@pytest.mark.usefixtures("x64")
def test_coordinates_are_coupled_where_that_explains_covariances():
    draws, scores, _ = gaussian_draws(2, 1000, 4)
    linear, _ = measure.select(measured(draws, scores, 1000)).factors
    assert np.all(np.asarray(linear) > 0)

    rng = np.random.default_rng(0)  # Neal's funnel
    v = 3 * rng.normal(size=(2, 1000, 1))
    x = np.exp(v / 2) * rng.normal(size=(2, 1000, 3))
    slope = -v / 9 + np.sum(np.exp(-v) * x**2 - 1, axis=2, keepdims=True) / 2
    draws, scores = (
        jnp.asarray(np.concatenate(z, axis=2)) for z in ((v, x), (slope, -np.exp(-v) * x))
    )
    linear, _ = measure.select(measured(draws, scores, 1000)).factors
    assert np.all((np.asarray(linear) > 0) == np.eye(4, dtype=bool))


@pytest.mark.usefixtures("x64")
def test_scores_of_a_wall_are_told_from_chance():
    """Of a Gaussian no chain in 200 is taken for off; of half of one each is."""
    offset = jax.jit(lambda x: measure.measure(x, -x, 1000).offset)
    whole = [turning_draws([0.85, 0.5, 0.3], 500, seed)[0] for seed in range(200)]
    assert np.all(jax.lax.map(offset, jnp.stack(whole)) <= 1)
    half = np.abs(np.random.default_rng(0).normal(size=(20, 2, 500, 3)))
    assert np.all(jax.lax.map(offset, jnp.asarray(half)) > 1)


def test_scores_that_explain_nothing_leave_repellence_off():
    rng = np.random.default_rng(0)
    draws, scores = (jnp.asarray(rng.normal(size=(2, 500, 3))) for _ in range(2))
    loop = measure.select(measured(draws, scores, 1000))
    assert not bool(is_on(loop))


def test_draws_that_overflowed_leave_repellence_off():
    draws = jnp.ones((2, 200, 3)).at[0, 3, 1].set(jnp.inf)
    loop = measured(draws, draws, 1000)
    assert not bool(is_on(loop))
    surrogate = settings(loop, 1000)["surrogate"]
    weights = surrogate.precondition(jax.tree.map(jnp.ones_like, surrogate.field.init(draws[0, 0])))
    np.testing.assert_array_equal(surrogate.field.flow(jnp.ones(3), weights), 1)


def test_auto_beats_the_plain_kernel_on_a_logistic_posterior():
    """A short study: the errors of both moments fall."""
    case = cases.CASES["mala"]._replace(num_warmup=4000, num_samples=10_000)
    row = study(srmc.targets.logistic(50, 4), case, replicates=24, beside=False)
    assert row["errors"]["repelled"]["mean"]["ratio"] < 0.4
    assert row["errors"]["repelled"]["second"]["ratio"] < 0.7
    assert row["non_finite_results"] == 0
