"""The parts of the experiments: chains, estimates, truth, control variates and images."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc
from srmc_studies.paper import _numbers
from srmc_studies.paper._adaptive import RuleErrors
from srmc_studies.paper._chains import Plan, Trial, averages, run
from srmc_studies.paper._control import control_variates
from srmc_studies.paper._coverage import Setting, coverage, exact_draws, mixture, rotate
from srmc_studies.paper._derivatives import derivatives, settings
from srmc_studies.paper._families import Curve
from srmc_studies.paper._images import images
from srmc_studies.paper._problems import Errors
from srmc_studies.paper._truth import posterior_truth


def build(alpha):
    logdensity = lambda x: -0.5 * jnp.sum(x**2)
    return srmc.mala(logdensity, 0.1, **srmc.paper_settings(alpha))


def test_blocks_are_one_chain_for_each_setting_with_the_random_numbers_of_its_replicate():
    alphas, starts, key = jnp.array([0.0, 0.5]), np.ones((2, 3, 2), np.float32), jax.random.key(0)
    told = []

    def fold(kept, alpha, state, info, n):
        return {"last": state.position, "step": n, "alpha": alpha}

    empty = {"last": jnp.zeros(2), "step": jnp.zeros((), int), "alpha": jnp.zeros(())}
    plan = Plan(2, 5, on_block=told.append)
    kept = run(build, alphas, starts, key, plan, empty=empty, fold=fold).kept
    means = averages(build, alphas, starts, key, plan, lambda s, _: {"x": s.position}).kept["x"]
    assert told == [1, 2, 1, 2]
    assert kept["last"].shape == means.shape == (2, 3, 2, 2)
    np.testing.assert_array_equal(kept["step"], np.broadcast_to([5, 10], (2, 3, 2)))
    np.testing.assert_array_equal(kept["alpha"][:, 0, 0], alphas)

    algorithm, replicate_key = build(0.5), jax.random.split(key, 3)[2]
    state, draws = algorithm.init(jnp.ones(2)), []
    for n in range(10):
        state, _ = jax.jit(algorithm.step)(jax.random.fold_in(replicate_key, n), state)
        draws.append(state.position)
    np.testing.assert_allclose(kept["last"][1, 2], [draws[4], draws[9]], rtol=1e-4)
    expected = np.reshape(draws, (2, 5, 2)).mean(axis=1)
    np.testing.assert_allclose(means[1, 2], expected, rtol=1e-4, atol=1e-6)


def test_of_two_that_diverged_neither_is_below():
    good, bad, worse = np.linspace(0, 1, 10), np.full(10, 1e20), np.full(10, np.nan)
    assert _numbers.below(good, bad, limit=5.0)
    assert not _numbers.below(bad, good, limit=5.0)
    assert not _numbers.below(bad, worse, limit=5.0)
    assert not _numbers.below(worse, bad, limit=5.0)


def test_a_median_is_infinite_if_half_of_the_replicates_are():
    assert _numbers.median(np.array([1.0, 2.0, np.inf, np.inf])).value == np.inf
    assert _numbers.median(np.array([1.0, 2.0, 3.0, np.inf])).value == 3.0


def test_running_errors_are_those_of_the_mean_since_burn_in():
    blocks = np.array([[100.0, 0.0], [1.0, 1.0], [3.0, 1.0]])
    errors = _numbers.running_errors(blocks, np.array([1.0, 0.0]), burn_in=1 / 3)
    np.testing.assert_allclose(errors, [1.0, 2.0])


def test_errors_are_read_off_a_curve_where_the_gradients_are_spent():
    errors = np.array([[4.0, 3.0, 2.0]])
    steps = np.array([1, 2, 3])
    curve = Curve(errors, steps, 5.0 * steps, None, np.ones(1))
    assert curve.at("gradients", 10.0) == 3.0
    assert curve.at("gradients", 14.0) == 3.0
    assert curve.at("gradients", 99.0) == curve.last == 2.0
    assert curve.at("steps", 2) == 3.0


def test_on_a_gaussian_all_derivative_rules_are_the_same():
    target = srmc.targets.gaussian()

    def draws(derivative):
        algorithm = srmc.mala(target.logdensity_fn, 0.01, **settings(2.0, derivative))
        one = lambda state, key: (algorithm.step(key, state)[0], state.position)
        keys = jax.random.split(jax.random.key(0), 30)
        return jax.lax.scan(one, algorithm.init(jnp.ones(10)), keys)[1]

    first, *others = (draws(derivative) for derivative in derivatives("full"))
    assert len(others) == 3
    for other in others:
        np.testing.assert_allclose(other, first, atol=1e-3)


def test_a_guard_that_takes_longer_is_read_off_earlier_at_equal_processor_time():
    errors = np.arange(10.0)[None, None] * np.ones((2, 3, 1))
    found = Errors(errors, np.arange(1, 11), *[np.zeros(2)] * 4, 0.0)
    rules = {("fixed", 1.0): 0, ("guarded", 1.0): 1}
    mine = RuleErrors(rules, found, {"fixed": 1e-6, "guarded": 2e-6})
    np.testing.assert_array_equal(mine.last("guarded", 1.0), 9)
    np.testing.assert_array_equal(mine.last("guarded", 1.0, "processor time"), 4)
    np.testing.assert_array_equal(mine.last("fixed", 1.0, "processor time"), 9)


def test_control_variates_are_exact_on_a_gaussian():
    x = np.random.default_rng(0).normal(size=(2, 100, 3)) + 5
    scale = np.array([[1.0, 0.3, 0.0], [0.3, 2.0, 0.0], [0.0, 0.0, 1.0]])
    np.testing.assert_allclose(control_variates(x, -(x - 5) @ scale), 5, atol=1e-9)


def test_the_truth_is_exact_on_a_gaussian_and_else_within_its_error_of_a_larger_run():
    truth = posterior_truth(srmc.targets.gaussian(), 2**13)
    np.testing.assert_allclose(truth.mean, 0, atol=1e-8)
    assert truth.variance == pytest.approx(10, rel=0.1)
    logistic = srmc.targets.logistic()
    few, many = (posterior_truth(logistic, n, seed) for n, seed in ((2**13, 1), (2**16, 2)))
    assert np.all(np.abs(few.mean - many.mean) < 5 * np.hypot(few.error, many.error))
    assert np.all(many.error < few.error)


def test_rotated_means_keep_their_distances():
    means = np.random.default_rng(0).normal(size=(6, 40))
    rotated = rotate(means)
    assert rotated.shape == (6, 5)
    distances = lambda x: np.linalg.norm(x[:, None] - x[None], axis=-1)
    np.testing.assert_allclose(distances(rotated), distances(means), atol=1e-4)


def test_coverage_counts_modes_that_overlap_and_none_that_are_far_away():
    target = mixture(np.random.default_rng(0).uniform(size=(4, 8)))
    near_and_far = [Setting(0.0), Setting(0.0, scale=1000.0)]
    trial = Trial(200, 4, 2, 0, True)
    near, far = coverage(target, 8, near_and_far, (0, 2), trial, lambda n: None)
    assert len(near) == len(far) == 2
    assert not np.array_equal(near[0].found, near[1].found)
    for seed in near:
        assert np.all(np.diff(seed.found) >= 0)
        assert seed.found[-1] == 4
        assert seed.steps == 1 + np.argmax(seed.found == 4)
    for seed in far:
        assert np.all(seed.found == 1)
        assert seed.steps == np.inf


def test_the_score_of_the_mixture_is_the_gradient_of_its_log_density():
    means = np.random.default_rng(0).uniform(size=(4, 8))
    target, setting = mixture(means), Setting(0.0, scale=9.0)
    x = jax.random.normal(jax.random.key(0), (3,))

    def logdensity(x):
        return jax.nn.logsumexp(-0.5 * jnp.sum((x[None] - 9 * target.centres) ** 2, axis=1) / 16)

    np.testing.assert_allclose(target.score(x, setting), jax.grad(logdensity)(x), rtol=1e-4)


def test_exact_draws_from_one_component_find_other_modes_where_modes_overlap():
    target = mixture(np.random.default_rng(0).uniform(size=(20, 40)))
    near = exact_draws(target, Setting(0.0), 3, 5, 40, 0)
    far = exact_draws(target, Setting(0.0, scale=1000.0), 3, 5, 40, 0)
    assert near.found[-1] > 10
    assert np.all(far.found == 1)


def test_without_data_images_are_synthetic_and_say_where_to_put_real_ones(tmp_path, monkeypatch):
    monkeypatch.delenv("SRMC_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    x, source = images(2)
    assert x.shape == (20, 3072)
    assert x.min() >= 0
    assert x.max() <= 1
    assert len(np.unique(x, axis=0)) == 20
    assert "synthetic" in source
    assert "cifar10-subset.npz" in source
    assert "$SRMC_DATA" in source

    labels = np.arange(30) % 10
    pixels = np.broadcast_to(labels[:, None, None, None], (30, 32, 32, 3)).astype(np.uint8)
    np.savez(tmp_path / "cifar10-subset.npz", x_train=pixels, y_train=labels)
    monkeypatch.setenv("SRMC_DATA", str(tmp_path))
    x, source = images(2)
    assert source == "CIFAR-10"
    np.testing.assert_allclose(255 * x, np.repeat(np.arange(10), 2)[:, None] * np.ones(3072))
