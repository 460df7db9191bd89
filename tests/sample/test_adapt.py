import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc
from helpers import MEAN, SHAPES, VARIANCE, log_gamma, run
from srmc.sample.tune import Continuous, adapt
from srmc.sample.tune.kernels import KERNELS


@pytest.mark.parametrize(
    (
        "kernel",
        "margin",
    ),  # BlackJAX's window adaptation ends on short windows, and on the safe side
    [("mh", 0.05), ("mala", 0.05), ("hmc", 0.17), ("nuts", 0.17)],
)
def test_adaptation_reaches_its_acceptance_rate(kernel, margin):
    tuner = Continuous(kernel, 3 if kernel == "hmc" else None)
    warmup = tuner.adapt(log_gamma, jax.random.key(0), jnp.ones((8, 2)), 500)
    algorithm = tuner.build(log_gamma, warmup.parameters, alpha=0.0)
    _, stats, _ = run(algorithm, jax.random.key(1), warmup.positions, 400)
    assert abs(stats.acceptance_rate.mean() - KERNELS[kernel].acceptance) < margin


@pytest.mark.parametrize("kernel", ["ula", "uld"])
def test_unadjusted_kernels_get_a_step_with_little_bias(kernel):
    """Means and variances of long runs, which an unadjusted kernel with too long a step misses."""
    tuner, starts = Continuous(kernel), jnp.tile(jnp.asarray(MEAN, float), (64, 1))
    warmup = tuner.adapt(log_gamma, jax.random.key(0), starts, 500)
    bias = {}
    for factor in (1.0, 8.0):
        parameters = dict(warmup.parameters)
        parameters["step_size"] = parameters["step_size"] * factor
        algorithm = tuner.build(log_gamma, parameters, alpha=0.0)
        exact = jnp.log(jax.random.gamma(jax.random.key(1), SHAPES, (64, 2)))
        draws, _, _ = run(algorithm, jax.random.key(2), exact, 8000)
        off = np.abs(draws.mean(axis=(0, 1)) - MEAN) / np.sqrt(VARIANCE)
        bias[factor] = max(np.max(off), np.max(np.abs(draws.var(axis=(0, 1)) / VARIANCE - 1)))
    assert bias[1.0] < 0.2
    assert bias[8.0] > 0.3  # so that the test has power


def test_a_chain_that_starts_where_only_tiny_steps_are_accepted_gets_away():
    starts = jnp.full((8, 3), 0.1).at[0].set(30.0)
    quartic = lambda x: -jnp.sum(x**4) / 4
    warmup = Continuous("mala").adapt(quartic, jax.random.key(0), starts, 400)
    assert np.max(np.abs(warmup.positions)) < 5


def test_an_unknown_kernel_is_named():
    with pytest.raises(ValueError, match=r"kernel must be one of 'mh', .* got 'gibbs'"):
        Continuous("gibbs")


@pytest.mark.parametrize("kernel", ["mh", "mala", "ula", "uld", "nuts"])
def test_every_score_of_warm_up_is_counted(kernel):
    """Beside a log density that counts how often it is differentiated."""
    count = 0

    def counted(_):
        nonlocal count
        count += 1

    @jax.custom_jvp
    def density(x):
        return log_gamma(x)

    @density.defjvp
    def density_jvp(primals, tangents):
        jax.debug.callback(counted, primals[0])
        return jax.jvp(log_gamma, primals, tangents)

    warmup = Continuous(kernel).adapt(density, jax.random.key(0), jnp.ones((1, 2)), 200)
    jax.effects_barrier()
    assert 0 <= count - int(warmup.gradients) <= 4  # the states in which phases begin


def test_another_acceptance_rate_can_be_asked_for():
    tuner = Continuous("mala", target_acceptance=0.9)
    warmup = tuner.adapt(log_gamma, jax.random.key(0), jnp.ones((8, 2)), 500)
    algorithm = tuner.build(log_gamma, warmup.parameters, alpha=0.0)
    _, stats, _ = run(algorithm, jax.random.key(1), warmup.positions, 400)
    assert abs(stats.acceptance_rate.mean() - 0.9) < 0.05


CORRELATED = np.linalg.inv(0.98 * np.ones((3, 3)) + 0.02 * np.eye(3)).astype(np.float32)


def correlated(x):
    return -0.5 * x @ CORRELATED @ x


def test_metrics_of_low_rank_are_found_one_chain_at_a_time(monkeypatch):
    """Decompositions of several matrices at once, in a program of BlackJAX's, hang on one core."""
    sizes, program = [], adapt._window_program

    def noting(*args):
        def run(*given):
            text = str(jax.make_jaxpr(program(*args))(*given))
            sizes.extend(re.findall(r":f32\[([\d,]*)\] = (?:svd|eigh|qr)\[", text))
            raise InterruptedError

        return run

    monkeypatch.setattr(adapt, "_window_program", noting)
    tuner = Continuous("nuts", metric="low_rank")
    with pytest.raises(InterruptedError):
        tuner.adapt(correlated, jax.random.key(0), jnp.zeros((4, 3)), 100)
    assert sizes
    assert max(size.count(",") for size in sizes) <= 1


def test_metrics_with_correlations_allow_longer_steps(tmp_path):
    """Steps of a diagonal metric are those of the narrowest direction, a seventh of the widest."""
    options = {"kernel": "hmc", "num_integration_steps": 2, "num_warmup": 300, "num_samples": 20}
    options |= {"num_chains": 2, "initial_position": np.zeros(3, np.float32), "progress": False}
    steps, draws = {}, {}
    for metric in ("diag", "dense", "low_rank"):
        folder = tmp_path / metric
        result = srmc.sample(correlated, metric=metric, checkpoint=folder, **options)
        steps[metric], draws[metric] = result.about["measured"]["step_size"], result.base["x"]
    assert steps["dense"] > 2 * steps["diag"]
    assert steps["low_rank"] > 2 * steps["diag"]
    resume = options | {"checkpoint": tmp_path / "low_rank", "resume": True}
    again = srmc.sample(correlated, metric="low_rank", **resume | {"num_samples": 40})
    np.testing.assert_array_equal(again.base["x"][:, :20], draws["low_rank"])
    with pytest.raises(ValueError, match="metric was 'low_rank' and is 'dense'"):
        srmc.sample(correlated, metric="dense", **resume)


def test_the_depth_of_trees_is_limited():
    result = srmc.sample(
        correlated,
        max_tree_depth=1,
        num_warmup=100,
        num_samples=50,
        initial_position=np.zeros(3, np.float32),
        progress=False,
    )
    assert np.max(result.stats["gradients"]) == 1
    assert any("largest tree depth, 1," in text for text in result.warnings)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"target_acceptance": 0.0}, "target_acceptance must be finite and > 0"),
        ({"target_acceptance": 1.0}, "target_acceptance must be below 1"),
        ({"target_acceptance": 0.9, "kernel": "ula"}, "target_acceptance is for kernel 'mh'"),
        ({"target_acceptance": 0.9, "step_size": 0.1}, "give it or step_size, and not both"),
        ({"max_tree_depth": 0}, "max_tree_depth must be >= 1"),
        ({"max_tree_depth": 5, "kernel": "hmc"}, "max_tree_depth is for kernel 'nuts', got 'hmc'"),
        ({"metric": "full"}, "metric must be one of 'diag', 'dense', 'low_rank', got 'full'"),
        ({"metric": "dense", "kernel": "mala"}, "metric='dense' is for kernel 'hmc'"),
    ],
)
def test_what_warm_up_cannot_find_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        srmc.sample(correlated, initial_position=np.zeros(3, np.float32), **given)
