import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import MEAN, SHAPES, VARIANCE, log_gamma, run
from srmc.tune import Continuous
from srmc.tune.continuous import RECIPES


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
    assert abs(stats.acceptance_rate.mean() - RECIPES[kernel].acceptance) < margin


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
