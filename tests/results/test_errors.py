"""Errors of what a summary shows."""

import numpy as np
import pytest
from scipy.stats import norm

import srmc
from srmc.results.errors import Errors

LEVELS = (0.05, 0.5, 0.95)


def test_intervals_of_single_precision_far_from_0_cover():
    """At 1e6 its steps are .06, three times the error of the median."""
    rng = np.random.default_rng(0)
    draws = (1e6 + rng.normal(size=(4, 500, 150))).astype(np.float32).astype(float)
    _, _, error, *rest = Errors().estimates(draws, draws, LEVELS)
    quantiles, errors = rest[:3], rest[4:7]
    off = [q - 1e6 - norm.ppf(level) for q, level in zip(quantiles, LEVELS, strict=True)]
    covered = np.abs(off) < 1.96 * np.array(errors)
    assert np.all(covered.mean(axis=1) > 0.9)
    assert np.mean(np.abs(draws.mean(axis=(0, 1)) - 1e6) < 1.96 * error) > 0.88


def test_moves_that_single_precision_rounds_away_are_told():
    x = (1e6 + np.random.default_rng(1).normal(size=(4, 500, 3))).astype(np.float32)
    scores = 1e6 - x.astype(float)
    with pytest.warns(UserWarning, match="lost in rounding"):
        moved, report = srmc.rebalance(x, scores=scores, report=True)
    errors = Errors.of_rebalanced(x.astype(float), scores, [report])
    found = errors.estimates(moved.astype(float), x.astype(float), LEVELS)
    assert np.all(np.isfinite(found))
    assert np.all(np.abs(found[0] - 1e6) < 4 * found[2])
    double = srmc.rebalance(x.astype(float), scores=scores)
    np.testing.assert_allclose(double.mean(axis=(0, 1)), 1e6, atol=1e-3)
