import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc
from srmc.repel import history


def test_gain_is_the_formula():
    gamma = srmc.gain(rho=0.6, scale=0.1, delay=2)
    assert float(gamma(3)) == pytest.approx(0.1 * 5**-0.6, rel=1e-6)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rho": 0.5}, "rho must be finite and > 0.5 and <= 1, got 0.5"),
        ({"rho": 1.1}, "rho must be finite and > 0.5 and <= 1, got 1.1"),
        ({"rho": np.nan}, "rho must be finite and > 0.5 and <= 1, got nan"),
        ({"scale": -1.0}, "scale must be finite and >= 0"),
        ({"delay": -0.1}, "delay must be finite and >= 0, got -0.1"),
    ],
)
def test_bad_gains_are_named(options, words):
    with pytest.raises(ValueError, match=words):
        srmc.gain(**options)


def test_a_gain_that_is_no_number_is_named():
    with pytest.raises(TypeError, match=r"rho must be a number, got '0\.6'"):
        srmc.gain(rho="0.6")


def test_an_axis_that_does_not_exist_is_named():
    algorithm = srmc.mala(lambda x: -jnp.sum(x**2), 0.1, alpha=0.5, history_axis="chains")
    with pytest.raises(ValueError, match=r"history_axis must name an axis .* got 'chains'"):
        algorithm.step(jax.random.key(0), algorithm.init(jnp.ones(2)))


def test_update_of_a_pytree():
    theta = {"a": jnp.zeros(()), "b": jnp.ones(2)}
    feature = {"a": jnp.ones(()), "b": jnp.zeros(2)}
    out = history.update(theta, feature, jnp.asarray(0.25), jnp.asarray(True))
    np.testing.assert_allclose(out["a"], 0.25)
    np.testing.assert_allclose(out["b"], 0.75)


def test_an_invalid_feature_has_no_say():
    theta = jnp.ones(2)
    bad = jnp.array([jnp.nan, jnp.inf])
    out = history.update(theta, bad, jnp.asarray(0.25), jnp.asarray(False))
    np.testing.assert_array_equal(out, theta)


def shared_update(theta, feature, valid, axis="c"):
    update = lambda t, f, v: history.update(t, f, jnp.asarray(0.5), v, axis)
    return jax.vmap(update, axis_name="c")(theta, feature, valid)


@pytest.mark.parametrize("axis", ["c", ("c",)])
def test_a_shared_update_averages_the_valid_chains(axis):
    feature = jnp.array([[1.0, 2.0], [jnp.nan, jnp.inf], [3.0, -4.0]])
    out = shared_update(jnp.ones((3, 2)), feature, jnp.array([True, False, True]), axis)
    np.testing.assert_allclose(out, np.tile([1.5, 0.0], (3, 1)))


def test_a_shared_update_without_any_valid_chain_changes_nothing():
    out = shared_update(jnp.ones((3, 2)), jnp.full((3, 2), jnp.nan), jnp.zeros(3, bool))
    np.testing.assert_array_equal(out, np.ones((3, 2)))
