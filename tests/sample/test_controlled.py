"""Moments of a stream by control variates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc
from srmc.sample.moments import _coefficients

OPTIONS = {"keep": "moments", "kernel": "hmc", "num_samples": 640, "progress": False}


def skewed(x):
    """Log-gamma variables of shape 2, at 100 and in units of 10; and a normal one."""
    z = (x["a"] - 100) / 10
    return jnp.sum(2 * z - jnp.exp(z)) - jnp.sum(x["b"] ** 2) / 2


START = {"a": jnp.full(3, 104.0), "b": jnp.zeros(())}
MEAN, VARIANCE = 100 + 10 * 0.42278434, 64.4934  # digamma(2), and 100 trigamma(2)


@pytest.fixture(scope="module")
def runs():
    sample = lambda seed, **more: srmc.sample(
        skewed, initial_position=START, num_warmup=300, seed=seed, **OPTIONS, **more
    )
    return [(sample(seed, alpha=0.0), sample(seed)) for seed in range(8)]


def test_errors_fall_and_hold(runs):
    off, z = {0: [], 1: []}, []
    for pair in runs:
        for side, result in enumerate(pair):
            table = result.summary().loc[["a[0]", "a[1]", "a[2]"]]
            variance = table["sd"] ** 2 / VARIANCE - 1
            off[side].append([np.mean((table["mean"] - MEAN) ** 2), np.mean(variance**2)])
        z.append((table["mean"] - MEAN) / table["error"])
    plain, controlled = (np.mean(off[side], axis=0) for side in (0, 1))
    assert controlled[0] < 0.1 * plain[0]
    assert controlled[1] < 0.3 * plain[1]
    assert 0.6 < np.sqrt(np.mean(np.square(z))) < 1.5


def test_the_plain_moments_are_there_too(runs):
    table = runs[0][1].summary(base=True).loc[["a[0]", "a[1]", "a[2]"]]
    assert np.all(np.abs(table["mean"] - MEAN) < 5 * table["error"])
    assert np.all(runs[0][1].stats["alpha"] == 0)


def test_a_normal_coordinate_is_exact_up_to_rounding(runs):
    for _, result in runs[:2]:
        row = result.summary().loc["b"]
        assert abs(row["mean"]) < 1e-5
        assert abs(row["sd"] - 1) < 1e-5


def test_what_is_no_parameter_keeps_its_plain_moments():
    options = {"initial_position": START, "num_warmup": 200, "seed": 1} | OPTIONS
    total = srmc.Keep("moments", statistics=lambda draw: {"total": draw["a"].sum()})
    result = srmc.sample(skewed, **options | {"keep": total})
    found, plain = (result.summary(base=base).loc["total"] for base in (False, True))
    assert found.to_list() == plain.to_list()


def test_resumed_it_is_the_same(tmp_path, runs):
    options = {"initial_position": START, "num_warmup": 300, "seed": 0} | OPTIONS
    stored = srmc.sample(skewed, **options, checkpoint=tmp_path / "run")
    again = srmc.sample(skewed, **options, checkpoint=tmp_path / "run", resume=True)
    whole = runs[0][1].summary()
    np.testing.assert_array_equal(stored.summary(), whole)
    np.testing.assert_array_equal(again.summary(), whole)


def test_coefficients_are_those_of_least_squares():
    rng = np.random.default_rng(0)
    phi = rng.normal(size=(64, 2, 3)) + 1
    f = np.einsum("npk,pk->nk", phi, [[1, 2, 3], [4, 5, 6.0]])[:, None] + 7
    np.testing.assert_allclose(_coefficients(f, phi)[0], [[1, 2, 3], [4, 5, 6]], rtol=1e-6)


def test_repellence_can_still_be_asked_for():
    """`repellence={}` repels the chain while it runs, with the strength of the warm-up."""
    options = {"initial_position": START, "num_warmup": 300, "seed": 0} | OPTIONS
    result = srmc.sample(skewed, **options, repellence={})
    assert np.any(np.asarray(result.stats["alpha"]) > 0)
    assert jax.tree.all(jax.tree.map(lambda x: np.all(np.isfinite(x)), result.moments))
