import numpy as np
import pytest
from scipy.signal import lfilter

from srmc import metrics


def ar1(phi, chains, steps, seed=0):
    noise = np.random.default_rng(seed).normal(size=(chains, steps + 500))
    return lfilter([1], [1, -phi], noise, axis=1)[:, 500:]


@pytest.mark.parametrize("phi", [-0.5, 0.0, 0.7])
def test_batch_means_find_the_error_of_an_autoregression(phi):
    steps, chains = 4000, 4
    exact = 1 / (1 - phi) / np.sqrt(steps * chains)
    found = np.mean([metrics.batch_means_error(ar1(phi, chains, steps, s)) for s in range(20)])
    assert found == pytest.approx(exact, rel=0.15)


def test_autocorrelation_time_of_an_autoregression():
    found = np.mean([metrics.autocorrelation_time(ar1(0.7, 4, 4000, s)) for s in range(20)])
    assert found == pytest.approx((1 + 0.7) / (1 - 0.7), rel=0.25)
    assert metrics.autocorrelation_time(np.ones((2, 100))) == 1  # a chain that never moves


def test_too_few_draws_are_named():
    with pytest.raises(ValueError, match="draws must be at least 10 a chain, got 5"):
        metrics.batch_means_error(np.ones((2, 5)), num_batches=10)
    with pytest.raises(ValueError, match="num_batches must be >= 2"):
        metrics.batch_means_error(np.ones((2, 5)), num_batches=1)
