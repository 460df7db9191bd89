"""Weights from stored scores."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc

SHAPES = np.array([0.8, 2.0, 5.0])


def skewed(seed, length=2000):
    """Draws of log-gamma variables, and their scores."""
    x = np.log(np.random.default_rng(seed).gamma(SHAPES, size=(length, 3)))
    return x, SHAPES - np.exp(x)


def test_the_weighted_mean_of_every_feature_is_zero():
    x, s = skewed(0)
    weights = srmc.reweight(x, s)
    assert weights.shape == (2000,)
    assert np.all(weights > 0)
    assert np.sum(weights) == pytest.approx(1)
    np.testing.assert_allclose(weights @ s, 0, atol=1e-8)
    np.testing.assert_allclose(1 + weights @ (x * s), 0, atol=0.02)  # nearly its own coordinates
    assert 1 / np.sum(weights**2) > 1000


def test_means_covariances_and_quantiles_come_closer():
    exact = np.log(np.random.default_rng(99).gamma(SHAPES, size=(4_000_000, 3)))
    mean, covariance = exact.mean(axis=0), np.cov(exact.T)
    quantiles = np.quantile(exact, (0.05, 0.5, 0.95), axis=0)
    plain, better = np.zeros(3), np.zeros(3)
    for seed in range(24):
        x, s = skewed(seed)
        weights = srmc.reweight(x, s)
        for total, w in ((plain, np.full(len(x), 1 / len(x))), (better, weights)):
            found = srmc.metrics.weighted_quantile(x, w, (0.05, 0.5, 0.95))
            total += [
                np.sum((srmc.metrics.weighted_mean(x, w) - mean) ** 2),
                np.sum((srmc.metrics.weighted_covariance(x, w) - covariance) ** 2),
                np.sum((found - quantiles) ** 2),
            ]
    assert np.all(better < np.array([0.2, 0.3, 0.6]) * plain), better / plain


def test_the_effective_size_stays_above_its_share():
    """More features than the draws can carry."""
    features = np.random.default_rng(0).normal(size=(100, 60)) + 0.5
    for keep in (0.5, 0.9):
        with pytest.warns(UserWarning, match="of the mean features is left"):
            weights = srmc.reweight(None, None, features, keep=keep)
        assert 1 / np.sum(weights**2) >= keep * 100


def test_gibbs_residuals_of_a_discrete_chain():
    """Means of sites come closer, from features of the history alone."""
    target = srmc.targets.ising(srmc.targets.lattice(3, 3), 0.2, 0.15)
    algorithm = srmc.gwg(target.logdensity_fn, target.space, alpha=0.0)
    feature = srmc.kernels.discrete.sites.Sites(target.logdensity_fn, target.space).look

    @jax.jit
    def chain(key):
        start = algorithm.init(target.space.random(key, target.position))
        step = lambda state, k: (lambda s: (s, s.position))(algorithm.step(k, state)[0])
        x = jax.lax.scan(step, start, jax.random.split(key, 2000))[1]
        return x, jax.vmap(lambda y: feature(y).feature)(x)

    x, phi = jax.vmap(chain)(jax.random.split(jax.random.key(0), 16))
    mean = np.ravel(target.moments.mean)
    x, phi = (np.asarray(a, float).reshape(16, 2000, -1) for a in (x, phi))
    plain = np.mean((x.mean(axis=1) - mean) ** 2)
    better = np.mean(
        [
            (srmc.metrics.weighted_mean(a, srmc.reweight(None, None, b)) - mean) ** 2
            for a, b in zip(x, phi, strict=True)
        ]
    )
    assert better < 0.3 * plain


def test_chains_keep_their_axes():
    x, s = (a.reshape(4, 500, 3) for a in skewed(0))
    weights = srmc.reweight(x, s)
    assert weights.shape == (4, 500)
    np.testing.assert_allclose(weights.ravel(), srmc.reweight(*skewed(0)))
    assert srmc.metrics.weighted_mean(x, weights).shape == (3,)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, s: srmc.reweight(x, s[:, :2]), "scores must have the shape of draws"),
        (lambda x, s: srmc.reweight(x[0], s[0]), "draws must be floating-point"),
        (lambda x, s: srmc.reweight(x.reshape(2, 50, 3), s), "scores must have the shape"),
        (lambda x, s: srmc.reweight(x, s * np.nan), "scores must be finite"),
        (lambda x, s: srmc.reweight(x, s, keep=1.5), "keep must be"),
        (lambda x, s: srmc.metrics.weighted_mean(x, np.ones(3)), "weights must be"),
        (lambda x, s: srmc.metrics.weighted_mean(x, -np.ones(100)), "weights must be finite"),
        (lambda x, s: srmc.metrics.weighted_covariance(x[..., None], np.ones(100)), "draws must"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(*skewed(0, 100))


def test_jax_arrays_are_taken():
    x, s = (jnp.asarray(a) for a in skewed(0, 2000))
    assert srmc.reweight(x, s).shape == (2000,)
