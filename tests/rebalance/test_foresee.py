"""Scores of moved draws, foreseen from a regression."""

import numpy as np
import pytest

import srmc
from srmc.rebalance.coordinates import coordinates
from srmc.rebalance.foresee import regression
from srmc.rebalance.solve import apply, solve
from srmc.rebalance.transport import Form


def foreseen(x, s):
    at = coordinates(x, s)
    return at, regression(at, at.standardise(x), s * at.scale)


ROOT = np.array([[1.0, 0.0, 0.0], [0.8, 0.6, 0.0], [0.0, 0.5, 2.0]])
PRECISION = np.linalg.inv(ROOT @ ROOT.T)


def correlated(n):
    x = np.random.default_rng(0).normal(size=(n, 3)) @ ROOT.T
    return x, lambda x: -x @ PRECISION


def test_scores_of_a_gaussian_are_foreseen_exactly():
    x, score = correlated(400)
    at, found = foreseen(x, score(x))
    z = at.standardise(x)
    moved = z + 0.1 * np.sin(3 * z)
    truth = (score(at.restore(moved)) - score(x)) * at.scale
    np.testing.assert_allclose(found(moved) - found(z), truth, atol=2e-3)


def test_what_cannot_be_foreseen_is_not():
    rng = np.random.default_rng(0)
    v, noise = rng.normal(size=(2, 500))
    inverse = np.exp(-3 * v)  # of the variance of the second coordinate, of a funnel
    funnel = np.stack([v, noise / np.sqrt(inverse)], axis=1)
    s = np.stack([1.5 * (noise**2 - 1) - v, -inverse * funnel[:, 1]], axis=1)
    assert foreseen(funnel, s)[1] is None
    noisy = rng.normal(size=(500, 2))
    assert foreseen(noisy, -noisy + rng.normal(size=noisy.shape))[1] is None
    few = noisy[:10]
    assert foreseen(few, -few)[1] is None


def test_draws_without_scores_are_left_out():
    x, score = correlated(400)
    s = score(x)
    s[7] = np.nan
    at = coordinates(*(np.delete(v, 7, axis=0) for v in (x, s)))
    found = regression(at, at.standardise(x), s * at.scale)
    assert np.all(np.isfinite(found(at.standardise(x))))


def test_a_few_scores_balance_all_draws():
    x, score = correlated(400)
    s, counted = score(x), []

    def scored(rows):
        counted.append(len(rows))
        return score(rows)

    at, found = foreseen(x, s)
    solved = solve(at, Form("full", 5), x, s, scored, 60, found)
    assert set(counted) == {60}
    assert len(counted) <= 3
    assert solved.reduction < 0.2
    moved = apply(at, solved.weights, at.standardise(x))
    y = at.restore(moved)
    assert np.max(np.abs(np.mean(score(y), axis=0))) < 0.1 * np.max(np.abs(np.mean(s, axis=0)))


def test_gradients_of_a_gaussian_run_are_few():
    x, _ = correlated(1000)
    _, report = srmc.rebalance(
        x, lambda v: -PRECISION @ v, logdensity_fn=lambda v: -0.5 * v @ PRECISION @ v, report=True
    )
    assert report.form == "full, order 9"
    assert report.gradients < 2.5 * len(x)  # one of them for the scores, which were not given
    assert report.left.shift < 0.2


@pytest.mark.parametrize("dim", [40, 70, 600])
def test_terms_are_bounded_in_many_dimensions(dim):
    """Products of 70 coordinates would take a matrix of 7 million numbers."""
    x = np.random.default_rng(0).normal(size=(12_000, dim))
    found = foreseen(x, -x)[1]
    assert found is not None
    assert found._coefficients.size < 2**22
    np.testing.assert_allclose(found(x[:100]), -x[:100], atol=0.02)
