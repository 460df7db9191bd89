"""Checks of the assumption know rounding, tell other models apart, and leave right ones alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import gammaln
from scipy import stats

from srmc.rebalance.batched import Batched
from srmc.rebalance.check import check_assumption

HITS = jnp.array([18, 17, 16, 15, 14, 14, 13, 12, 11, 11, 10, 10, 10, 10, 10, 9, 8, 7.0])


def baseball(z):
    """Efron and Morris's batting averages, summed over those of players: terms that cancel."""
    m, kappa = jax.nn.sigmoid(z[0]), 1 + jnp.exp(z[1])
    a, b = m * kappa, (1 - m) * kappa
    beta = lambda a, b: gammaln(a) + gammaln(b) - gammaln(a + b)
    prior = jnp.log(m) + jnp.log1p(-m) - 2.5 * jnp.log(kappa) + z[1]
    return prior + jnp.sum(beta(a + HITS, b + 45 - HITS) - beta(a, b))


def draws_near(seed):
    rng = np.random.default_rng(seed)
    x = np.stack([rng.normal(-1.0, 0.1, (4, 250)), rng.normal(5.0, 1.5, (4, 250))], axis=2)
    return x.astype(np.float32).astype(float)


def segments(logp, slope, x):
    density, score = Batched("density", logp, x, ()), Batched("score", slope, x, x.shape[2:])
    scores = score(x.reshape(-1, x.shape[2])).reshape(x.shape)
    found = check_assumption(x, scores, score, density, exact=False)
    return next(f for f in found if f.name == "segments")


def test_rounding_of_terms_that_cancel_is_no_jump():
    for seed in range(20):
        found = segments(baseball, jax.grad(baseball), draws_near(seed))
        assert not found.failed, found


def test_jumps_and_wrong_gradients_are_found_beside_such_rounding():
    jump = lambda z: baseball(z) + 0.5 * (z[0] > -1)
    found = segments(jump, jax.grad(jump), draws_near(0))
    assert found.failed
    assert "more than rounding explains" in found.text
    assert segments(baseball, lambda z: 1.1 * jax.grad(baseball)(z), draws_near(0)).failed


def mean_score(logp, x):
    density, score = (
        Batched("density", logp, x, ()),
        Batched("score", jax.grad(logp), x, x.shape[2:]),
    )
    scores = score(x.reshape(-1, x.shape[2])).reshape(x.shape)
    return check_assumption(x, scores, score, density)[0]


def autoregressive(rng, shape, memory):
    """Gaussian chains whose draws are correlated by `memory`, of variance 1."""
    x = rng.normal(size=shape)
    for n in range(1, shape[1]):
        x[:, n] = memory * x[:, n - 1] + np.sqrt(1 - memory**2) * x[:, n]
    return x


X = np.random.default_rng(1).normal(size=200)
COUNTS = np.random.default_rng(2).poisson(
    np.exp(2 + X / 2) * np.random.default_rng(3).gamma(30, 1 / 30, 200)
)


def regression(z, size):
    """Counts, negative binomial with this size, or Poisson if it is None."""
    eta = z[0] + z[1] * X
    prior = -jnp.sum(z**2) / 50
    if size is None:
        return prior + jnp.sum(COUNTS * eta - jnp.exp(eta))
    return prior + jnp.sum(COUNTS * eta - (COUNTS + size) * jnp.log(size + jnp.exp(eta)))


def draws_of(logp, rng, draws=1000):
    """Draws of a Gaussian approximation, resampled by their weights."""
    mode = jnp.array([2.0, 0.5])
    for _ in range(20):
        mode = mode - jnp.linalg.solve(jax.hessian(logp)(mode), jax.grad(logp)(mode))
    root = np.linalg.cholesky(np.linalg.inv(-np.asarray(jax.hessian(logp)(mode), float)))
    e = 1.1 * rng.normal(size=(20_000, 2))
    x = np.asarray(mode, float) + e @ root.T
    log_weight = np.asarray(jax.vmap(logp)(x), float) + np.sum(e**2, axis=1) / 2 / 1.1**2
    weight = np.exp(log_weight - log_weight.max())
    return x[rng.choice(len(x), 4 * draws, p=weight / weight.sum())].reshape(4, draws, 2)


def test_a_negative_binomial_trace_is_not_poisson_s():
    right = lambda z: regression(z, 70.0)
    x = draws_of(right, np.random.default_rng(0))
    assert not mean_score(right, x).failed
    found = mean_score(lambda z: regression(z, None), x)
    assert found.failed
    assert "either the draws have not converged, or they are not of this log density" in found.text


def test_a_changed_prior_is_found():
    """One of five means with a prior of precision 1, and as much information from data."""
    x = np.random.default_rng(0).normal(size=(4, 1000, 5)) * np.sqrt(0.5)
    posterior = lambda z, precision: (
        -jnp.sum(z**2) / 2 - jnp.sum(z[:4] ** 2) / 2 - precision * z[4] ** 2 / 2
    )
    assert not mean_score(lambda z: posterior(z, 1.0), x).failed
    for precision in (1.4, 0.7):
        assert mean_score(lambda z, p=precision: posterior(z, p), x).failed


@pytest.mark.parametrize("memory", [0.0, 0.7, 0.95])
def test_right_models_are_left_alone(memory):
    """Gaussian, a funnel, Student's t, logarithms of gamma variables: autocorrelated, exact."""
    parts = {
        "gaussian": (lambda e: e, lambda z: -jnp.sum(z**2) / 2),
        "funnel": (
            lambda e: np.concatenate([3 * e[..., :1], e[..., 1:] * np.exp(1.5 * e[..., :1])], 2),
            lambda z: -(z[0] ** 2) / 18 - 2 * z[0] - jnp.sum(z[1:] ** 2) * jnp.exp(-z[0]) / 2,
        ),
        "t": (
            lambda e: stats.t(4).ppf(stats.norm.cdf(e)),
            lambda z: -2.5 * jnp.sum(jnp.log1p(z**2 / 4)),
        ),
        "log gamma": (
            lambda e: np.log(stats.gamma(2).ppf(stats.norm.cdf(e))),
            lambda z: jnp.sum(2 * z - jnp.exp(z)),
        ),
    }
    for name, (transform, logp) in parts.items():
        slope = jax.jit(jax.vmap(jax.grad(logp)))
        for seed in range(20):
            x = transform(autoregressive(np.random.default_rng(seed), (4, 500, 5), memory))
            scores = np.asarray(slope(x.reshape(-1, 5)), float).reshape(x.shape)
            found = check_assumption(x, scores, None, None)[0]
            assert not found.failed, (name, seed, found)
