import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc
from conftest import log_gamma
from srmc import _moments, _run, _starts
from srmc.run.devices import lay_out


@pytest.fixture(scope="module")
def algorithm():
    return srmc.mala(log_gamma, 0.25, alpha=0.5, history_axis=_run.ALL_CHAINS)


def start(algorithm, chains=3):
    return jax.vmap(algorithm.init)(jnp.ones((chains, 2)))


def test_draws_do_not_depend_on_chunks_or_thinning(algorithm):
    key = jax.random.key(0)
    whole = _run.run(algorithm, key, start(algorithm), 24, grain=24)
    parts = _run.run(algorithm, key, start(algorithm), 24, grain=7, seconds=0.0)
    assert whole.draws.shape == (3, 24, 2)
    np.testing.assert_array_equal(whole.draws, parts.draws)
    for name, values in whole.stats.items():
        assert values.shape == (3, 24)
        np.testing.assert_array_equal(values, parts.stats[name])

    layout = lay_out(3, shared=True)
    task = _run.Task(algorithm, key, layout, thin=3)
    (chunk,) = _run.draws(task, layout.spread(start(algorithm)), 8, grain=8)
    np.testing.assert_array_equal(np.swapaxes(chunk.values, 0, 1), whole.draws[:, 2::3])
    gradients = whole.stats["gradients"].reshape(3, 8, 3).sum(axis=2)
    np.testing.assert_array_equal(np.swapaxes(chunk.stats["gradients"], 0, 1), gradients)


def test_a_short_chunk_keeps_no_more_than_its_draws(algorithm):
    layout = lay_out(3, shared=True)
    task = _run.Task(algorithm, jax.random.key(0), layout)
    chunk = next(_run.draws(task, layout.spread(start(algorithm)), 1000))
    assert chunk.done == 1
    assert all(x.base is None for x in jax.tree.leaves((chunk.values, chunk.stats)))


def test_moments_are_those_of_the_draws_far_from_zero_too(algorithm):
    """In single precision, at a distance of 1e4 standard deviations."""
    key, number = jax.random.key(0), 640
    whole = _run.run(algorithm, key, start(algorithm), number)
    layout = lay_out(3, shared=True)
    far = lambda state: {"x": state.position + 1e4, "y": state.position[0] ** 2}
    task = _run.Task(algorithm, key, layout, record=far)
    summed = _moments.Moments(number)
    states = layout.spread(start(algorithm))
    chunks = _moments.moments(task, _moments.begin(task, states, True), summed, number)
    assert [chunk.done for chunk in chunks][-1] == number
    shapes = {"x": jax.ShapeDtypeStruct((2,), float), "y": jax.ShapeDtypeStruct((), float)}
    moments, covariance = summed.by_name(shapes)
    x = whole.draws.astype(float)
    np.testing.assert_allclose(moments["x"]["mean"] - 1e4, x.mean(axis=1), atol=2e-3)
    np.testing.assert_allclose(moments["x"]["variance"], x.var(axis=1, ddof=1), rtol=2e-3)
    np.testing.assert_allclose(moments["y"]["mean"], (x[..., 0] ** 2).mean(axis=1), rtol=1e-5)
    assert moments["x"]["batch_means"].shape == (64, 2)
    batches = x.mean(axis=0).reshape(64, 10, 2).mean(axis=1)
    error = srmc.metrics.batch_means_error(batches[None])
    np.testing.assert_allclose(moments["x"]["error"], error, rtol=2e-2)
    everything = np.concatenate([x.reshape(-1, 2), x[..., :1].reshape(-1, 1) ** 2], axis=1)
    np.testing.assert_allclose(covariance, np.cov(everything.T), rtol=1e-2, atol=2e-3)


def test_own_histories_run_in_equal_blocks():
    for chains, block in ((1, 1), (6, 1), (8, 1), (16, 2), (1000, 125), (34, 17)):
        layout = lay_out(chains, shared=False)
        assert {len(mine) for mine in layout.chains} == {block}
        np.testing.assert_array_equal(np.concatenate(layout.chains), np.arange(chains))
    tree = {"a": np.arange(16), "b": np.ones((16, 2))}
    layout = lay_out(16, shared=False)
    collected = layout.collect(layout.spread(tree))
    np.testing.assert_array_equal(collected["a"], tree["a"])
    assert [part["b"].shape for part in layout.cut(collected)] == [(2, 2)] * 8


def test_positions_must_agree_between_chains():
    stacked = _starts.stack_positions([{"a": 1.0}, {"a": 2.0}])
    np.testing.assert_array_equal(stacked["a"], [1.0, 2.0])
    with pytest.raises(ValueError, match=r"positions must have the same structure.*chain 1"):
        _starts.stack_positions([jnp.ones(2), jnp.ones(3)])
    with pytest.raises(ValueError, match=r"positions must have the same structure.*chain 1"):
        _starts.stack_positions([{"a": 1.0}, {"b": 1.0}])
    with pytest.raises(ValueError, match="at least one chain"):
        _starts.stack_positions([])


def test_starts_are_scattered_where_the_density_is_finite():
    half = lambda x: jnp.where(x[0] > 0, log_gamma(x), jnp.nan)
    starts = _starts.scatter(half, jax.random.key(0), jnp.ones(2), 50)
    assert np.all(starts[:, 0] > 0)
    assert np.ptp(starts[:, 1]) > 1
    nearly = lambda x: jnp.where(jnp.sum(jnp.abs(x - 1)) == 0, 0.0, jnp.nan)
    with pytest.raises(ValueError, match="logdensity_fn must be finite where chains start"):
        _starts.scatter(nearly, jax.random.key(0), jnp.ones(2), 5)
    with pytest.raises(ValueError, match="num_chains must be >= 1, got 0"):
        _starts.scatter(log_gamma, jax.random.key(0), jnp.ones(2), 0)
