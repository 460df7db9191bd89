"""What is estimated from scores: features of mean 0, exact estimates on Gaussians, and the map."""

import numpy as np
import pytest
from scipy.special import digamma, ndtr, polygamma

from srmc.metrics.tails import plain_error
from srmc.rebalance import features, rule
from srmc.rebalance.choose import Bank
from srmc.rebalance.distribution import sides, solution
from srmc.rebalance.estimate import estimate
from srmc.rebalance.features import dictionaries, levels, scored
from srmc.rebalance.fit import Fit
from srmc.rebalance.match import match, symmetric_map
from srmc.rebalance.ridge import Ridge

SHAPES = np.array([0.7, 2.0, 5.0])


def log_gammas(seed, count):
    """Skewed draws and their scores."""
    x = np.log(np.random.default_rng(seed).gamma(SHAPES, size=(count, 3)))
    return x, SHAPES - np.exp(x)


def gaussian(seed, count, dim=3):
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky(0.7 ** np.abs(np.subtract.outer(np.arange(dim), np.arange(dim))))
    x = 2.0 + rng.normal(size=(count, dim)) @ root.T
    return x, -(x - 2.0) @ np.linalg.inv(root @ root.T), root @ root.T


def test_features_of_a_skewed_target_have_mean_0():
    found = list(dictionaries(scored(*log_gammas(0, 200_000))).items())
    assert [name for name, _ in found] == ["affine", "affine and marginal", "products"]
    phi = found[-1][1]
    t = phi.mean(axis=0) / (phi.std(axis=0) / np.sqrt(len(phi)))
    assert phi.shape[1] == 9 + 6 + 18
    assert np.max(np.abs(t)) < 4.5, t


