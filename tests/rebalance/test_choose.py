"""What rebalancing may spend, and what it does not evaluate twice."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc
from srmc.rebalance.assumption import _clenshaw_curtis
from srmc.rebalance.batched import Batched
from srmc.rebalance.choose import DECLINED

NUM_DRAWS = 1000


def gaussian(x):
    return -0.5 * jnp.sum((x - 1) ** 2 / jnp.array([1.0, 4.0, 0.25]))


def two_modes(x):
    return jnp.sum(jnp.logaddexp(-0.5 * (x - 3) ** 2, -0.5 * (x + 3) ** 2))


def rebalanced(draws, logdensity, **keywords):
    score = jax.grad(logdensity)
    return srmc.rebalance(
        draws,
        score,
        scores=np.asarray(jax.vmap(score)(jnp.asarray(draws))),
        logdensity_fn=logdensity,
        report=True,
        progress=False,
        **keywords,
    )


def draws_of_gaussian():
    z = np.random.default_rng(0).normal(size=(NUM_DRAWS, 3))
    return 1 + z * np.array([1.0, 2.0, 0.5])


def draws_of_modes():
    rng = np.random.default_rng(1)
    return rng.normal(size=(NUM_DRAWS, 3)) + 3 * rng.choice([-1, 1], (NUM_DRAWS, 3))


def test_little_is_spent_on_cheap_draws_near_a_gaussian():
    draws = draws_of_gaussian()
    moved, report = rebalanced(draws, gaussian, cost=NUM_DRAWS)
    assert report.form == "full, order 9"
    assert report.cost == report.gradients + report.densities / 2
    assert report.cost <= NUM_DRAWS
    assert np.max(np.abs(moved.mean(axis=0) - 1)) < 0.02
    _, unbounded = rebalanced(draws, gaussian)
    assert report.gradients < unbounded.gradients


def test_cheap_draws_stay_where_features_explain_little():
    """That is decided without a gradient, and is no reason to warn."""
    draws = draws_of_modes()
    moved, report = rebalanced(draws, two_modes, cost=NUM_DRAWS)
    assert report.form == "none"
    assert report.reason == DECLINED
    assert report.cost == 0
    np.testing.assert_array_equal(moved, draws)


@pytest.mark.parametrize(("num_draws", "form"), [(100, "full, order 3"), (70, "full")])
def test_few_draws_near_a_gaussian_get_all_linear_maps(num_draws, form):
    """Of 50 dimensions, with 1.4 draws for each of them."""
    rng = np.random.default_rng(0)
    mixing = np.eye(50) + 0.1 * rng.normal(size=(50, 50))
    precision = jnp.asarray(np.linalg.inv(mixing @ mixing.T))
    draws = rng.normal(size=(num_draws, 50)) @ mixing.T
    moved, report = rebalanced(draws, lambda x: -0.5 * x @ precision @ x, cost=20.0 * num_draws)
    assert report.form == form
    off = lambda x: np.linalg.norm(x.T @ x / num_draws - mixing @ mixing.T)
    assert off(moved) < 0.2 * off(draws)
    assert np.linalg.norm(moved.mean(axis=0)) < 0.1 * np.linalg.norm(draws.mean(axis=0))


@pytest.mark.parametrize("num_draws", [150, 700])
def test_beyond_256_dimensions_coordinates_are_whitened_if_draws_are_enough(num_draws):
    dim, rng = 300, np.random.default_rng(1)
    shared = rng.normal(size=(num_draws, 1))
    draws = rng.normal(size=(num_draws, dim)) + shared  # of covariance I + 11^T
    logdensity = lambda x: -0.5 * (x @ x - jnp.sum(x) ** 2 / (1 + dim))
    moved, report = rebalanced(draws, logdensity, cost=20.0 * num_draws)
    error = lambda x: np.mean(x.mean(axis=0) ** 2)
    if num_draws > dim:
        assert report.form.startswith("full")
        assert error(moved) < 1e-4 * error(draws)
    else:
        assert not report.form.startswith("full")
        assert error(moved) <= error(draws)


def test_a_chain_that_hardly_moved_stays():
    rng = np.random.default_rng(2)
    draws = np.cumsum(0.05 * rng.normal(size=(NUM_DRAWS, 3)), axis=0)
    _, report = rebalanced(draws, gaussian, cost=10.0 * NUM_DRAWS)
    assert report.reason == DECLINED
    assert report.cost == 0


def test_a_form_that_is_asked_for_is_worth_its_cost():
    _, report = rebalanced(draws_of_modes(), two_modes, cost=1.0, form="affine")
    assert report.form == "full"
    assert report.iterations > 0


@pytest.mark.parametrize("per_draw", [3, 10, 30])
def test_a_budget_is_kept_over_all_forms(per_draw):
    cost = per_draw * NUM_DRAWS
    _, report = rebalanced(draws_of_modes(), two_modes, cost=cost)
    assert report.cost <= 0.3 * cost + 400  # the checks are not foreseen


def test_each_chain_has_its_share_of_the_budget():
    draws = draws_of_gaussian().reshape(2, NUM_DRAWS // 2, 3)
    score = jax.grad(gaussian)
    scores = np.asarray(jax.vmap(jax.vmap(score))(jnp.asarray(draws)))
    _, reports = srmc.rebalance(
        draws, score, scores, False, logdensity_fn=gaussian, cost=4.0 * NUM_DRAWS, report=True
    )
    assert all(report.cost <= 0.6 * 2 * NUM_DRAWS for report in reports)


@pytest.mark.parametrize("cost", [0, -1.0, np.nan, np.inf])
def test_a_cost_is_positive_and_finite(cost):
    with pytest.raises(ValueError, match="cost must be"):
        rebalanced(draws_of_gaussian(), gaussian, cost=cost)


def test_repeated_draws_are_evaluated_once():
    x = np.repeat(np.arange(6.0).reshape(3, 2), [3, 1, 2], axis=0)
    function = Batched("f", jnp.sum, x[None], ())
    np.testing.assert_array_equal(function(x), x.sum(axis=1))
    assert function.count == 3


@pytest.mark.parametrize("intervals", [2, 4, 8, 16])
def test_rules_integrate_polynomials(intervals):
    nodes, weights = _clenshaw_curtis(intervals)
    for power in range(intervals + 1):
        np.testing.assert_allclose(weights @ nodes**power, 1 / (power + 1), rtol=1e-12)
    if intervals > 2:
        np.testing.assert_allclose(nodes[::2], _clenshaw_curtis(intervals // 2)[0], atol=1e-15)


def test_of_a_sticky_chain_of_a_gaussian_all_draws_are_served_by_few_scores():
    """Of 4,000 draws one in eight is scored, and the rest is foreseen."""
    rng, x = np.random.default_rng(3), np.zeros((4000, 3))
    for n in range(1, len(x)):
        x[n] = 0.99 * x[n - 1] + np.sqrt(1 - 0.99**2) * rng.normal(size=3)
    draws = 1 + x * np.array([1.0, 2.0, 0.5])
    moved, report = srmc.rebalance(
        draws, jax.grad(gaussian), logdensity_fn=gaussian, cost=4000.0, report=True, progress=False
    )
    assert report.every == 8
    assert report.gradients < 2000
    variance = lambda x: np.mean((x - 1) ** 2, axis=0) / np.array([1.0, 4.0, 0.25])
    assert np.max(np.abs(variance(draws) - 1)) > 0.1
    np.testing.assert_allclose(variance(moved), 1, atol=0.01)
