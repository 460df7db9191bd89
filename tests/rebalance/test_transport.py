"""Sums of features are those of their rows, and maps do what their fields say."""

import numpy as np
import pytest

from srmc.rebalance.coordinates import coordinates
from srmc.rebalance.transport import Form, feature_rows, mean_features, mover, no_move

FORMS = [
    Form("full", 5, products=True),
    Form("full", 9),
    Form("full"),
    Form("diagonal", 3),
    Form("diagonal"),
    Form("shift"),
]
RNG = np.random.default_rng(0)
MIXING = RNG.normal(size=(4, 4)) + 2 * np.eye(4)
X = np.sinh(RNG.normal(size=(300, 4))) @ MIXING.T
S = -np.tanh(X) + 0.1 * RNG.normal(size=X.shape)


def white_and_not():
    at = coordinates(X, S)
    yield at
    yield at._replace(root=None, inverse=None, correlation=None)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_means_of_features_are_those_of_their_rows(form):
    for at in white_and_not():
        like, z = no_move(form, 4), at.standardise(X)
        halves = [(z[:100], S[:100]), (z[100:], S[100:])]
        rows = feature_rows(at, like, z, S)
        np.testing.assert_allclose(
            mean_features(at, like, halves).flat(), rows.mean(axis=0), atol=1e-9
        )


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_feature_is_the_divergence_and_the_slope_of_the_density_along_its_field(form):
    """By differences of the map: the trace of its Jacobian, and its move times the score."""
    for at in white_and_not():
        like, z = no_move(form, 4), 0.5 * at.standardise(X[:20])  # where nothing is cut
        flat = np.zeros_like(like.flat())
        rows = feature_rows(at, like, z, S[:20])
        for k in range(0, len(flat), 5):
            weights = like.like(np.where(np.arange(len(flat)) == k, 1.0, flat))
            move, step, trace = mover(at, weights), 1e-5, 0.0
            field = lambda z, move=move: move(z) - z
            for e in np.eye(4):
                trace = trace + (field(z + step * e) - field(z - step * e)) @ e / (2 * step)
            expected = trace + np.sum(field(z) * S[:20], axis=1)
            np.testing.assert_allclose(rows[:, k], expected, rtol=1e-5, atol=1e-6)
