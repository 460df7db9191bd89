import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc
from conftest import log_gamma
from srmc import _run


def start(algorithm, chains=3):
    return jax.vmap(algorithm.init)(jnp.ones((chains, 2)))


def test_draws_do_not_depend_on_chunks_or_on_who_watches():
    algorithm = srmc.mala(log_gamma, 0.25, alpha=0.5, history_axis=_run.CHAINS)
    seen = []
    whole = _run.run(algorithm, jax.random.key(0), start(algorithm), 25, chunk=25)
    parts = _run.run(
        algorithm,
        jax.random.key(0),
        start(algorithm),
        25,
        chunk=7,
        on_chunk=lambda done, stats: seen.append(done),
    )
    assert seen == [7, 14, 21, 25]
    assert whole.draws.shape == (3, 25, 2)
    np.testing.assert_array_equal(whole.draws, parts.draws)
    for name, values in whole.stats.items():
        assert values.shape == (3, 25)
        np.testing.assert_array_equal(values, parts.stats[name])


def test_an_interrupt_leaves_what_was_drawn():
    algorithm = srmc.mala(log_gamma, 0.25)

    def stop(done, stats):
        if done == 20:
            raise KeyboardInterrupt

    run = _run.run(algorithm, jax.random.key(0), start(algorithm), 50, chunk=10, on_chunk=stop)
    assert run.draws.shape == (3, 20, 2)


def test_positions_must_agree_between_chains():
    stacked = _run.stack_positions([{"a": 1.0}, {"a": 2.0}])
    np.testing.assert_array_equal(stacked["a"], [1.0, 2.0])
    with pytest.raises(ValueError, match=r"positions must have the same structure.*chain 1"):
        _run.stack_positions([jnp.ones(2), jnp.ones(3)])
    with pytest.raises(ValueError, match=r"positions must have the same structure.*chain 1"):
        _run.stack_positions([{"a": 1.0}, {"b": 1.0}])
    with pytest.raises(ValueError, match="at least one chain"):
        _run.stack_positions([])


def test_starts_are_scattered_where_the_density_is_finite():
    half = lambda x: jnp.where(x[0] > 0, log_gamma(x), jnp.nan)
    starts = _run.scatter(half, jax.random.key(0), jnp.ones(2), 50)
    assert np.all(starts[:, 0] > 0)
    assert np.ptp(starts[:, 1]) > 1
    nearly = lambda x: jnp.where(jnp.sum(jnp.abs(x - 1)) == 0, 0.0, jnp.nan)
    with pytest.raises(ValueError, match="logdensity_fn must be finite where chains start"):
        _run.scatter(nearly, jax.random.key(0), jnp.ones(2), 5)
    with pytest.raises(ValueError, match="num_chains must be >= 1, got 0"):
        _run.scatter(log_gamma, jax.random.key(0), jnp.ones(2), 0)
