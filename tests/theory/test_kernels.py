"""The limit theorem for the paper's discrete score under the library's kernels on a small space."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc
from helpers import AS_USUAL
from srmc import theory

SPACE, SHAPE = srmc.Binary(), (3,)
STATES = SPACE.all_states(SHAPE)
COUPLING = np.array([[0.0, 0.5, -0.3], [0.0, 0.0, 0.4], [0.0, 0.0, 0.0]], np.float32)
ALPHA = 1.0
KERNELS = {
    "gwg": srmc.gwg,
    "dlp": lambda f, space, **kw: srmc.dlp(f, space, 0.6, **kw),
    "sqrt": srmc.locally_balanced,
    "barker": lambda f, space, **kw: srmc.locally_balanced(f, space, "barker", **kw),
    "flip": srmc.flip_mh,
}


def logdensity(x):
    """Not linear in its sites, so that the gradient misjudges every flip."""
    bias = jnp.array([0.4, -0.2, 0.3], x.dtype)
    return x @ COUPLING.astype(x.dtype) @ x + bias @ x + 0.3 * jnp.sum(jnp.sin(3 * x))


def exact_tables():
    """pi, the discrete score (eqn:discrete_score), and f, on all states."""
    value = np.array(jax.vmap(logdensity)(jnp.asarray(STATES, jnp.float32)), float)
    pi = np.exp(value) / np.exp(value).sum()
    flip = lambda i: np.abs(STATES - np.eye(3)[i]) @ [1, 2, 4]  # all_states counts in binary
    score = np.stack([pi[flip(i).astype(int)] / pi - 1 for i in range(3)], axis=1)
    return pi, score, np.stack([STATES[:, 0], STATES[:, 1] * STATES[:, 2]], axis=1)


PI, SCORE, VALUES = exact_tables()


def test_the_discrete_score_has_mean_zero_and_the_relaxed_one_has_not():
    np.testing.assert_allclose(PI @ SCORE, 0, atol=1e-12)
    gradients = jax.vmap(jax.grad(logdensity))(jnp.asarray(STATES, jnp.float32))
    assert np.abs(PI @ np.asarray(gradients)).max() > 0.1


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", KERNELS)
def test_the_matrix_leaves_the_surrogate_invariant(name):
    theta = np.array([0.2, -0.3, 0.1])
    algorithm = KERNELS[name](logdensity, SPACE, feature="stein", alpha=srmc.fixed(ALPHA))
    matrix = theory.transition_matrix(algorithm, STATES, theta, num_proposals=2048)
    tilted = theory.MeanField(PI, SCORE, VALUES, ALPHA).surrogate(theta)
    np.testing.assert_allclose(tilted @ matrix, tilted, atol=1e-6)  # PI is in single precision
    assert np.abs(PI @ matrix - PI).max() > 1e-3


@pytest.mark.parametrize("name", ["gwg", "dlp"])
def test_simulated_covariances_are_those_of_the_limit(name):
    """sqrt(n) (theta_n, mu_n - mu) for rho = 1, over replicates of the library's own sampler."""
    build, steps, replicates = KERNELS[name], 800, 2000
    plain = build(logdensity, SPACE, alpha=0.0)
    matrix = theory.transition_matrix(plain, STATES, num_proposals=2048)
    np.testing.assert_allclose(PI @ matrix, PI, atol=1e-5)
    case = theory.finite(matrix, PI / PI.sum(), SCORE, VALUES)
    exact = theory.asymptotic_covariance(*case, alpha=ALPHA, rho=1.0)
    options = {"feature": "stein", "alpha": srmc.fixed(ALPHA), "gain": srmc.gain(1.0)}
    algorithm = build(logdensity, SPACE, **options)

    def chain(key, x):
        def one(carry, key):
            state, total = carry
            state, _ = algorithm.step(key, state)
            f = jnp.stack([state.position[0], state.position[1] * state.position[2]])
            return (state, total + f), None

        carry = algorithm.init(x), jnp.zeros(2)
        (state, total), _ = jax.lax.scan(one, carry, jax.random.split(key, steps))
        return jnp.concatenate([state.theta, total / steps])

    starts = np.random.default_rng(0).choice(len(PI), replicates, p=PI / PI.sum())
    keys = jax.random.split(jax.random.key(1), replicates)
    program = jax.jit(jax.vmap(chain), compiler_options=AS_USUAL)
    out = np.asarray(program(keys, jnp.asarray(STATES[starts], jnp.float32)))
    errors = steps**0.5 * (out - np.concatenate([np.zeros(3), PI @ VALUES]))
    centred = errors - errors.mean(axis=0)
    covariance = np.cov(errors, rowvar=False)
    error = (centred[:, :, None] * centred[:, None]).std(axis=0) / replicates**0.5
    assert np.max(np.abs(covariance - exact) / error) < 4.5
    assert np.linalg.norm(covariance - exact) < 0.12 * np.linalg.norm(exact)
    without = theory.asymptotic_covariance(*case, alpha=0.0, rho=1.0)
    assert np.linalg.norm(without - exact) > 0.3 * np.linalg.norm(exact)  # the test has power


def test_kernels_without_such_probabilities_are_refused():
    several = srmc.gwg(logdensity, SPACE, num_sites=2, alpha=0.0)
    with pytest.raises(ValueError, match="num_proposals must be large enough"):
        theory.transition_matrix(several, STATES, num_proposals=64)
