import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.special import ndtri
from scipy.stats import rankdata

from srmc import metrics
from srmc.metrics import convergence, distances


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
    with pytest.raises(ValueError, match="at least 10 draws per chain, got shape"):
        metrics.batch_means_error(np.ones((2, 5)), num_batches=10)
    with pytest.raises(ValueError, match="num_batches must be >= 2"):
        metrics.batch_means_error(np.ones((2, 5)), num_batches=1)


def test_replicate_mse_by_hand():
    found = metrics.replicate_mse([[1.0, 3.0], [1.0, 1.0], [1.0, 0.0]], [0.0, 1.0])
    each = np.array([2.5, 0.5, 1.0])
    assert found.mse == pytest.approx(each.mean())
    assert found.error == pytest.approx(each.std(ddof=1) / np.sqrt(3))
    assert found.low <= found.mse
    assert metrics.replicate_mse([2.0, 2.0], 0.0) == (4, 0, 4, 4)


@pytest.mark.parametrize("count", [2, 3])
def test_two_or_three_replicates_say_nothing_of_the_upper_end(count):
    for x in np.random.default_rng(0).normal(size=(60, count)):
        found = metrics.replicate_mse(x, 0.0)
        assert 0 <= found.low <= found.mse < found.high == np.inf


def test_the_interval_of_an_mse_scales_widens_and_ignores_blocks(monkeypatch):
    x = np.random.default_rng(0).normal(size=(30, 2, 3))
    truth = np.zeros((2, 3))
    found = metrics.replicate_mse(x, truth)
    np.testing.assert_allclose(metrics.replicate_mse(1e-100 * x, truth), 1e-200 * np.array(found))
    wide = metrics.replicate_mse(x, truth, level=0.99)
    assert 0 < wide.low < found.low < found.mse < found.high < wide.high < 3
    monkeypatch.setattr(distances, "NUMBERS_AT_ONCE", 1000)
    np.testing.assert_allclose(metrics.replicate_mse(x, truth), found, rtol=0.05)


def test_the_interval_of_an_mse_covers_skewed_errors():
    rng = np.random.default_rng(0)
    found = [metrics.replicate_mse(rng.normal(size=16), 0.0) for _ in range(200)]
    # 0.94 by a longer simulation; a t interval covers 0.88.
    assert np.mean([x.low <= 1 <= x.high for x in found]) > 0.9


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
def test_a_replicate_that_diverges_is_not_hidden(bad):
    x = np.zeros((20, 3))
    x[4, 1] = bad
    assert metrics.replicate_mse(x, np.zeros(3)) == (np.inf,) * 4


def test_kl_divergence_by_hand():
    p, u = [1, 3], [1, 1]
    assert metrics.kl_divergence(p, u) == pytest.approx(np.log(0.5) / 4 + np.log(1.5) * 3 / 4)
    assert metrics.kl_divergence(u, p) == pytest.approx(np.log(2) / 2 + np.log(2 / 3) / 2)
    assert metrics.kl_divergence(p, [10, 30]) == 0
    assert metrics.kl_divergence([1, 0, 1], [1, 1, 1]) == pytest.approx(np.log(1.5))
    assert metrics.kl_divergence([1, 1, 1], [1, 0, 1]) == np.inf
    assert metrics.kl_divergence([1e308, 1e308], u) == 0


def test_only_one_direction_of_kl_from_uniform_is_bounded():
    one_hot, nearly, u = np.eye(5)[0], np.eye(5)[0] + 1e-9, np.ones(5)
    assert metrics.kl_divergence(one_hot, u) == pytest.approx(np.log(5))
    assert metrics.kl_divergence(u, nearly) > 5 * np.log(5)