@pytest.mark.parametrize("count", [40, 1000])
def test_estimates_are_exact_on_a_gaussian(count):
    x, s, covariance = gaussian(1, count)
    at = scored(x, s)
    found = estimate(at, Bank.of(at))
    mean = at.at.restore(at.at.push(found.mean[None]))[0]
    np.testing.assert_allclose(mean, 2.0, atol=1e-6)
    inner = found.second - np.outer(found.mean, found.mean)
    root = at.at.push(np.eye(3)) * at.at.scale
    np.testing.assert_allclose(root.T @ inner @ root, covariance, atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_matched_draws_have_what_was_estimated(seed):
    at = scored(*log_gammas(seed, 1000))
    found = estimate(at, Bank.of(at))
    z = match(at, found)
    y = at.at.whiten(z)
    np.testing.assert_allclose(y.mean(axis=0), found.mean, atol=1e-8)
    np.testing.assert_allclose(y.T @ y / len(y), found.second, atol=1e-6)
    share = lambda z: np.mean(z[:, None] <= found.knots, axis=0)
    off, before = (np.abs(share(z) - found.below) for z in (z, at.z))
    assert np.mean(off) < 0.2 * np.mean(before)


def test_averages_of_successive_draws_are_regressed_where_there_are_very_many(monkeypatch):
    """The means of the rows are those of the draws, and so are the estimates up to noise."""
    x, s = log_gammas(0, 6000)
    at = scored(x, s)
    every = estimate(at, Bank.of(at))
    monkeypatch.setattr(rule, "ROWS", 1999)
    monkeypatch.setattr(features, "SCORED_AT_ONCE", 1000)
    bank = Bank.of(at)
    rows = bank.rows(at.y)
    assert rows.shape == (1999, 3)
    np.testing.assert_allclose(rows.mean(axis=0), at.y.mean(axis=0), atol=1e-3)
    some = estimate(at, bank)
    for name in ("mean", "second", "below"):
        one, other = (getattr(found, name) for found in (every, some))
        np.testing.assert_allclose(one, other, atol=0.02)
    plain = x.reshape(4, 1500, 3)
    (mean,), (error,) = Fit.of(plain, s.reshape(plain.shape)).estimate(plain[..., :1])
    assert abs(mean - digamma(SHAPES[0])) < 5 * error
    assert error < 0.3 * plain_error(plain[..., :1])[0]


def test_the_symmetric_map_maps():
    rng = np.random.default_rng(0)
    now, wanted = (np.cov(rng.normal(size=(4, 50))) for _ in range(2))
    turn = symmetric_map(now, wanted)
    np.testing.assert_allclose(turn, turn.T)
    np.testing.assert_allclose(turn @ now @ turn, wanted)


def test_distribution_functions_are_exact_on_a_gaussian():
    x, s, _ = gaussian(1, 40)
    at = scored(x, s)
    found = estimate(at, Bank.of(at))
    np.testing.assert_allclose(found.below, ndtr(found.knots), atol=1e-6)


def test_steps_solve_the_equation_of_stein():
    """Of a skewed target, whose scores are not those of a Gaussian."""
    at = scored(*log_gammas(3, 100_000))
    t = levels(at.z)[::25]
    phi = (at.z[:, None] <= t) - ndtr(t) + solution(at.z, sides(at.z, at.own, t), t)
    of_mean = phi.mean(axis=0) / (phi.std(axis=0) / np.sqrt(len(phi)))
    assert np.max(np.abs(of_mean)) < 4.5, of_mean


def test_nothing_is_chosen_where_nothing_helps():
    x, s = (v.reshape(4, 250, 3) for v in log_gammas(0, 1000))
    noise = np.random.default_rng(1).normal(size=(4, 250, 20))
    mean, error = Fit.of(x, s).estimate(noise)
    plain = plain_error(noise)
    assert np.mean(mean == noise.mean(axis=(0, 1))) >= 0.5
    assert np.all(np.abs(mean - noise.mean(axis=(0, 1))) < 0.5 * plain)
    assert np.all(error > 0.8 * plain)


def test_left_out_parts_are_predicted_by_the_others():
    rng = np.random.default_rng(0)
    phi, f = rng.normal(size=(60, 4)), rng.normal(size=(60, 2))
    ridge = Ridge(phi)
    size = np.sqrt(np.mean(phi**2, axis=0))
    rest = ridge.left(f, 2.0)
    part = np.arange(60) < 60 // rule.FOLDS
    a, b = phi[~part] / size, f[~part]
    centred = a - (phi / size).mean(axis=0)
    whole = f.mean(axis=0)
    beta = np.linalg.solve(centred.T @ centred + 2 * np.eye(4), centred.T @ (b - whole))
    mean = b.mean(axis=0) - a.mean(axis=0) @ beta
    np.testing.assert_allclose(rest[part], f[part] - mean - phi[part] / size @ beta, atol=1e-8)
    np.testing.assert_allclose(ridge.errors(f, (2.0,)), np.mean(rest**2, axis=0)[None])


def test_means_of_any_functions_have_errors_that_hold():
    """Those of a skewed target, over replicates."""
    truth = np.concatenate([digamma(SHAPES), polygamma(1, SHAPES) + digamma(SHAPES) ** 2])
    z, ratios = [], []
    for seed in range(60):
        x, s = (v.reshape(4, 250, 3) for v in log_gammas(seed, 1000))
        values = np.concatenate([x, x**2], axis=2)
        mean, error = Fit.of(x, s).estimate(values)
        z.append((mean - truth) / error)
        ratios.append((mean - truth) ** 2 / (values.mean(axis=(0, 1)) - truth) ** 2)
    inside = np.mean(np.abs(z) < 1.96)
    assert 0.9 < inside < 0.995, inside
    assert np.median(ratios) < 0.2


@pytest.mark.parametrize(("count", "dim"), [(40, 50), (100, 200)])
def test_fewer_draws_than_dimensions_keep_their_size(count, dim):
    off, before = [], []
    for seed in range(4):
        x, s, _ = gaussian(seed, count, dim)
        at = scored(x, s)
        z = match(at, estimate(at, Bank.of(at)))
        y = x + at.at.scale * (z - at.z) - 2.0
        off.append(np.mean(y**2) - 1)
        before.append(np.mean((x - 2.0) ** 2) - 1)
    assert np.mean(np.square(off)) < 2 * np.mean(np.square(before))


def test_as_many_draws_as_dimensions_get_their_variances():
    x = np.random.default_rng(0).normal(size=(300, 300))
    at = scored(x, -x)
    z = match(at, estimate(at, Bank.of(at)))
    np.testing.assert_allclose(np.mean((at.at.restore(z)) ** 2, axis=0), 1.0, atol=1e-3)
