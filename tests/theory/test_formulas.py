"""Formulas on the way to the paper's theorems, on small spaces where all sums are exact."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad_vec
from scipy.linalg import expm
from scipy.stats import norm

import srmc
from srmc import theory
from srmc_studies.paper.variance_laws import random_tables

PI, PROPOSAL, SCORE, VALUES = random_tables(3)
ALPHA, THETA = 1.7, np.array([0.4, -1.0, 0.7])
FIELD = theory.MeanField(PI, SCORE, VALUES, ALPHA)


def covariance(p, a, b):
    return (a - p @ a).T @ (p[:, None] * (b - p @ b))


def slopes(function, h=1e-5):
    """Derivatives with respect to theta, on the last axis."""
    each = [(function(THETA + e) - function(THETA - e)) / (2 * h) for e in h * np.eye(3)]
    return np.stack(each, axis=-1)


def test_derivatives_under_the_tilt_are_covariances():
    p = FIELD.surrogate(THETA)
    means = slopes(lambda theta: FIELD.surrogate(theta) @ VALUES)
    np.testing.assert_allclose(means, -ALPHA * covariance(p, VALUES, SCORE), atol=1e-8)
    found = slopes(lambda theta: covariance(FIELD.surrogate(theta), VALUES, SCORE))
    f, s = VALUES - p @ VALUES, SCORE - p @ SCORE
    np.testing.assert_allclose(found, -ALPHA * np.einsum("n,ni,nj,nl->ijl", p, f, s, s), atol=1e-8)
    second, fourth = (p @ np.linalg.norm(SCORE, axis=1) ** k for k in (2, 4))
    bound = ALPHA * 3**1.5 * (np.sqrt(fourth * second) + 2 * second**1.5)
    found = slopes(lambda theta: covariance(FIELD.surrogate(theta), SCORE, SCORE))
    assert np.linalg.norm(found) < bound


def test_the_field_is_the_integral_of_its_jacobian():
    r, mean = 2.5, np.array([0.3, -0.2])

    def average(values):
        tilted = lambda t: FIELD.surrogate(t * THETA)
        return quad_vec(lambda t: covariance(tilted(t), values, SCORE), 0, r)[0] * ALPHA / r

    a, b = np.eye(3) + average(SCORE), average(VALUES)
    theta, mu = FIELD.field(r * THETA, r * mean)
    np.testing.assert_allclose(theta / r, -a @ THETA, atol=1e-7)
    np.testing.assert_allclose(mu / r, PI @ VALUES / r - b @ THETA - mean, atol=1e-7)


@pytest.mark.parametrize(("rho", "beta"), [(0.8, 1.0), (1.0, 0.5)])
def test_the_cross_block_is_an_integral(rho, beta):
    case = theory.finite(theory.metropolis(PI, PROPOSAL), PI, SCORE, VALUES)
    solved = theory.asymptotic_covariance(*case, ALPHA, rho)
    blocks = theory.blocks(solved, 3)
    a = beta * np.eye(3) + ALPHA * case.cov_ss
    right = case.noise[:3, 3:] - ALPHA * blocks.theta @ case.cov_fs.T
    # expm(-60 beta) is nothing
    cross = quad_vec(lambda t: expm(-a * t) @ right * np.exp(-beta * t), 0, 60 / beta)[0]
    np.testing.assert_allclose(blocks.cross, cross, atol=1e-7)


@pytest.mark.parametrize(("rho", "beta"), [(0.8, 1.0), (1.0, 0.5)])
def test_blocks_of_independent_draws_have_the_closed_forms(rho, beta):
    s, c = covariance(PI, SCORE, SCORE), covariance(PI, VALUES, SCORE)
    v = covariance(PI, VALUES, VALUES)
    noise = theory.independent_noise(s, c, v)
    np.testing.assert_allclose(noise, np.block([[s, c.T], [c, v]]))
    blocks = theory.blocks(theory.asymptotic_covariance(s, c, noise, ALPHA, rho), 3)
    inverse = np.linalg.inv(beta * np.eye(3) + ALPHA * s)
    np.testing.assert_allclose(blocks.theta, 0.5 * s @ inverse, atol=1e-10)
    np.testing.assert_allclose(blocks.cross, 0.5 * inverse @ c.T, atol=1e-10)
    closed = theory.independent_covariance(s, c, v, ALPHA, rho)
    np.testing.assert_allclose(blocks.mean, closed, atol=1e-10)


def test_the_kernel_is_lipschitz_in_theta():
    """Of |P_theta - P_theta'|, at most 2 alpha sum_y q(x, y) |s(y) - s(x)| per |theta - theta'|."""
    apart = np.linalg.norm(SCORE[:, None] - SCORE[None], axis=-1)
    bound = 2 * ALPHA * np.max(np.sum(PROPOSAL * apart, axis=1))
    kernel = lambda theta: theory.metropolis(FIELD.surrogate(theta), PROPOSAL)
    ratios = []
    for a, b in np.random.default_rng(0).normal(size=(50, 2, 3)):
        difference = np.abs(kernel(a) - kernel(b)).sum(axis=1).max()
        ratios.append(difference / np.linalg.norm(a - b))
    assert 0.02 * bound < max(ratios) <= bound


def test_the_printed_lipschitz_constant_of_sr_mh_is_exceeded_by_a_factor_of_two():
    """Two states, V = 0: C = |s(1) - s(0)|, and 2 alpha C is reached (prop:kernel-lip-mh)."""
    pi, proposal, score = np.full(2, 0.5), np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([0.0, 1.0])

    def kernel(theta):
        tilted = pi * np.exp(-ALPHA * theta * score)
        return theory.metropolis(tilted / tilted.sum(), proposal)

    near = 1e-6
    difference = np.abs(kernel(near) - kernel(0.0)).sum(axis=1).max() / near
    assert difference == pytest.approx(2 * ALPHA, rel=1e-5)


@pytest.mark.usefixtures("x64")
def test_proposals_of_mala_are_lipschitz_in_theta():
    target, eta = srmc.targets.logistic(), 0.005
    score = jax.jit(jax.grad(srmc.tilt().bend(target.logdensity_fn)))
    lipschitz = _lipschitz(target)
    for x, a, b in np.random.default_rng(0).normal(size=(20, 3, 10)):
        drift = [score(jnp.asarray(x), jnp.asarray(t), jnp.asarray(ALPHA)) for t in (a, b)]
        distance = np.linalg.norm(eta * (drift[0] - drift[1])) / np.sqrt(2 * eta)
        total_variation = 2 * norm.cdf(distance / 2) - 1
        bound = np.sqrt(eta / 8) * ALPHA * lipschitz * np.linalg.norm(a - b)
        assert 0.01 * bound < total_variation <= bound


@pytest.mark.usefixtures("x64")
def test_the_exponent_is_bounded_by_the_lipschitz_constant():
    target = srmc.targets.logistic()
    score, lipschitz = jax.grad(target.logdensity_fn), _lipschitz(target)
    at_0 = np.linalg.norm(score(jnp.zeros(10)))
    for x, theta in np.random.default_rng(0).normal(size=(20, 2, 10)) * 3:
        exponent = -ALPHA * theta @ np.asarray(score(jnp.asarray(x)))
        bound = ALPHA * np.linalg.norm(theta) * (lipschitz * np.linalg.norm(x) + at_0)
        assert exponent <= bound


def _lipschitz(target):
    """The Hessian of a logistic posterior is largest at 0."""
    return np.linalg.norm(jax.hessian(target.logdensity_fn)(jnp.zeros(10)), 2)


@pytest.mark.usefixtures("x64")
def test_the_field_at_infinity_of_a_gaussian():
    """h(r theta) / r is -(I + alpha P) theta at every r, with P the precision."""
    target = srmc.targets.gaussian(3)
    f, alpha, theta = target.logdensity_fn, jnp.asarray(ALPHA), jnp.asarray(THETA)
    precision = -np.asarray(jax.hessian(f)(jnp.zeros(3)))
    tails = theory.check_tails(f, target.position)
    np.testing.assert_allclose(tails.limits[0], np.linalg.eigvalsh(precision), rtol=1e-2)
    draws = np.random.default_rng(0).normal(size=(4, 3))
    tilted, plain = jax.jit(srmc.tilt().bend(f)), jax.jit(f)
    for r in (1.0, 1e3):
        gaps = [tilted(x, r * theta, alpha) - plain(x - ALPHA * r * THETA) for x in draws]
        np.testing.assert_allclose(np.diff(gaps) / r**2, 0, atol=1e-9)
        # The tilted target is shifted, so that the mean of its score is that at the shifted mean.
        field = np.asarray(jax.grad(f)(alpha * r * theta)) - r * THETA
        np.testing.assert_allclose(field / r, -(np.eye(3) + ALPHA * precision) @ THETA, rtol=1e-6)
    rates = np.linalg.eigvalsh(np.eye(3) + ALPHA * precision)
    path = expm(-2.0 * (np.eye(3) + ALPHA * precision)) @ THETA
    assert np.linalg.norm(path) <= np.exp(-2.0 * rates[0]) * np.linalg.norm(THETA)
    assert rates[0] > 1


@pytest.mark.usefixtures("x64")
def test_the_logistic_hessian_far_out_depends_on_the_direction():
    """Along a direction orthogonal to a_1, a quarter of a_1 a_1' remains (docs/errata.md)."""
    rows = jnp.array([[1.0, 0.0], [0.6, 0.8]])
    potential = lambda x: 0.5 * x @ x + jnp.sum(jax.nn.softplus(rows @ x))
    hessian = jax.hessian(potential)
    along, across = jnp.array([1.0, 0.3]), jnp.array([0.0, 1.0])
    np.testing.assert_allclose(hessian(1e3 * along), np.eye(2), atol=1e-12)
    np.testing.assert_allclose(hessian(1e3 * across), np.diag([1.25, 1.0]), atol=1e-12)
