"""Standard errors after rebalancing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import digamma

import srmc
from srmc.rebalance import rebalanced_error, regress
from srmc.rebalance.report import nothing

SHAPE = 2.0


def log_density(x):
    return jnp.sum(SHAPE * x - jnp.exp(x))


def draws(seed, chains=4, length=500, dim=3):
    """A skewed target, with some memory: each draw is kept for two steps on average."""
    rng = np.random.default_rng(seed)
    fresh = np.log(rng.gamma(SHAPE, size=(chains, length, dim)))
    out = fresh.copy()
    stays = rng.random((chains, length)) < 0.5
    for n in range(1, length):
        out[:, n] = np.where(stays[:, n, None], out[:, n - 1], fresh[:, n])
    return out.astype(np.float32)


score = jax.grad(log_density)
scores_at = jax.jit(jax.vmap(jax.vmap(score)))


def standardised(seed, length=500):
    x = draws(seed, length=length)
    s = np.asarray(scores_at(x))
    moved, report = srmc.rebalance(x, score, scores=s, logdensity_fn=log_density, report=True)
    functions = (lambda v: v, lambda v: v**2, lambda v: (v < 0.3).astype(float))
    truth = np.log(np.random.default_rng(99).gamma(SHAPE, size=2_000_000))
    off = [
        (f(moved).mean(axis=(0, 1)) - f(truth).mean()) / rebalanced_error(f(x), x, s, report)
        for f in functions
    ]
    return np.array(off)


def test_intervals_cover():
    """Of 3 x 180 intervals 95% should hold; 12 standard errors of chance are allowed below."""
    off = np.concatenate([standardised(seed) for seed in range(20)], axis=1)
    held = np.mean(np.abs(off) < 1.96, axis=1)
    assert np.all(held > 0.8)
    assert np.all(np.sqrt(np.mean(off**2, axis=1)) > 0.2)  # nor are they far too wide


def test_errors_of_few_draws_of_a_gaussian_are_those_of_its_coefficients():
    """Gaussian coefficients leave nothing of means and standard deviations, at any length."""
    x = np.random.default_rng(0).standard_normal((4, 125, 10))
    moved, report = srmc.rebalance(x, scores=-x, report=True)
    summary = srmc.Result.of_rebalanced(moved, x, -x, report).summary()
    plain = srmc.Result.of_rebalanced(x, x, -x, nothing("")).summary()
    ratio = lambda name: np.median(summary[name] / plain[name])
    assert max(ratio("error"), ratio("error_sd")) < 1e-3
    assert ratio("error_50%") < 0.5


def test_errors_are_far_below_those_of_the_plain_draws():
    x = draws(5)
    s = np.asarray(scores_at(x))
    _, report = srmc.rebalance(x, score, scores=s, logdensity_fn=log_density, report=True)
    plain = srmc.metrics.batch_means_error(x)
    assert np.all(rebalanced_error(x, x, s, report) < 0.4 * plain)


def test_of_very_many_features_the_strongest_do_as_well(monkeypatch):
    x = draws(6)
    s = np.asarray(scores_at(x))
    _, report = srmc.rebalance(x, score, scores=s, logdensity_fn=log_density, report=True)
    values = np.concatenate([x, x**2, x < 0.3], axis=2)
    every = rebalanced_error(values, x, s, report)
    monkeypatch.setattr(regress, "TOGETHER", 0)
    monkeypatch.setattr(regress, "NUMBERS", 2**18)
    few = rebalanced_error(values, x, s, report)
    assert np.median(few / every) < 1.3  # 24 features against 64
    assert np.all(few < 2 * every)
    plain = srmc.metrics.batch_means_error(values)
    assert np.sum(few < 0.8 * plain) >= 8  # one of the squares may seem to have no variance


def test_of_many_coordinates_the_nearest_do_as_well(monkeypatch):
    x = draws(6, dim=40)
    s = np.asarray(scores_at(x))
    given = {"logdensity_fn": log_density}
    _, report = srmc.rebalance(x, score, scores=s, report=True, **given)
    every = rebalanced_error(x, x, s, report)
    monkeypatch.setattr(regress, "SCREENED", 0)
    few = rebalanced_error(x, x, s, report)
    assert np.median(few / every) < 1.6  # the shifts of the others explain a part, too
    assert np.all(few < 0.5 * srmc.metrics.batch_means_error(x))


def test_products_of_two_of_many_coordinates_are_known_by_their_covariance():
    u = np.random.default_rng(0).standard_normal((4, 500, 40)).astype(np.float32)
    moved, report = srmc.rebalance(u, lambda u: -u, scores=-u, report=True)
    products = lambda v: v[..., 1:] * (1 + v[..., :1])
    found = rebalanced_error(products(u), u, -u, report, moved=products(moved))
    assert np.all(found < 0.3 * srmc.metrics.batch_means_error(products(u)))
    assert np.sqrt(np.mean((products(moved).mean(axis=(0, 1)) / found) ** 2)) < 2


def test_what_features_do_not_explain_keeps_its_error():
    x = draws(6)
    s = np.asarray(scores_at(x))
    _, report = srmc.rebalance(x, score, scores=s, logdensity_fn=log_density, report=True)
    noise = np.random.default_rng(1).normal(size=x.shape)
    found = rebalanced_error(noise, x, s, report)
    np.testing.assert_allclose(found, 1 / np.sqrt(x[..., 0].size), rtol=0.5)


def test_chains_in_different_places_are_noticed():
    x = draws(7)
    s = np.asarray(scores_at(x))
    _, report = srmc.rebalance(x, score, scores=s, logdensity_fn=log_density, report=True)
    apart = np.repeat(np.arange(4.0)[:, None], x.shape[1], axis=1)
    assert rebalanced_error(apart, x, s, report) > 0.5


def test_shapes_are_checked():
    x = draws(8)
    _, report = srmc.rebalance(x, score, logdensity_fn=log_density, report=True)
    with pytest.raises(ValueError, match="values must be"):
        rebalanced_error(x[:, :10], x, x, report)


def test_intervals_cover_where_tails_are_heavy():
    shape, held = 0.2, []
    density = lambda x: jnp.sum(shape * x - jnp.exp(x))
    for seed in range(3):
        x = np.asarray(jax.random.loggamma(jax.random.key(seed), shape, (4, 500, 10)), np.float32)
        s = shape - np.exp(x)
        gradient = jax.grad(density)
        moved, report = srmc.rebalance(x, gradient, scores=s, logdensity_fn=density, report=True)
        summary = srmc.Result.of_rebalanced(moved, x, s, report).summary()
        held.append(np.abs(summary["mean"] - digamma(shape)) < 1.96 * summary["error"])
        assert np.mean(summary["error"] / srmc.metrics.batch_means_error(x)) < 0.8
    assert np.mean(held) > 0.8  # 24 of 30 hold by chance once in 300 times


def test_errors_are_not_below_what_the_moved_draws_show():
    """Had the map not moved the draws at all, the change that it promises would be missing."""
    x = draws(9)
    s = np.asarray(scores_at(x))
    moved, report = srmc.rebalance(x, score, scores=s, logdensity_fn=log_density, report=True)
    promised = rebalanced_error(x, x, s, report)
    seen = rebalanced_error(x, x, s, report, moved=moved)
    summary = srmc.Result.of_rebalanced(moved, x, s, report).summary()
    assert np.all(summary["error"] > 0.5 * seen)  # its features are those of a whole row
    missing = np.abs(moved.mean(axis=(0, 1)) - x.mean(axis=(0, 1)))
    none = rebalanced_error(x, x, s, report, moved=x)
    assert np.all(none > missing - 3 * promised)
    assert np.any(none > 2 * promised)
    assert np.median(seen / promised) < 2  # a coordinate may be off by more, to second order


def test_a_tail_without_a_variance_keeps_the_error_of_the_plain_draws():
    """The squares of a t distribution with four degrees of freedom have no variance."""
    density = lambda x: jnp.sum(-2.5 * jnp.log1p(x**2 / 4))
    gradient, wider = jax.grad(density), []
    for seed in range(3):
        x = np.random.default_rng(seed).standard_t(4, size=(4, 500, 5)).astype(np.float32)
        s = np.asarray(jax.vmap(jax.vmap(gradient))(x))
        _, report = srmc.rebalance(x, gradient, scores=s, logdensity_fn=density, report=True)
        plain = srmc.metrics.batch_means_error(x**2)
        wider.append(rebalanced_error(x**2, x, s, report) / plain)
    assert np.nanmedian(wider) > 0.9
    assert np.mean(np.isnan(wider)) < 0.5


def test_an_event_that_never_occurred_has_an_error():
    x = draws(10)
    s = np.asarray(scores_at(x))
    _, report = srmc.rebalance(x, score, scores=s, logdensity_fn=log_density, report=True)
    found = rebalanced_error(x > 50, x, s, report)
    assert np.all((found > 1 / x[..., 0].size) & (found < 20 / x[..., 0].size))
