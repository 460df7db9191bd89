import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc
from helpers import log_gamma, run
from srmc.models import starts
from srmc.sample import loop, moments
from srmc.sample.devices import lay_out


@pytest.fixture(scope="module")
def algorithm():
    return srmc.mala(log_gamma, 0.25, alpha=0.5, history_axis=loop.ALL_CHAINS)


ONES = jnp.ones((3, 2))


def task(algorithm, record=lambda _, state: state.position, thin=1):
    build = lambda parameters: algorithm
    return loop.Task(build, {}, jax.random.key(0), lay_out(3, shared=True), record, thin)


def joined(chunks):
    """All chunks, (chain, draw, ...)."""
    join = lambda *x: np.swapaxes(np.concatenate(x), 0, 1)
    return jax.tree.map(join, *((c.recorded, c.stats) for c in chunks))


def states(task):
    return loop.start(task, jax.random.key(1), ONES)


def test_draws_do_not_depend_on_chunks_or_thinning(algorithm):
    every = task(algorithm)
    whole, stats = joined(loop.chunks(every, states(every), 24))
    parts, same_stats = joined(loop.chunks(every, states(every), 24, seconds=0.0))
    assert whole.shape == (3, 24, 2)
    np.testing.assert_array_equal(whole, parts)
    for values, again in zip(stats, same_stats, strict=True):
        assert values.shape == (3, 24)
        np.testing.assert_array_equal(values, again)

    third = task(algorithm, thin=3)
    thinned, thin_stats = joined(loop.chunks(third, states(third), 8))
    np.testing.assert_array_equal(thinned, whole[:, 2::3])
    gradients = stats.gradients.reshape(3, 8, 3).sum(axis=2)
    np.testing.assert_array_equal(thin_stats.gradients, gradients)


def test_one_program_draws_what_chunks_draw():
    """`run`, which studies and tests call, and `chunks`, which `sample` calls."""
    algorithm = srmc.mala(log_gamma, 0.25, alpha=0.5, history_axis=loop.CHAINS)
    chunked = srmc.mala(log_gamma, 0.25, alpha=0.5, history_axis=loop.ALL_CHAINS)
    draws, stats, _ = run(algorithm, jax.random.key(0), ONES, 24)
    expected, expected_stats = joined(loop.chunks(task(chunked), states(task(chunked)), 24))
    np.testing.assert_allclose(draws, expected, atol=1e-5)
    np.testing.assert_allclose(stats.theta_norm, expected_stats.theta_norm, atol=1e-4)


def test_a_short_chunk_keeps_no_more_than_its_draws(algorithm):
    every = task(algorithm)
    chunk = next(loop.chunks(every, states(every), 1000))
    assert chunk.done == 1
    assert all(x.base is None for x in jax.tree.leaves((chunk.recorded, chunk.stats)))


def test_moments_are_those_of_the_draws_far_from_zero_too(algorithm):
    """In single precision, at a distance of 1e4 standard deviations."""
    number = 640
    every = task(algorithm)
    whole, _ = joined(loop.chunks(every, states(every), number))
    far = task(algorithm, lambda _, state: {"x": state.position + 1e4, "y": state.position[0] ** 2})
    summed = moments.Accumulator(number)
    chunks = moments.moments(far, moments.begin(far, states(far), True), summed, number)
    assert [chunk.done for chunk in chunks][-1] == number
    shapes = {"x": jax.ShapeDtypeStruct((2,), float), "y": jax.ShapeDtypeStruct((), float)}
    named, covariance = summed.by_name(shapes)
    x = whole.astype(float)
    np.testing.assert_allclose(named["x"]["mean"] - 1e4, x.mean(axis=1), atol=2e-3)
    np.testing.assert_allclose(named["x"]["variance"], x.var(axis=1, ddof=1), rtol=2e-3)
    np.testing.assert_allclose(named["y"]["mean"], (x[..., 0] ** 2).mean(axis=1), rtol=1e-5)
    assert named["x"]["batch_means"].shape == (64, 2)
    batches = x.mean(axis=0).reshape(64, 10, 2).mean(axis=1)
    error = srmc.metrics.batch_means_error(batches[None])
    np.testing.assert_allclose(named["x"]["error"], error, rtol=2e-2)
    everything = np.concatenate([x.reshape(-1, 2), x[..., :1].reshape(-1, 1) ** 2], axis=1)
    np.testing.assert_allclose(covariance, np.cov(everything.T), rtol=1e-2, atol=2e-3)


def test_moments_of_chains_that_are_stuck_apart_have_the_error_between_them():
    rng = np.random.default_rng(3)
    place = np.array([-5.0, 5, 5, 5])[:, None] * [1, 0]
    summed = moments.Accumulator(640)
    for _ in range(64):
        x = place + 0.1 * rng.normal(size=(10, 4, 2))
        summed.add(10, x.mean(axis=0), 10 * x.var(axis=0), np.zeros((1, 4)))
    named, _ = summed.by_name({"x": jax.ShapeDtypeStruct((2,), float)})
    wide, narrow = named["x"]["error"]
    assert wide > 2 > 0.01 > narrow


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
    stacked = starts.stack_positions([{"a": 1.0}, {"a": 2.0}])
    np.testing.assert_array_equal(stacked["a"], [1.0, 2.0])
    with pytest.raises(ValueError, match=r"positions must have the same structure.*chain 1"):
        starts.stack_positions([jnp.ones(2), jnp.ones(3)])
    with pytest.raises(ValueError, match=r"positions must have the same structure.*chain 1"):
        starts.stack_positions([{"a": 1.0}, {"b": 1.0}])
    with pytest.raises(ValueError, match="at least one chain"):
        starts.stack_positions([])


def test_starts_are_scattered_where_the_density_is_finite():
    half = lambda x: jnp.where(x[0] > 0, log_gamma(x), jnp.nan)
    scattered = starts.scatter(half, jax.random.key(0), jnp.ones(2), 50)
    assert np.all(scattered[:, 0] > 0)
    assert np.ptp(scattered[:, 1]) > 1
    nearly = lambda x: jnp.where(jnp.sum(jnp.abs(x - 1)) == 0, 0.0, jnp.nan)
    with pytest.raises(ValueError, match="logdensity_fn must be finite where chains start"):
        starts.scatter(nearly, jax.random.key(0), jnp.ones(2), 5)
    with pytest.raises(ValueError, match="num_chains must be >= 1, got 0"):
        starts.scatter(log_gamma, jax.random.key(0), jnp.ones(2), 0)
