import numpy as np
import pytest
from scipy.signal import lfilter

import srmc
from srmc import metrics


def ar1(rng, phi, shape):
    noise = rng.normal(size=(*shape[:-1], shape[-1] + 300))
    return (lfilter([1], [1, -phi], noise) * np.sqrt(1 - phi**2))[..., 300:]


@pytest.mark.parametrize("phi", [-0.5, 0.0, 0.5, 0.9])
def test_batch_means_intervals_hold_for_autoregressions(phi):
    rng = np.random.default_rng(0)
    series = ar1(rng, phi, (400, 1000))
    held = [abs(x.mean()) < 1.96 * metrics.batch_means_error(x[None]) for x in series]
    assert 0.92 < np.mean(held) < 0.98


def loop(rng, alpha, share, length=1000, chains=2, dim=3):
    """Draws f = r + u of a linear loop, with `share` of their variance in u; u, gain and alpha."""
    base = ar1(rng, 0.5, (chains, dim, length)).transpose(0, 2, 1)
    rest = ar1(rng, 0.3, (chains, dim, length)).transpose(0, 2, 1)
    gain = 0.05 / (1 + alpha) * (1 + np.arange(length) / length) ** -0.8
    theta, u = np.zeros(dim), np.empty_like(base)
    for n in range(length):
        u[:, n] = base[:, n] - alpha * theta
        theta = theta + gain[n] * (u[:, n].mean(axis=0) - theta)
    values = np.sqrt(1 - share) * rest + np.sqrt(share) * u
    wide = lambda x: np.broadcast_to(x, (chains, length))
    return values, u, wide(gain), wide(np.asarray(alpha))


@pytest.mark.parametrize("share", [0.0, 0.9, 1.0])
def test_intervals_of_a_repelled_run_hold(share):
    rng = np.random.default_rng(1)
    held, ratio = [], []
    for _ in range(120):
        values, *rest = loop(rng, 10.0, share)
        error = metrics.repelled_error(values, *rest, shared=True)
        held.append(np.abs(values.mean(axis=(0, 1))) < 1.96 * error)
        ratio.append(error / metrics.batch_means_error(values))
    assert 0.9 < np.mean(held) < 0.99
    assert np.mean(ratio) < 1.2 - 0.7 * share


def test_chains_with_own_histories_are_taken_one_by_one():
    rng = np.random.default_rng(2)
    held = []
    for _ in range(80):
        parts = [loop(rng, 10.0, 0.9, chains=1) for _ in range(3)]
        values, *rest = (np.concatenate(x) for x in zip(*parts, strict=True))
        error = metrics.repelled_error(values, *rest, shared=False)
        held.append(np.abs(values.mean(axis=(0, 1))) < 1.96 * error)
    assert 0.92 < np.mean(held) < 0.98


def test_without_features_that_act_it_is_batch_means():
    rng = np.random.default_rng(3)
    values, u, gain, alpha = loop(rng, 10.0, 0.5)
    plain = metrics.batch_means_error(values)
    np.testing.assert_array_equal(
        metrics.repelled_error(values, 0 * u, gain, alpha, shared=True), plain
    )
    few = slice(0, 5)
    np.testing.assert_array_equal(
        metrics.repelled_error(*(x[:, few] for x in (values, u, gain, alpha)), shared=True),
        metrics.batch_means_error(values[:, few]),
    )


def test_errors_between_chains_hold():
    rng = np.random.default_rng(4)
    held = []
    for _ in range(400):
        chains = ar1(rng, 0.9, (5, 200))
        held.append(abs(chains.mean()) < 1.96 * metrics.between_chains_error(chains))
    assert 0.92 < np.mean(held) < 0.98
    with pytest.raises(ValueError, match="draws must be of at least 2 chains, got 1"):
        metrics.between_chains_error(np.ones((1, 10)))


def test_a_summary_tells_the_error_of_a_repelled_run():
    options = {"num_warmup": 400, "num_samples": 400, "progress": False}
    result = srmc.sample(srmc.targets.gaussian(4), alpha=10.0, **options)
    assert result.stats["features"].shape == (4, 400, 4 + 10)
    mean, error = (result.summary()[name] for name in ("mean", "error"))
    assert np.mean(error) < 0.6 * np.mean(metrics.batch_means_error(result.draws["x"]))
    assert np.all(np.abs(mean) < 5 * error)


@pytest.mark.parametrize("length", [1, 2, 5, 11])
def test_short_runs_have_an_error_if_they_can(length):
    series = np.random.default_rng(5).normal(size=(2, length, 3))
    error = metrics.batch_means_error(series)
    assert np.all(np.isnan(error)) if length == 1 else np.all(error > 0)


def test_what_is_not_finite_spoils_its_own_coordinate_only():
    rng = np.random.default_rng(6)
    values, u, gain, alpha = loop(rng, 10.0, 0.5)
    values[0, 3, 1] = np.nan
    for error in (
        metrics.batch_means_error(values),
        metrics.repelled_error(values, u, gain, alpha, shared=True),
        metrics.autocorrelation_time(values),
    ):
        np.testing.assert_array_equal(np.isnan(error), [False, True, False])
    u[0, 3] = np.inf
    error = metrics.repelled_error(values, u, gain, alpha, shared=True)
    np.testing.assert_array_equal(np.isnan(error), [False, True, False])


def test_chains_that_are_stuck_apart_show():
    rng = np.random.default_rng(7)
    stuck = rng.normal(size=(4, 500, 2)) * 0.1 + np.array([-5, 5, 5, 5])[:, None, None] * [1, 0]
    wide, narrow = metrics.batch_means_error(stuck)
    assert wide > 2 > 0.01 > narrow
    u, gain, alpha = rng.normal(size=(4, 500, 1)), np.full((4, 500), 0.01), np.ones((4, 500))
    for shared in (True, False):
        wide, narrow = metrics.repelled_error(stuck, u, gain, alpha, shared=shared)
        assert wide > 2 > 0.01 > narrow
