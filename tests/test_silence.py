"""Nothing odd is taken in silence: it is refused by name, or what is wrong is the only warning."""

import re
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray

import srmc
from srmc._checks import as_seed

QUICK = {"num_warmup": 100, "num_samples": 20, "num_chains": 2, "progress": False}
ZERO = np.zeros(2, np.float32)


def normal(x):
    return -0.5 * jnp.sum(x**2)


def sample(density=normal, **options):
    return srmc.sample(density, **QUICK | {"initial_position": ZERO} | options)


@pytest.mark.parametrize(
    ("density", "said"),
    [
        (lambda x: 0.0 * jnp.sum(x), "the log density is flat: its gradient was 0 at every draw"),
        (lambda x: jnp.sum(x**2) / 2, "the log density grows .* Check its sign"),
        (lambda x: x[0] ** 4 - x[1] ** 2, "the log density grows .* probably improper"),
    ],
    ids=["flat", "sign", "one coordinate"],
)
def test_an_improper_density_is_called_that_and_nothing_else(density, said):
    with pytest.warns(srmc.RunWarning, match=said):
        result = sample(density)
    *about_moves, last = result.warnings
    assert re.match(said, last)
    assert all(text.startswith("the draws are unchanged") for text in about_moves)


@pytest.mark.parametrize(
    ("density", "said"),
    [
        (lambda x: 0.0 * jnp.sum(x), "the log density is flat"),
        (lambda x: jnp.sum(x**2) / 2, "the log density grows .* Check its sign"),
    ],
    ids=["flat", "sign"],
)
def test_moments_of_an_improper_density_are_called_that(density, said):
    with pytest.warns(UserWarning, match=said):
        sample(density, kernel="mala", keep="moments")


def test_proper_densities_are_not_taken_for_improper(recwarn):
    targets = [lambda x: -0.5 * jnp.sum(x**2), lambda x: -jnp.sum(jnp.log1p(x**2))]
    targets += [lambda x: jnp.logaddexp(*(-0.5 * jnp.sum((x - m) ** 2) for m in (-3, 3)))]
    for density in targets:
        result = sample(density, num_samples=200)
        assert not any("improper" in text for text in result.warnings)
    sample(targets[0], kernel="mala", keep="moments")
    assert not any("improper" in str(one.message) for one in recwarn)


def test_few_draws_are_not_rebalanced_in_silence():
    for count in (1, 3):
        draws = np.random.default_rng(0).normal(size=(4, count, 2))
        with pytest.warns(UserWarning, match="are unchanged: there are fewer than 4 draws"):
            same = srmc.rebalance(draws, lambda x: -x)
        np.testing.assert_array_equal(same, draws)


def test_a_key_is_a_seed():
    assert as_seed("seed", jax.random.key(5)) == as_seed("seed", jax.random.PRNGKey(5)) == 5
    split = jax.random.split(jax.random.key(0))[0]
    draws = lambda seed: sample(seed=seed, alpha=0.0, kernel="mala").draws["x"]
    np.testing.assert_array_equal(draws(jax.random.key(5)), draws(5))
    by_key, by_number = draws(split), draws(as_seed("seed", split))
    np.testing.assert_array_equal(by_key, by_number)
    assert not np.array_equal(by_key, draws(as_seed("seed", split) % 2**32))


def test_shapes_of_numpyro_variables_are_those_of_the_model():
    numpyro = pytest.importorskip("numpyro")

    def model():
        numpyro.sample("a", numpyro.distributions.Normal(0.0, 1.0))

    with pytest.raises(ValueError, match=r"initial_position of a must have shape \(\), got \(3,\)"):
        sample(model, initial_position={"a": np.zeros(3, np.float32)})
    draws = np.random.default_rng(0).normal(size=(2, 50, 2))
    trace = xarray.DataTree.from_dict(
        {"posterior": xarray.Dataset({"a": (("chain", "draw", "d"), draws)})}
    )
    with pytest.raises(ValueError, match=r"a has shape \(2,\) in trace and \(\) in the model"):
        srmc.improve(trace, model, progress=False)


def test_shapes_of_pymc_variables_are_those_of_the_model():
    pm = pytest.importorskip("pymc")
    with pm.Model() as model:
        pm.Normal("a")
    with pytest.raises(ValueError, match=r"initial_position of a must have shape \(\), got \(3,\)"):
        sample(model, initial_position={"a": np.zeros(3)})
    with pm.Model() as empty:
        pm.Data("y", np.zeros(3))
    with pytest.raises(ValueError, match="model must have a free variable to sample"):
        sample(empty, initial_position=None)


def test_what_numpyro_refuses_is_said_of_the_model():
    numpyro = pytest.importorskip("numpyro")
    dist = numpyro.distributions

    def twice():
        numpyro.sample("a", dist.Normal(0.0, 1.0))
        numpyro.sample("a", dist.Normal(0.0, 1.0))

    def regression(y, scale=1.0):
        a = numpyro.sample("a", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(a, scale), obs=y)

    with pytest.raises(ValueError, match=r"model must run, .* unique names"):
        sample(twice, initial_position=None)
    bad = ({"y": "abc"}, {"y": np.zeros(3), "scale": -1.0})
    for data in bad:
        with pytest.raises((ValueError, TypeError), match="data"):
            sample(regression, data=data, initial_position=None)

    def own(y):
        numpyro.sample("a", dist.Normal(0.0, 1.0))
        raise ValueError("of my own")

    with pytest.raises(ValueError, match=r"^of my own$"):
        sample(own, data=(np.zeros(3),), initial_position=None)


def test_sizes_that_do_not_fit_say_what_does(monkeypatch):
    monkeypatch.setattr(sys.modules["srmc.sample.plan"], "memory_size", lambda: 1e9)
    wide = {"initial_position": np.zeros(1000, np.float32)}
    with pytest.raises(ValueError, match=r"num_samples=1000000 is too large.*take 8 GB.*has 1 GB"):
        sample(num_samples=10**6, **wide)
    with pytest.raises(ValueError, match=r"num_chains=100000000 is too large: 1 draws"):
        sample(num_chains=10**8, keep="moments")
