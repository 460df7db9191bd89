"""Coordinates of very many dimensions: whitened where that can be known and matters."""

import numpy as np
import pytest

from srmc.coordinates.whiten import whiten


def gaussian(dim, count, dependence):
    """Draws and scores of a Gaussian whose neighbours are correlated."""
    covariance = dependence ** np.abs(np.subtract.outer(np.arange(dim), np.arange(dim)))
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(count, dim)) @ np.linalg.cholesky(covariance).T
    return draws, -np.linalg.solve(covariance, draws.T).T


@pytest.mark.parametrize(
    ("dim", "count", "dependence", "dense"),
    [
        (300, 600, 0.8, True),
        (300, 400, 0.8, False),  # too few draws
        (300, 2000, 0.0, False),  # nothing to know
        (200, 400, 0.0, True),
        (200, 250, 0.0, False),
    ],
)
def test_many_coordinates_are_whitened_if_they_depend_on_each_other(dim, count, dependence, dense):
    at = whiten(*gaussian(dim, count, dependence))
    assert (at.root is not None) == dense


def test_whitened_coordinates_of_few_draws_are_near_white():
    draws, scores = gaussian(300, 600, 0.8)
    at = whiten(draws, scores)
    pushed = at.push(scores * at.scale)  # scores in y, of variance 1 there
    variances = np.mean((pushed - pushed.mean(axis=0)) ** 2, axis=0)
    assert 0.5 < variances.min() < variances.max() < 2.0
