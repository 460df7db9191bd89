"""Moments against draws, quadrature or published values; log densities against SciPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from srmc import targets
from srmc.targets import _continuous


@pytest.mark.parametrize(
    "target",
    [
        targets.gaussian(),
        targets.mixture(),
        targets.banana(),
        targets.ellipsoid(5, 100.0),
        targets.ellipsoid(5, 100.0, rotate=True),
        targets.student_t(3, 12.0),  # of which squares have a variance
        targets.bernoulli([0.1, 0.3, 0.9]),  # at 1/2 the squares have no variance
    ],
    ids=lambda target: target.name,
)
def test_moments_are_those_of_exact_draws(target):
    n = 100_000
    draws = np.asarray(jax.jit(jax.vmap(target.sample))(jax.random.split(jax.random.key(0), n)))
    centred = draws - target.moments.mean
    assert np.all(np.abs(centred.mean(axis=0)) < 5 * draws.std(axis=0) / np.sqrt(n))
    error = centred**2 - target.moments.variance
    assert np.all(np.abs(error.mean(axis=0)) < 5 * error.std(axis=0) / np.sqrt(n))


def test_funnel():
    target = targets.funnel(3, 1.0)
    draws = np.asarray(jax.vmap(target.sample)(jax.random.split(jax.random.key(0), 200_000)))
    np.testing.assert_allclose(draws.var(axis=0), target.moments.variance, rtol=0.1)
    x = np.array([0.7, -1.0, 2.0])
    expected = stats.norm.logpdf(x[0]) + stats.norm.logpdf(x[1:], scale=np.exp(0.35)).sum()
    at_zero = stats.norm.logpdf(np.zeros(3)).sum()
    difference = target.logdensity_fn(jnp.asarray(x)) - target.logdensity_fn(jnp.zeros(3))
    assert float(difference) == pytest.approx(expected - at_zero, rel=1e-5)


def test_gaussian_density():
    target = targets.gaussian(4, 0.9)
    i = np.arange(4)
    law = stats.multivariate_normal(np.zeros(4), 0.9 ** np.abs(i[:, None] - i))
    x = np.array([0.5, -0.3, 1.0, 0.2])
    difference = target.logdensity_fn(jnp.asarray(x)) - target.logdensity_fn(jnp.zeros(4))
    assert float(difference) == pytest.approx(law.logpdf(x) - law.logpdf(np.zeros(4)), rel=1e-4)
    # The paper calls the condition number 19; that is the precision's top eigenvalue.
    i = np.arange(10)
    covariance = 0.9 ** np.abs(i[:, None] - i)
    assert np.linalg.cond(covariance) == pytest.approx(135, rel=0.01)
    assert round(1 / np.linalg.eigvalsh(covariance)[0]) == 19


@pytest.mark.parametrize("rotate", [False, True])
def test_ellipsoid_density(rotate):
    target = targets.ellipsoid(3, 25.0, rotate)
    axes = (
        np.linalg.qr(np.random.RandomState(0).standard_normal((3, 3)))[0] if rotate else np.eye(3)
    )
    law = stats.multivariate_normal(np.zeros(3), axes @ np.diag([1.0, 5.0, 25.0]) @ axes.T)
    x = np.array([0.5, -2.0, 3.0])
    difference = target.logdensity_fn(jnp.asarray(x)) - target.logdensity_fn(jnp.zeros(3))
    assert float(difference) == pytest.approx(law.logpdf(x) - law.logpdf(np.zeros(3)), rel=1e-5)


def test_student_t_density():
    target, law = targets.student_t(3, 4.0), stats.multivariate_t(np.zeros(3), df=4.0)
    x = np.array([0.5, -2.0, 3.0])
    difference = target.logdensity_fn(jnp.asarray(x)) - target.logdensity_fn(jnp.zeros(3))
    assert float(difference) == pytest.approx(law.logpdf(x) - law.logpdf(np.zeros(3)), rel=1e-5)


def test_mixture_density_and_banana_density():
    x = np.array([0.3, -0.4])
    mixture = targets.mixture()
    expected = np.log(
        0.8 * stats.multivariate_normal([-2, 0], 0.0324).pdf(x)
        + 0.2 * stats.multivariate_normal([2, 0], 1.0).pdf(x)
    ) + np.log(2 * np.pi)
    assert float(mixture.logdensity_fn(jnp.asarray(x))) == pytest.approx(expected, rel=1e-5)
    assert float(targets.banana().logdensity_fn(jnp.asarray(x))) == pytest.approx(
        -0.5 * (0.15**2 + (-0.4 - 0.5 * (0.09 - 4)) ** 2), rel=1e-5
    )


def test_eight_schools_agrees_with_the_posteriordb_reference():
    moments, others = _continuous.quadrature()
    assert abs(moments.mean["mu"] - 4.411) < 3 * 0.033
    assert abs(others["tau"] - 3.602) < 3 * 0.032
    coarse, _ = _continuous.quadrature(700)
    for a, b in zip(jax.tree.leaves(coarse), jax.tree.leaves(moments), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("centred", [False, True])
def test_eight_schools_density_matches_its_quadrature(centred):
    """The effects given mu and tau are Gaussian, and what they leave is the marginal posterior."""
    logp = targets.eight_schools(centred).logdensity_fn
    effects = "theta" if centred else "theta_raw"
    y, sigma = _continuous.EFFECTS, _continuous.ERRORS
    gaps = []
    for mu, log_tau in ((3.0, 1.2), (-4.0, 2.5), (10.0, -1.0)):
        tau = np.exp(log_tau)
        peak = tau * (y - mu) / (sigma**2 + tau**2)
        variance = sigma**2 / (sigma**2 + tau**2)
        if centred:
            peak, variance = mu + tau * peak, tau**2 * variance
        x = {"mu": jnp.asarray(mu), "log_tau": jnp.asarray(log_tau), effects: jnp.asarray(peak)}
        np.testing.assert_allclose(jax.grad(logp)(x)[effects], 0, atol=1e-10)
        curvature = jax.hessian(logp)(x)[effects][effects]
        np.testing.assert_allclose(curvature, -np.diag(1 / variance), rtol=1e-9, atol=1e-9)
        marginal = (
            stats.norm.logpdf(mu, 0, 5)
            + stats.halfcauchy.logpdf(tau, 0, 5)
            + log_tau
            + stats.norm.logpdf(y, mu, np.sqrt(sigma**2 + tau**2)).sum()
        )
        gaps.append(float(logp(x)) + 0.5 * np.log(variance).sum() - marginal)
    np.testing.assert_allclose(gaps, gaps[0], atol=1e-9)


@pytest.mark.usefixtures("x64")
def test_logistic_reference_is_that_of_a_fine_grid():
    target = targets.logistic(20, 2, seed=3)
    grid = np.linspace(-6, 6, 400)
    x = np.stack(np.meshgrid(grid, grid, indexing="ij"), -1).reshape(-1, 2)
    log_weight = np.asarray(jax.vmap(target.logdensity_fn)(jnp.asarray(x)))
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    mean = weight @ x
    moments = target.moments
    np.testing.assert_allclose(moments.mean, mean, atol=float(6 * moments.error.max()))
    np.testing.assert_allclose(moments.variance, weight @ x**2 - mean**2, rtol=0.01)
    assert target.moments is moments


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: targets.gaussian(0), "dim must be >= 1"),
        (lambda: targets.gaussian(2, 1.0), "correlation"),
        (lambda: targets.mixture(weights=(1.0,)), "weights, means and scales"),
        (lambda: targets.mixture(scales=(1.0, -1.0)), "scales"),
        (lambda: targets.banana(scale=0.0), "scale"),
        (lambda: targets.funnel(1), "dim must be >= 2"),
        (lambda: targets.logistic(0), "num_data"),
        (lambda: targets.logistic_posterior("", "", np.eye(2), [1.0]), "one row per label"),
        (lambda: targets.logistic_posterior("", "", np.eye(2), [1.0, 2.0]), "labels must be 0 or"),
    ],
)
def test_bad_targets_are_named(make, words):
    with pytest.raises(ValueError, match=words):
        make()
