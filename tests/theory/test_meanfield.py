"""The mean-field ODE on a few states: its root, its Jacobian, its contraction, and its bias."""

import jax
import numpy as np
import pytest
from scipy.optimize import approx_fprime

import srmc
from srmc import theory
from srmc_studies.paper.variance_laws import random_tables

PI, PROPOSAL, FEATURES, VALUES = random_tables(3)
THETA = np.array([0.4, -1.0, 0.7])
ALPHAS = (0.3, 2.0, 20.0)


def mean_field(alpha, features=FEATURES):
    return theory.MeanField(PI, features, VALUES, alpha)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_the_root_is_the_target_and_its_jacobian_is_the_paper_s(alpha):
    h, mean = mean_field(alpha), PI @ VALUES
    np.testing.assert_allclose(h.surrogate(np.zeros(3)), PI, rtol=1e-12)
    np.testing.assert_allclose(np.concatenate(h.field(np.zeros(3), mean)), 0, atol=1e-12)
    for found, expected in zip(h.equilibrium(), (np.zeros(3), mean), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-7)
    case = theory.finite(theory.metropolis(PI, PROPOSAL), PI, FEATURES, VALUES)
    flat = lambda y: np.concatenate(h.field(y[:3], y[3:]))
    at = np.concatenate([np.zeros(3), mean])
    slopes = np.stack([(flat(at + e) - flat(at - e)) / 2e-5 for e in 1e-5 * np.eye(5)], axis=1)
    exact = theory.jacobian(case.cov_ss, case.cov_fs, alpha)
    np.testing.assert_allclose(slopes, exact, atol=1e-6 * alpha)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_theta_follows_the_gradient_of_a_strongly_convex_potential(alpha):
    h = mean_field(alpha)
    slope = approx_fprime(THETA, h.potential, 1e-7)
    np.testing.assert_allclose(slope, -h.field(THETA, PI @ VALUES)[0], atol=1e-5)
    for theta in np.random.default_rng(0).normal(size=(20, 3)):
        assert h.contraction(theta) >= 1
    eigenvalues = np.linalg.eigvalsh(FEATURES.T @ (PI[:, None] * FEATURES))
    assert h.contraction(np.zeros(3)) == pytest.approx(1 + alpha * eigenvalues[0])


@pytest.mark.parametrize("alpha", ALPHAS)
def test_paths_contract_as_the_paper_s_bound_says(alpha):
    """|theta_t| <= exp(-t) |theta_0|, and two paths approach each other at least as fast."""
    h, times = mean_field(alpha), np.linspace(0.0, 6.0, 25)
    theta, mean = h.path(THETA, np.array([5.0, -5.0]), times)
    other, _ = h.path(-2 * THETA, np.zeros(2), times)
    bound = np.exp(-times) * (1 + 1e-6) + 1e-9
    assert np.all(np.linalg.norm(theta, axis=1) <= np.linalg.norm(THETA) * bound)
    apart = np.linalg.norm(theta - other, axis=1)
    assert np.all(apart <= 3 * np.linalg.norm(THETA) * bound)
    np.testing.assert_allclose(mean[0], [5.0, -5.0])
    end, _ = h.path(THETA, np.zeros(2), [0.0, 30.0])
    np.testing.assert_allclose(end[-1], 0, atol=1e-7)
    np.testing.assert_allclose(
        h.path(THETA, np.zeros(2), [0.0, 30.0])[1][-1], PI @ VALUES, atol=1e-7
    )


def test_features_without_mean_zero_settle_elsewhere_and_leave_a_bias():
    """The loop itself settles at the equilibrium of the mean field."""
    alpha, shifted = 2.0, FEATURES + np.array([0.5, 0.0, -0.3])
    theta, mean = mean_field(alpha, shifted).equilibrium()
    np.testing.assert_allclose(
        np.concatenate(mean_field(alpha, shifted).field(theta, mean)), 0, atol=1e-8
    )
    assert np.abs(mean - PI @ VALUES).max() > 0.05
    gain = srmc.gain(0.8)
    run = theory.simulate(
        jax.random.key(0),
        *(PI, PROPOSAL, shifted, VALUES),
        alpha=alpha,
        gain=gain,
        num_steps=4000,
        num_replicates=500,
    )
    scale = float(gain(4000)) ** 0.5
    np.testing.assert_allclose(scale * run.theta.mean(axis=0), theta, atol=0.03)
    np.testing.assert_allclose(scale * run.mean.mean(axis=0), mean - PI @ VALUES, atol=0.03)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: mean_field(0.0), "alpha must be finite and > 0"),
        (lambda: theory.MeanField(PI, FEATURES[1:], VALUES, 1.0), "one row per state"),
        (lambda: theory.MeanField(PI / 2, FEATURES, VALUES, 1.0), "stationary must hold"),
    ],
)
def test_bad_input_is_named(make, words):
    with pytest.raises(ValueError, match=words):
        make()
