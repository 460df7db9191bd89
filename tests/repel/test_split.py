"""Kernels that keep the score make the same draws as those that evaluate it again."""

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc
from helpers import log_gamma, short_chain

START = np.array([0.3, 1.0])
PAIRS = {
    "mala": (lambda f, **kw: srmc.mala(f, 0.1, **kw), lambda f: blackjax.mala(f, 0.1)),
    "ula": (lambda f, **kw: srmc.ula(f, 0.02, **kw), lambda f: srmc.kernels.plain.ula(f, 0.02)),
    "uld": (lambda f, **kw: srmc.uld(f, 0.2, **kw), lambda f: srmc.kernels.plain.uld(f, 0.2)),
}


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("hvp", ["exact", "finite-difference", "shifted"])
@pytest.mark.parametrize("name", PAIRS)
def test_the_draws_are_those_of_the_generic_step(name, hvp):
    ours, base = PAIRS[name]
    options = srmc.paper_settings(0.4, hvp=hvp) | {"history_average": hvp == "exact"}
    keep = lambda state, info: (state.position, state.theta, info.exponent, info.is_finite)
    found, expected = (
        short_chain(algorithm, jax.random.key(0), jnp.asarray(START), 60, keep)[1]
        for algorithm in (ours(log_gamma, **options), srmc.repel(base, log_gamma, **options))
    )
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)
    assert len(np.unique(found[0][:, 0])) > 20


@pytest.mark.usefixtures("x64")
def test_what_the_kernel_keeps_is_of_the_target_itself():
    algorithm = srmc.mala(log_gamma, 0.1, **srmc.paper_settings(2.0))
    state = algorithm.init(jnp.asarray(START))
    step = jax.jit(algorithm.step)
    for n in range(5):
        state, _ = step(jax.random.key(n), state)
    value, score = jax.value_and_grad(log_gamma)(state.position)
    np.testing.assert_allclose(state.logdensity, value, rtol=1e-12)
    np.testing.assert_allclose(state.logdensity_grad, score, rtol=1e-12)
    np.testing.assert_allclose(state.feature, score, rtol=1e-12)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("alpha", [0.0, 0.7])
def test_epsilon_may_follow_alpha(alpha):
    """s + alpha (grad U(x + alpha u) - grad U(x)) / alpha, which needs no division."""
    x, u, s = jnp.asarray(START), jnp.asarray([0.2, 0.5]), jax.grad(log_gamma)
    bent = srmc.tilt("finite-difference", eps="alpha").bend(log_gamma)
    gradient = jax.grad(bent)(x, u, jnp.asarray(alpha))
    np.testing.assert_allclose(gradient, 2 * s(x) - s(x + alpha * u), rtol=1e-14)
    strength = srmc.capped(alpha, 100)  # which begins at 0
    algorithm = srmc.mala(log_gamma, 0.1, **srmc.paper_settings(strength, hvp="finite-difference"))
    state, info = algorithm.step(jax.random.key(0), algorithm.init(x))
    assert bool(info.is_finite)
    assert int(info.gradients) == 3
    assert np.all(np.isfinite(state.position))


def test_a_repelled_kernel_on_a_tilt_can_be_repelled_once_more():
    inner = lambda f: srmc.mala(f, 0.1, **srmc.paper_settings(0.3))
    algorithm = srmc.repel(inner, log_gamma, alpha=0.2, surrogate=srmc.shift(), frame="fixed")
    keep = lambda state, info: state.position
    draws = short_chain(algorithm, jax.random.key(0), jnp.asarray(START), 30, keep)[1]
    assert np.all(np.isfinite(draws))
    assert len(np.unique(draws[:, 0])) > 10


@pytest.mark.parametrize(
    ("eps", "words"),
    [("beta", "eps must be one of 'alpha', got 'beta'"), (-1.0, "eps must be finite and > 0")],
)
def test_a_bad_epsilon_is_named(eps, words):
    with pytest.raises(ValueError, match=words):
        srmc.tilt("finite-difference", eps=eps)