def test_total_variation_and_entropy_by_hand():
    assert metrics.total_variation([1, 0], [0, 7]) == 1
    assert metrics.total_variation([[1, 1], [2, 0]], [[2, 2], [4, 0]]) == 0
    p, q = np.random.default_rng(0).random((2, 9))
    found = metrics.total_variation(p, q)
    assert found == metrics.total_variation(q, p)
    assert 2 * found**2 <= metrics.kl_divergence(p, q)  # Pinsker's inequality
    assert metrics.normalised_entropy([1, 1, 0, 0]) == pytest.approx(0.5)
    assert metrics.normalised_entropy(np.full(7, 0.1)) == pytest.approx(1)


def cosines(x):
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    return unit @ unit.T


def test_vendi_score_by_hand():
    assert metrics.vendi_score(3 * np.eye(6)) == pytest.approx(6)
    assert metrics.vendi_score(np.ones((6, 3))) == pytest.approx(1)
    assert metrics.vendi_score(["a", "b", "a"], lambda _: np.ones((3, 3))) == pytest.approx(1)
    # K / 2 of two samples with cosine c has the eigenvalues (1 + c) / 2 and (1 - c) / 2.
    halves = np.array([0.8, 0.2])
    expected = np.exp(-halves @ np.log(halves))
    assert metrics.vendi_score([[1.0, 0.0], [0.6, 0.8]]) == pytest.approx(expected)


@pytest.mark.parametrize("shape", [(40, 7), (7, 40), (10, 2, 2)])
def test_vendi_score_is_that_of_the_whole_matrix(shape):
    x = np.random.default_rng(0).normal(size=shape)
    rows = x.reshape(len(x), -1)
    found = metrics.vendi_score(x)
    assert found == pytest.approx(metrics.vendi_score(rows, cosines))
    assert found == pytest.approx(metrics.vendi_score(np.concatenate([2 * x, x])))
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=2 * rows.shape[1:]))[0]
    assert found == pytest.approx(metrics.vendi_score(rows[::-1] @ turn))


def test_vendi_score_of_many_samples_needs_no_matrix_of_pairs():
    x = np.random.default_rng(0).normal(size=(200_000, 2))
    assert metrics.vendi_score(x) == pytest.approx(2, rel=1e-3)
    assert metrics.vendi_score(x[:2000].T) < 2.001


def test_mode_coverage_by_hand(monkeypatch):
    modes = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0], [9.0, 9.0]])
    samples = np.array([[0.0, 1.0], [np.nan, 0.0], [3.0, 0.5], [3.0, 0.1], [0.0, 4.5]])
    for numbers in (distances.NUMBERS_AT_ONCE, 4):
        monkeypatch.setattr(distances, "NUMBERS_AT_ONCE", numbers)
        assert metrics.mode_coverage(samples, modes, 1.0) == 0.5  # the radius itself is within
        assert metrics.mode_coverage(samples, modes, 0.9) == 0.25
        assert metrics.mode_coverage(samples, modes, 1.5) == 0.75
        assert metrics.mode_coverage(modes, modes, 1e-9) == 1
    assert metrics.mode_coverage(samples[[1]], modes, 100.0) == 0
    assert metrics.mode_coverage([1.0, 5.0], [1.2, 3.0], 0.5) == 0.5


def test_r_hat_tells_chains_that_agree_from_those_that_do_not():
    white = np.random.default_rng(0).normal(size=(4, 500, 2, 3))
    apart = white + 3 * np.arange(4)[:, None, None, None]
    wide = white * np.array([1, 1, 1, 10])[:, None, None, None]
    found = metrics.r_hat(
        {"white": white, "apart": apart, "wide": wide, "still": white[:, :, 0, 0] * 0}
    )
    assert found["white"].shape == (2, 3)
    assert np.all(np.abs(found["white"] - 1) < 0.03)
    assert np.all(found["apart"] > 1.5)
    assert np.all(found["wide"] > 1.1)  # which ranks alone would not see
    assert np.isnan(found["still"])
    np.testing.assert_allclose(metrics.r_hat(np.exp(white)), found["white"], atol=0.02)
    assert np.isnan(metrics.r_hat(np.where(white > 3, np.nan, white))).any()


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9, 0.97])
def test_slow_chains_that_agree_are_seldom_taken_for_others(phi):
    noise = np.random.default_rng(0).normal(size=(4, 1500, 500))
    x = lfilter([1], [1, -phi], noise, axis=1)[:, 500:]
    assert np.mean(convergence.mixing_p_value(x) < 0.01) < 0.04
    x[0] += x.std() * (1 if phi < 0.95 else 5)
    assert np.mean(convergence.mixing_p_value(x) < 0.01) > 0.7


