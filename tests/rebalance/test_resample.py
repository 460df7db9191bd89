"""Draws of a discrete space, resampled so that Gibbs residuals have mean 0."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc
from srmc.metrics.tails import plain_error
from srmc.rebalance.resample import balanced_products, systematic

TARGET = srmc.targets.ising(srmc.targets.lattice(3, 3), 0.2, 0.1)
OPTIONS = {"num_warmup": 200, "num_samples": 1000, "progress": False}


@functools.cache
def rebalanced_run(seed):
    return srmc.sample(TARGET, **OPTIONS, seed=seed)


def exact(target):
    table = target.table
    states = np.asarray(table.states).reshape(len(table.states), -1)
    return states, np.exp(np.asarray(table.log_probability))


def test_features_have_mean_0_under_the_target():
    """Residuals and products of residuals with other sites, summed over all states."""
    states, probability = exact(TARGET)
    density = jax.vmap(lambda x: TARGET.logdensity_fn(x.reshape(TARGET.position.shape)))
    flips = states[:, None] + np.eye(9) * (1 - 2 * states[:, :, None])
    there = density(jnp.asarray(flips.reshape(-1, 9))).reshape(-1, 9)
    own = jax.nn.sigmoid(there - density(jnp.asarray(states))[:, None]) * (1 - 2 * states)
    own = np.asarray(own, float)
    phi = np.concatenate([own, balanced_products(states, own, np.full((9, 9), 0.1))], axis=1)
    assert phi.shape[1] == len(states) // 8
    np.testing.assert_allclose(probability @ phi, 0, atol=1e-5)


def test_errors_fall_and_are_reported():
    states, probability = exact(TARGET)
    mean = probability @ states
    off = {"draws": [], "base": []}
    scaled = []
    for seed in range(4):
        result = rebalanced_run(seed)
        for name, found in off.items():
            x = getattr(result, name)["x"].reshape(-1, 9)
            found.append(np.mean((x.mean(axis=0) - mean) ** 2))
        summary = result.summary()
        scaled.append((summary["mean"] - mean) / summary["error"])
    assert np.mean(off["draws"]) < 0.2 * np.mean(off["base"])
    assert np.sqrt(np.mean(np.square(scaled))) < 2


def test_the_base_chain_is_the_plain_one_and_draws_are_among_its_states():
    result = rebalanced_run(0)
    plain = srmc.sample(TARGET, **OPTIONS, alpha=0.0)
    np.testing.assert_array_equal(result.base["x"], plain.draws["x"])
    before = {tuple(x) for x in result.base["x"].reshape(-1, 9)}
    assert all(tuple(x) in before for x in result.draws["x"].reshape(-1, 9))


def test_a_biased_feature_is_left_alone():
    """A log density that is not linear in each site, with too many sites to evaluate all flips."""
    size = 80
    curved = lambda x: -0.1 * jnp.sum(x) + jnp.sum(jnp.sin(3 * x)) * 0.3
    result = srmc.sample(
        curved, space=srmc.Binary(), initial_position=np.zeros(size, np.float32), **OPTIONS
    )
    assert not result.is_rebalanced
    assert "linear in each site" in result.about["rebalancing"][0]["reason"]
    np.testing.assert_array_equal(result.draws["x"], result.base["x"])


def test_many_sites_keep_plain_draws_and_have_means_by_regression(tmp_path):
    """900 sites that are alike, so that all have the mean that is found over all of them."""
    target = srmc.targets.ising(srmc.targets.lattice(30, 30), 0.15, 0.1)
    options = OPTIONS | {"num_samples": 200}
    result = srmc.sample(target, kernel="dlmc", **options)
    assert not result.is_rebalanced
    assert "at most 700 sites" in result.about["rebalancing"][0]["reason"]
    np.testing.assert_array_equal(result.draws["x"], result.base["x"])
    some = lambda draws: draws["x"][..., :64]
    mean, error = result.estimate(some)
    truth = result.draws["x"].mean()
    plain = plain_error(some(result.draws))
    assert np.mean(error**2) < 0.6 * np.mean(plain**2)
    assert 0.6 < np.sqrt(np.mean(((mean - truth) / error) ** 2)) < 1.4
    result.save(tmp_path / "run.nc")
    np.testing.assert_allclose(srmc.load(tmp_path / "run.nc").estimate(some)[0], mean, rtol=1e-6)


@pytest.mark.parametrize("weights", [np.full(8, 1 / 8), np.array([0.5, 0.25, 0.25, 0.0])])
def test_systematic_resampling_takes_each_as_often_as_its_weight_says(weights):
    counts = np.bincount(systematic(weights), minlength=len(weights))
    assert np.all(np.abs(counts - len(weights) * weights) < 1)
