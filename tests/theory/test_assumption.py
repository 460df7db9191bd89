import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc
from srmc import theory


def test_a_gaussian_has_its_precision_as_the_limit():
    target = srmc.targets.gaussian(4)
    precision = -jax.hessian(target.logdensity_fn)(jnp.zeros(4))
    tails = theory.check_tails(target.logdensity_fn, target.position)
    assert tails.holds
    assert tails.exponent == pytest.approx(2, abs=0.01)
    assert tails.lipschitz == pytest.approx(np.linalg.norm(precision, 2), rel=1e-3)
    assert tails.limits.shape == (16, 4)
    for limits in tails.limits:
        np.testing.assert_allclose(limits, np.linalg.eigvalsh(precision), rtol=1e-2)


def test_a_mixture_follows_the_wider_component():
    target = srmc.targets.mixture((0.7, 0.3), ((-1.5, 0.0), (1.5, 0.0)), (0.7, 1.0))
    tails = theory.check_tails(target.logdensity_fn, jnp.zeros(2))
    assert tails.holds
    assert tails.exponent == pytest.approx(2, abs=0.02)
    np.testing.assert_allclose(tails.limits, 1.0, rtol=0.02)


def test_a_logistic_posterior_keeps_its_prior_far_out():
    rng = np.random.default_rng(0)
    a, tau = jnp.asarray(rng.normal(size=(30, 3))), 2.0
    y = jnp.asarray(rng.random(30) < 0.5, float)

    def logdensity(x):
        z = a @ x
        return -x @ x / (2 * tau**2) - jnp.sum(jax.nn.softplus(z) - y * z)

    tails = theory.check_tails(logdensity, jnp.zeros(3), scale=10.0)
    bound = 1 / tau**2 + np.linalg.norm(np.asarray(a.T @ a), 2) / 4
    assert tails.holds
    assert 1 / tau**2 < tails.lipschitz <= bound
    np.testing.assert_allclose(tails.limits, 1 / tau**2, rtol=0.02)


def test_huber_with_a_ridge_keeps_the_ridge():
    huber = lambda x: jnp.where(jnp.abs(x) < 1, x**2 / 2, jnp.abs(x) - 0.5)
    tails = theory.check_tails(lambda x: -jnp.sum(huber(x)) - 0.25 * jnp.sum(x**2), jnp.zeros(3))
    assert tails.holds
    np.testing.assert_allclose(tails.limits, 0.5, rtol=1e-3)


@pytest.mark.parametrize("power", [1.2, 1.5, 1.8])
def test_powers_between_1_and_2_hold_with_their_own_exponent(power):
    tails = theory.check_tails(lambda x: -(jnp.sum(x**2 + 1) ** (power / 2)), jnp.zeros(2))
    assert tails.exponent == pytest.approx(power, abs=0.02)
    assert tails.holds
    # The Hessian of |x|^p has eigenvalue p (p - 1) |x|^(p - 2) along x, and p |x|^(p - 2) across.
    expected = np.sort([power * (power - 1), power])
    np.testing.assert_allclose(tails.limits, np.tile(expected, (16, 1)), rtol=0.1)


@pytest.mark.parametrize(
    ("logdensity", "reason"),
    [
        (lambda x: -2 * jnp.sum(jnp.log1p(x**2 / 3)), "not faster than r"),  # Student-t
        (lambda x: -jnp.sum(jnp.sqrt(1 + x**2)), "not faster than r"),  # as Laplace
        (lambda x: -jnp.sum(x**4), "not Lipschitz"),
        (
            lambda x: -(x[0] ** 2) / 2 - jnp.log1p(x[1] ** 2),
            "not positive definite|does not settle",
        ),
        (lambda x: jnp.where(jnp.sum(x**2) < 50, -jnp.sum(x**2), jnp.nan), "not finite"),
    ],
)
def test_what_breaks_the_assumption_is_named(logdensity, reason):
    tails = theory.check_tails(logdensity, jnp.zeros(2))
    assert not tails.holds
    assert re.search(reason, "; ".join(tails.reasons))


def test_a_funnel_has_no_lipschitz_score():
    target = srmc.targets.funnel()
    tails = theory.check_tails(target.logdensity_fn, target.position)
    assert not tails.holds
    assert tails.lipschitz == np.inf
    assert "Hessian is not finite" in tails.reasons[0]