@pytest.mark.parametrize("values", [[3.0, 1.0, 3.0, 2.0, 3.0], [0.0, -0.0, np.inf], [1.0, np.nan]])
def test_ranks_are_those_of_scipy(values):
    x = np.array(values)
    scores = convergence.normal_scores(x[None, :, None])[0, :, 0]
    np.testing.assert_array_equal(scores, ndtri((rankdata(x) - 0.375) / (len(x) + 0.25)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.replicate_mse([1.0], 0.0), "estimates must have at least 2 replicates"),
        (lambda: metrics.replicate_mse(1.0, 0.0), r"at least 2 replicates, got shape \(\)"),
        (lambda: metrics.replicate_mse(np.ones((5, 2)), np.ones(3)), r"got \(5, 2\) and \(3,\)"),
        (lambda: metrics.replicate_mse(np.ones((5, 0)), np.ones(0)), "truth must hold one number"),
        (lambda: metrics.replicate_mse([1, 2], np.nan), "truth must be finite"),
        (lambda: metrics.replicate_mse([1, 2], 0, level=0), "level must be finite and > 0, got 0"),
        (lambda: metrics.replicate_mse([1, 2], 0, level=1), "level must be < 1, got 1"),
        (lambda: metrics.kl_divergence([1, -1], [1, 1]), r"p must be .*>= 0, got \[1, -1\]"),
        (lambda: metrics.kl_divergence([1, 1], [1, np.nan]), "q must be finite"),
        (lambda: metrics.kl_divergence([1, 1], [0, 0]), r"q must have a weight > 0, got \[0, 0\]"),
        (lambda: metrics.total_variation([], []), r"p must hold one number"),
        (lambda: metrics.total_variation([1, 1], [1, 1, 1]), r"got \(2,\) and \(3,\)"),
        (lambda: metrics.normalised_entropy([3]), r"p must have at least 2 classes, got \[3\]"),
        (lambda: metrics.vendi_score([[0.0, 0.0], [1.0, 0.0]]), "no row of zeros"),
        (lambda: metrics.vendi_score([[np.nan, 0.0]]), "samples must be finite"),
        (lambda: metrics.vendi_score([]), "samples must have at least one row"),
        (lambda: metrics.vendi_score([1, 2], lambda x: np.ones(2)), r"shape \(2, 2\)"),
        (lambda: metrics.vendi_score([1, 2], lambda x: 2 * np.eye(2)), "1 on its diagonal"),
        (lambda: metrics.vendi_score([1, 2], lambda x: np.tri(2)), "symmetric"),
        (lambda: metrics.vendi_score([1, 2], lambda x: 3 - 2 * np.eye(2)), "semidefinite"),
        (lambda: metrics.mode_coverage([[1.0]], [[1.0]], 0), "radius must be finite and > 0"),
        (lambda: metrics.mode_coverage([[1.0]], [[1.0, 2.0]], 1), r"got \(1, 1\) and \(1, 2\)"),
        (lambda: metrics.mode_coverage([[1.0]], [[np.inf]], 1), "modes must be finite"),
        (lambda: metrics.mode_coverage([], [[1.0]], 1), "samples must have at least one row"),
        (lambda: metrics.r_hat(np.ones((1, 50))), r"at least 2 chains .* got shape \(1, 50\)"),
        (lambda: metrics.r_hat(np.ones((4, 3))), "and 4 draws"),
    ],
)
def test_what_metrics_cannot_take_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
