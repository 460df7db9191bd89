import jax
import jax.numpy as jnp
import numpy as np
import pytest

from conftest import log_gamma
from srmc import _run, _tune


@pytest.mark.parametrize(
    (
        "kernel",
        "margin",
    ),  # BlackJAX's window adaptation ends on short windows, and on the safe side
    [("mh", 0.05), ("mala", 0.05), ("hmc", 0.17), ("nuts", 0.17)],
)
def test_adaptation_reaches_its_acceptance_rate(kernel, margin):
    recipe = _tune.RECIPES[kernel]
    settings = {"num_integration_steps": 3} if kernel == "hmc" else {}
    warmup = _tune.adapt(kernel, log_gamma, jax.random.key(0), jnp.ones((8, 2)), 500, **settings)
    algorithm = recipe.build(log_gamma, alpha=0.0, **warmup.parameters)
    run = _run.run(algorithm, jax.random.key(1), jax.vmap(algorithm.init)(warmup.positions), 400)
    assert abs(run.stats["acceptance_rate"].mean() - recipe.acceptance) < margin


@pytest.mark.parametrize("kernel", ["ula", "uld"])
def test_unadjusted_kernels_get_a_step_with_little_bias(kernel):
    warmup = _tune.adapt(kernel, log_gamma, jax.random.key(0), jnp.ones((8, 2)), 500)
    assert 0.005 < warmup.parameters["step_size"] < 1.0  # in units of the scale
    assert np.all(np.isfinite(warmup.positions))


def test_a_chain_that_starts_where_only_tiny_steps_are_accepted_gets_away():
    starts = jnp.full((8, 3), 0.1).at[0].set(30.0)
    quartic = lambda x: -jnp.sum(x**4) / 4
    warmup = _tune.adapt("mala", quartic, jax.random.key(0), starts, 400)
    assert np.max(np.abs(warmup.positions)) < 5


def test_an_unknown_kernel_is_named():
    with pytest.raises(ValueError, match=r"kernel must be one of 'mh', .* got 'gibbs'"):
        _tune.adapt("gibbs", log_gamma, jax.random.key(0), jnp.ones((2, 2)), 100)
