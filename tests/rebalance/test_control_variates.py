import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc
from helpers import run
from srmc.sample.tune import Continuous


def gaussian_draws(rng, chains=2, length=200, dim=3):
    root = np.linalg.cholesky(0.5 ** np.abs(np.subtract.outer(np.arange(dim), np.arange(dim))))
    mean = np.arange(dim) + 1.0
    x = mean + rng.normal(size=(chains, length, dim)) @ root.T
    return x, -(x - mean) @ np.linalg.inv(root @ root.T), mean, root @ root.T


def test_first_order_is_exact_for_means_of_a_gaussian():
    x, s, mean, _ = gaussian_draws(np.random.default_rng(0))
    found = srmc.zv(x, s)
    np.testing.assert_allclose(found.mean, mean, atol=1e-10)
    assert np.max(found.error) < 1e-10 < np.min(found.plain_error)
    np.testing.assert_allclose(found.plain_mean, x.mean(axis=(0, 1)))
    alone = srmc.zv(x[0], s[0], values=x[0, :, 0])  # one chain
    np.testing.assert_allclose(alone.mean, mean[0], atol=1e-10)
    # chains that never moved have nothing to explain
    assert np.all(srmc.zv(np.ones((2, 50, 3)), np.zeros((2, 50, 3))).error == 0)


def test_second_order_is_exact_for_second_moments():
    x, s, mean, covariance = gaussian_draws(np.random.default_rng(1))
    found = srmc.zv(x, s, 2, values=x[..., :, None] * x[..., None, :])
    np.testing.assert_allclose(found.mean, covariance + np.outer(mean, mean), atol=1e-9)


def test_trees_and_functions_are_taken():
    x, _, mean, covariance = gaussian_draws(np.random.default_rng(2))
    precision = jnp.asarray(np.linalg.inv(covariance))
    tree = {"a": x[..., 0].astype("f"), "b": x[..., 1:].astype("f")}

    def logdensity(p):
        y = jnp.concatenate([p["a"][None], p["b"]]) - mean
        return -0.5 * y @ precision @ y

    found = srmc.zv(tree, jax.grad(logdensity), values=lambda p: {"sum": p["a"] + p["b"].sum()})
    assert found.mean["sum"].shape == ()
    assert found.mean["sum"] == pytest.approx(mean.sum(), abs=1e-5)
    assert srmc.zv(tree, jax.grad(logdensity)).mean["b"].shape == (2,)


@pytest.fixture(scope="module")
def mala_on_logistic():
    """Chains of 2,000 draws of tuned MALA, their scores, and the truth."""
    target = srmc.targets.logistic()
    keys = jax.random.split(jax.random.key(0), 3)
    mean, variance = target.moments[:2]
    starts = mean + jnp.sqrt(variance) * jax.random.normal(keys[0], (32, 10))
    tuner = Continuous("mala")
    warmup = tuner.adapt(target.logdensity_fn, keys[1], starts, 1000)
    algorithm = tuner.build(target.logdensity_fn, warmup.parameters, alpha=0.0)
    draws, _, _ = run(algorithm, keys[2], warmup.positions, 2000)
    scores = jax.jit(jax.vmap(jax.vmap(jax.grad(target.logdensity_fn))))(draws)
    return np.asarray(draws), np.asarray(scores), np.asarray(mean)


def test_errors_of_a_logistic_posterior_fall(mala_on_logistic):
    draws, scores, mean = mala_on_logistic
    for order, bound in ((1, 0.1), (2, 0.02)):
        found = [srmc.zv(x, s, order) for x, s in zip(draws, scores, strict=True)]
        after, before = (
            np.mean([(getattr(z, name) - mean) ** 2 for z in found])
            for name in ("mean", "plain_mean")
        )
        assert after < bound * before
        inside = [np.abs(z.mean - mean) < 1.96 * z.error for z in found]
        assert np.mean(inside) > 0.85


@pytest.mark.parametrize("phi", [0.0, 0.8])
def test_more_control_variates_than_draws_do_no_harm(phi):
    rng = np.random.default_rng(0)
    root = np.linalg.cholesky(0.9 ** np.abs(np.subtract.outer(np.arange(200), np.arange(200))))
    after, before = [], []
    for _ in range(12):
        y = np.empty((150, 200))
        y[0] = rng.normal(size=200)
        for n in range(1, 150):
            y[n] = phi * y[n - 1] + np.sqrt(1 - phi**2) * rng.normal(size=200)
        x = y @ root.T
        found = srmc.zv(x, -x @ np.linalg.inv(root @ root.T))
        after.append(np.mean(found.mean**2))
        before.append(np.mean(found.plain_mean**2))
    assert np.mean(after) < 1.1 * np.mean(before)


def test_a_ridge_helps_where_draws_are_few_and_scores_tell_something():
    rng = np.random.default_rng(1)
    after, before = [], []
    for _ in range(12):
        y = np.log(rng.gamma(2.0, size=(150, 100)))
        found = srmc.zv(y, 2 - np.exp(y))
        truth = 1 - np.euler_gamma
        after.append(np.mean((found.mean - truth) ** 2))
        before.append(np.mean((found.plain_mean - truth) ** 2))
    assert np.mean(after) < 0.9 * np.mean(before)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, s: srmc.zv(x, s, 3), "order must be one of 1, 2"),
        (lambda x, s: srmc.zv(x, s[:, :9]), "scores must have the names and shapes of draws"),
        (lambda x, s: srmc.zv(x, s[..., :1], 2), "scores must have the names and shapes of draws"),
        (lambda x, s: srmc.zv(x, s * np.nan), "scores must be finite, got 1200 NaN or inf"),
        (lambda x, s: srmc.zv(x[0, 0], s[0, 0]), "draws must be numbers of shape"),
        (lambda x, s: srmc.zv(x[:, :9], s[:, :9]), "draws must be at least 10 per chain, got 9"),
        (lambda x, s: srmc.zv(x, 3 * s, 2), "scores must be the gradients of the log density"),
        (lambda x, s: srmc.zv(x, s, values=x[:1]), "values must be"),
    ],
)
def test_bad_input_is_named(call, message):
    x, s, _, _ = gaussian_draws(np.random.default_rng(0))
    with pytest.raises(ValueError, match=message):
        call(x, s)
