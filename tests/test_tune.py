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
    positions, parameters = _tune.adapt(
        kernel, log_gamma, jax.random.key(0), jnp.ones((8, 2)), 500, **settings
    )
    algorithm = recipe.build(log_gamma, alpha=0.0, **parameters)
    run = _run.run(algorithm, jax.random.key(1), jax.vmap(algorithm.init)(positions), 400)
    assert abs(run.stats["acceptance_rate"].mean() - recipe.acceptance) < margin


@pytest.mark.parametrize("kernel", ["ula", "uld"])
def test_unadjusted_kernels_get_a_step_with_little_bias(kernel):
    positions, parameters = _tune.adapt(kernel, log_gamma, jax.random.key(0), jnp.ones((8, 2)), 500)
    assert 0.005 < parameters["step_size"] < 0.6
    assert np.all(np.isfinite(positions))


def test_repellence_is_in_the_units_of_the_draws():
    rng = np.random.default_rng(0)
    draws = {"a": rng.normal(size=(4, 2000)), "b": 10 * rng.normal(size=(4, 2000, 2))}
    options = _tune.repellence(draws, 3.0)
    u = options["surrogate"].precondition({"a": jnp.ones(()), "b": jnp.ones(2)})
    np.testing.assert_allclose(u["a"], 1, rtol=0.1)
    np.testing.assert_allclose(u["b"], 100, rtol=0.1)
    assert options["gain"].delay < 2.5  # independent draws have an autocorrelation time of 1
    with pytest.raises(ValueError, match="surrogate must be one of 'shift', 'tilt', got 'bend'"):
        _tune.repellence(draws, 3.0, "bend")


def test_an_unknown_kernel_is_named():
    with pytest.raises(ValueError, match=r"kernel must be one of 'mh', .* got 'gibbs'"):
        _tune.adapt("gibbs", log_gamma, jax.random.key(0), jnp.ones((2, 2)), 10)
