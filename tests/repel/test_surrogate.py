import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc
from helpers import log_gamma, log_gamma_tree

X, U, ALPHA = np.array([0.4, -0.7]), np.array([0.2, 0.5]), 1.3


def tilted(x, u, alpha):
    return log_gamma(x) - alpha * u @ jax.grad(log_gamma)(x)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    "surrogate",
    [
        srmc.tilt(),
        srmc.tilt("finite-difference"),
        srmc.tilt("finite-difference", central=True),
        srmc.tilt("shifted"),
    ],
)
def test_the_value_of_a_tilt_is_exact(surrogate):
    x, u, alpha = map(jnp.asarray, (X, U, ALPHA))
    bent = surrogate.bend(log_gamma)
    expected = tilted(x, u, alpha)
    assert float(bent(x, u, alpha)) == pytest.approx(float(expected), rel=1e-14)
    value, _ = jax.value_and_grad(bent)(x, u, alpha)
    assert float(value) == pytest.approx(float(expected), rel=1e-14)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("surrogate", "tolerance"),
    [
        (srmc.tilt(), 1e-13),
        (srmc.tilt("finite-difference", eps=1e-4), 1e-4),
        (srmc.tilt("finite-difference", eps=1e-3, central=True), 1e-7),
    ],
)
def test_the_gradient_of_a_tilt(surrogate, tolerance):
    x, u, alpha = map(jnp.asarray, (X, U, ALPHA))
    expected = jax.grad(tilted, argnums=(0, 1, 2))(x, u, alpha)
    gradient = jax.grad(surrogate.bend(log_gamma), argnums=(0, 1, 2))(x, u, alpha)
    for a, b in zip(gradient, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance)


@pytest.mark.usefixtures("x64")
def test_the_finite_difference_is_the_paper_s():
    x, u, eps = jnp.asarray(X), jnp.asarray(U), 0.5
    s = jax.grad(log_gamma)
    gradient = jax.grad(srmc.tilt("finite-difference", eps=eps).bend(log_gamma))(x, u, ALPHA + x[0])
    expected = s(x) - (ALPHA + x[0]) * (s(x + eps * u) - s(x)) / eps
    np.testing.assert_allclose(gradient, expected, rtol=1e-12)


@pytest.mark.usefixtures("x64")
def test_the_shifted_rule_is_the_score_of_the_shift():
    x, u, alpha = map(jnp.asarray, (X, U, ALPHA))
    gradient = jax.grad(srmc.tilt("shifted").bend(log_gamma))(x, u, alpha)
    np.testing.assert_allclose(gradient, jax.grad(log_gamma)(x - alpha * u), rtol=1e-13)
    gradient = jax.grad(srmc.shift().bend(log_gamma))(x, u, alpha)
    np.testing.assert_allclose(gradient, jax.grad(log_gamma)(x - alpha * u), rtol=1e-13)


@pytest.mark.usefixtures("x64")
def test_shift_and_tilt_agree_on_a_gaussian():
    logp = srmc.targets.gaussian(4).logdensity_fn
    x, u = jax.random.normal(jax.random.key(0), (2, 4))
    difference = lambda x: (
        srmc.tilt().bend(logp)(x, u, jnp.asarray(ALPHA))
        - srmc.shift().bend(logp)(x, u, jnp.asarray(ALPHA))
    )
    np.testing.assert_allclose(difference(x), difference(0 * x), atol=1e-10)
    np.testing.assert_allclose(jax.grad(difference)(x), 0, atol=1e-10)


@pytest.mark.usefixtures("x64")
def test_preconditioners():
    theta = {"a": jnp.asarray(1.0), "b": jnp.asarray([2.0])}
    matrix = np.array([[2.0, 1.0], [1.0, 3.0]])
    for a, expected in [
        (None, (1, 2)),
        (2.0, (2, 4)),
        (np.array([2.0, 3.0]), (2, 6)),
        (matrix, tuple(matrix @ [1, 2])),
        (lambda t: jax.tree.map(jnp.negative, t), (-1, -2)),
    ]:
        for surrogate in (srmc.shift(preconditioner=a), srmc.tilt(preconditioner=a)):
            u = surrogate.precondition(theta)
            np.testing.assert_allclose([u["a"], u["b"][0]], expected)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("surrogate", [srmc.tilt(), srmc.tilt("shifted"), srmc.shift()])
def test_surrogates_take_pytrees(surrogate):
    x, u, alpha = map(jnp.asarray, (X, U, ALPHA))
    as_tree = lambda v: {"a": v[0], "b": v[1:]}
    flat = jax.value_and_grad(surrogate.bend(log_gamma))(x, u, alpha)
    tree = jax.value_and_grad(surrogate.bend(log_gamma_tree))(as_tree(x), as_tree(u), alpha)
    np.testing.assert_allclose(tree[0], flat[0], rtol=1e-14)
    np.testing.assert_allclose(tree[1]["a"], flat[1][0], rtol=1e-14)
    np.testing.assert_allclose(tree[1]["b"], flat[1][1:], rtol=1e-14)


def test_a_score_that_is_not_finite_means_reject():
    spike = lambda x: -jnp.sum(jnp.sqrt(jnp.abs(x)))  # finite at 0, where its score is not
    value = srmc.tilt().bend(spike)(jnp.zeros(2), jnp.ones(2), jnp.asarray(1.0))
    assert value == -jnp.inf


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: srmc.tilt("backward"), "hvp must be one of 'forward', .* got 'backward'"),
        (lambda: srmc.tilt("finite-difference", eps=0.0), "eps must be finite and > 0"),
        (lambda: srmc.tilt(central=True), "central=True needs hvp='finite-difference'"),
        (lambda: srmc.tilt(eps=0.5), "eps=0.5 needs hvp='finite-difference'"),
        (lambda: srmc.shift(preconditioner=-1.0), "preconditioner must be finite and >= 0"),
        (lambda: srmc.shift(preconditioner=np.ones((2, 2, 2))), "preconditioner must be"),
        (lambda: srmc.shift(preconditioner=np.array([1.0, np.nan])), "preconditioner must be"),
        (
            lambda: srmc.shift(preconditioner=np.ones(3)).precondition(jnp.ones(2)),
            r"preconditioner must have 2 entries per axis.*got shape \(3,\)",
        ),
    ],
)
def test_bad_surrogates_are_named(make, words):
    with pytest.raises(ValueError, match=words):
        make()
