"""`srmc.summary`: the same columns for results and traces, and errors that hold."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray

import srmc

SHAPES = np.array([1.5, 4.0])
density = lambda x: jnp.sum(SHAPES.astype(x.dtype) * x - jnp.exp(x))


def trace_of(draws):
    data = xarray.Dataset(
        {"x": (("chain", "draw", "kind"), draws)}, coords={"kind": ["low", "high"]}
    )
    return xarray.DataTree.from_dict({"posterior": data})


def test_a_plain_trace_has_plain_errors():
    draws = np.random.default_rng(0).normal(size=(4, 500, 2))
    table = srmc.summary(trace_of(draws), quantiles=(0.1,))
    assert list(table.index) == ["x[low]", "x[high]"]
    assert list(table.columns[:6]) == ["mean", "sd", "10%", "mcse_mean", "mcse_sd", "mcse_10%"]
    np.testing.assert_allclose(table["mean"], draws.mean(axis=(0, 1)))
    np.testing.assert_allclose(table["mcse_mean"], 2000**-0.5, rtol=0.5)
    np.testing.assert_allclose(table["gain"], 1)


def test_an_improved_trace_has_the_errors_of_rebalanced_draws():
    truth = jax.scipy.special.digamma(SHAPES)
    scores = []
    for seed in range(20):
        gamma = np.random.default_rng(seed).gamma(SHAPES, size=(2, 400, 2))
        better = srmc.improve(trace_of(np.log(gamma)), density, progress=False)
        table = srmc.summary(better)
        assert (table["gain"] > 2).all()
        scores.append((table["mean"].to_numpy() - truth) / table["mcse_mean"].to_numpy())
    assert np.sqrt(np.mean(np.square(scores))) < 1.6  # errors of few draws are on the wide side


def test_a_result_has_the_same_columns():
    result = srmc.sample(
        density,
        initial_position=jnp.zeros(2),
        num_warmup=200,
        num_samples=200,
        progress=False,
    )
    table = srmc.summary(result)
    assert {"mcse_mean", "mcse_sd", "mcse_5%", "r_hat", "ess", "gain"} <= {*table.columns}
    np.testing.assert_allclose(table["mcse_mean"], result.summary()["error"])


def improved():
    gamma = np.random.default_rng(0).gamma(SHAPES, size=(4, 250, 2))
    return srmc.improve(trace_of(np.log(gamma)), density, progress=False)


def test_a_trace_that_was_saved_has_the_same_summary(tmp_path):
    better = improved()
    better.to_netcdf(tmp_path / "better.nc", engine="h5netcdf")
    with xarray.open_datatree(tmp_path / "better.nc", engine="h5netcdf") as tree:
        again = srmc.summary(tree.load())
    before = srmc.summary(better)
    assert list(again.index) == list(before.index)
    np.testing.assert_array_equal(again.to_numpy(), before.to_numpy())


def test_the_short_view_fits_eighty_columns():
    table = srmc.summary(improved(), kind="short")
    assert list(table) == ["mean", "sd", "mcse_mean", "mcse_sd", "ess", "r_hat", "gain"]
    assert max(map(len, str(table).splitlines())) <= 80
    with pytest.raises(ValueError, match="kind must be one of 'all', 'short'"):
        srmc.summary(improved(), kind="long")


def test_what_is_no_trace_is_refused():
    with pytest.raises(TypeError, match="trace must be"):
        srmc.summary(3)
    with pytest.raises(ValueError, match="var_names must be among x"):
        srmc.summary(trace_of(np.zeros((1, 8, 2))), var_names="y")
