"""Finished draws are moved in learned coordinates, where these promise smaller errors."""

import jax
import numpy as np
import pytest

import srmc
from srmc.rebalance.errors import rebalanced_error
from srmc.rebalance.learned import Turned


def banana(x):
    """x1 = y1 + 2 y0^2 of normals y; its mean is 2 and its variance is 9."""
    return -0.5 * (x[0] ** 2 + (x[1] - 2 * x[0] ** 2) ** 2)


def draws(seed, length=500):
    y = np.random.default_rng(seed).normal(size=(4, length, 2))
    return np.stack([y[..., 0], y[..., 1] + 2 * y[..., 0] ** 2], axis=2)


def scores_of(x):
    return np.asarray(jax.vmap(jax.vmap(jax.grad(banana)))(x), float)


def test_draws_return_and_scores_are_those_of_the_pytree():
    x = draws(0).reshape(-1, 2)
    s = scores_of(x[None])[0]
    found = srmc.learn_coordinates(x, s)
    turned = Turned.by(found)
    u, own = turned.forward(x, s)
    np.testing.assert_allclose(turned.inverse(u), x, atol=1e-12)
    np.testing.assert_allclose(u, found.forward(x)[:, turned.order], atol=1e-5)
    np.testing.assert_allclose(own, found.scores(x, s)[:, turned.order], atol=1e-4)


def test_means_of_a_banana_are_exact_and_variances_are_closer():
    plain, moved = [], []
    for seed in range(10):
        x = draws(seed)
        out, report = srmc.rebalance(x, scores=scores_of(x), report=True)
        assert report.coordinates is not None
        off = lambda v: np.array([v[..., 1].mean() - 2, v[..., 1].var() - 9])
        plain.append(off(x) ** 2)
        moved.append(off(out) ** 2)
    ratio = np.mean(moved, axis=0) / np.mean(plain, axis=0)
    assert ratio[0] < 1e-4
    assert ratio[1] < 0.8


def test_errors_hold_for_draws_moved_in_learned_coordinates():
    z = []
    for seed in range(20):
        x = draws(seed)
        s = scores_of(x)
        out, report = srmc.rebalance(x, scores=s, report=True)
        table = srmc.Result.of_rebalanced(out, x, s, report).summary()
        z.append((table["95%"].iloc[1] - 7.844) / table["error_95%"].iloc[1])
        error = rebalanced_error(x, x, s, report, moved=out)
        assert np.all(np.abs(out.mean(axis=(0, 1)) - [0, 2]) < 5 * error + 1e-3)
    assert np.sqrt(np.mean(np.square(z))) < 1.5


def test_draws_of_a_gaussian_are_moved_in_their_own_coordinates():
    x = np.random.default_rng(0).normal(size=(4, 500, 3))
    _, report = srmc.rebalance(x, scores=-x, report=True)
    assert report.moved
    assert report.coordinates is None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_each_chain_learns_its_own_and_the_precision_is_kept(dtype):
    x = draws(2, 1000).astype(dtype)
    out, reports = srmc.rebalance(x, scores=scores_of(x), pooled=False, report=True)
    assert out.dtype == dtype
    assert sum(report.coordinates is not None for report in reports) >= 3
