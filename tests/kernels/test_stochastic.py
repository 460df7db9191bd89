"""SGLD and SGHMC with minibatches, plain and repelled."""

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blackjax.sgmcmc import diffusions

import srmc

D, ROWS = 3, 40  # the noise of a minibatch has ROWS times the variance of the score
PRECISION = np.array([[4.0, 1.5, 0.0], [1.5, 2.0, 0.3], [0.0, 0.3, 1.0]])
MEAN = np.array([1.0, -2.0, 0.5])
NOISE = np.linalg.cholesky(ROWS * PRECISION)
MODES = ("moving", "fixed", "tilt")


def score(x, minibatch):
    """The score of a correlated Gaussian, with the noise of a minibatch."""
    precision, mean, noise = (jnp.asarray(a, x.dtype) for a in (PRECISION, MEAN, NOISE))
    return -precision @ (x - mean) + noise @ minibatch


def options_of(mode):
    covariance = np.linalg.inv(PRECISION)
    if mode == "tilt":
        return {"surrogate": srmc.tilt(preconditioner=covariance)}
    return {"surrogate": srmc.shift(covariance), "frame": mode}


def run(algorithm, key, num_steps, start=MEAN):
    def one(state, keys):
        step_key, batch_key = keys
        state, info = algorithm.step(step_key, state, jax.random.normal(batch_key, (D,)))
        return state, (state.position, info)

    keys = jax.random.split(key, (num_steps, 2))
    return jax.lax.scan(one, algorithm.init(jnp.asarray(start, float), key), keys)


@pytest.mark.parametrize("mode", MODES)
def test_without_repellence_sgld_is_blackjax_s_bit_for_bit(mode):
    keys = jax.random.split(jax.random.key(0), (50, 2))
    plain = blackjax.sgld(score)
    repelled = srmc.sgld(score, 0.02, alpha=0.0, **options_of(mode))
    expected, state = plain.init(jnp.zeros(D)), repelled.init(jnp.zeros(D))
    theirs, ours = jax.jit(plain.step), jax.jit(repelled.step)
    for key, batch_key in keys:
        batch = jax.random.normal(batch_key, (D,))
        expected = theirs(key, expected, batch, 0.02)
        state, info = ours(key, state, batch)
        np.testing.assert_array_equal(state.position, expected)
    assert int(info.gradients) == 1
    assert int(info.hvps) == 0


def test_without_repellence_sghmc_is_blackjax_s_integrator_bit_for_bit():
    integrate = diffusions.sghmc(0.7)
    algorithm = srmc.sghmc(score, 0.05, 0.7, alpha=0.0)
    state = algorithm.init(jnp.zeros(D), jax.random.key(3))
    x, p = state.inner_state
    for key, batch_key in jax.random.split(jax.random.key(0), (10, 2)):
        batch = jax.random.normal(batch_key, (D,))
        x, p = integrate(key, x, p, score(x, batch), 0.05)
        state, _ = algorithm.step(key, state, batch)  # not compiled, which would fuse the two apart
        np.testing.assert_array_equal(state.position, x)


@pytest.mark.parametrize("name", ["sgld", "sghmc"])
def test_in_the_moving_frame_the_base_chain_is_the_plain_one(name):
    build = getattr(srmc, name)
    plain, repelled = (
        jax.jit(
            lambda key, a=a: run(build(score, 0.02, alpha=a, **options_of("moving")), key, 200)
        )(jax.random.key(1))
        for a in (0.0, 2.0)
    )
    np.testing.assert_allclose(
        repelled[0].inner_state.position, plain[0].position, rtol=1e-5, atol=1e-5
    )
    assert not np.allclose(repelled[0].position, plain[0].position, atol=1e-3)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("mode", MODES)
def test_the_step_is_the_recursion(mode):
    """Ten lines of NumPy, step for step: the score is seen before the move."""
    eta, alpha, covariance = 0.02, 0.8, np.linalg.inv(PRECISION)
    algorithm = srmc.sgld(score, eta, alpha=alpha, **options_of(mode))
    state, step = algorithm.init(jnp.zeros(D)), jax.jit(algorithm.step)
    s = lambda x, batch: -PRECISION @ (x - MEAN) + NOISE @ batch
    x = z = theta = np.zeros(D)
    for n in range(1, 30):
        key, batch_key = jax.random.split(jax.random.key(n))
        batch = jax.random.normal(batch_key, (D,))
        state, _ = step(key, state, batch)
        xi = np.asarray(blackjax.util.generate_gaussian_noise(key, jnp.zeros(D)))
        v = alpha * covariance @ theta
        drive = s(z, batch) if mode == "moving" else s(z - v, batch)
        theta = theta + (s(x, batch) - theta) / (n + 1)
        z = z + eta * drive + np.sqrt(2 * eta) * xi
        x = z + alpha * covariance @ theta if mode == "moving" else z
        np.testing.assert_allclose(state.position, x, rtol=1e-10)
        np.testing.assert_allclose(state.theta, theta, rtol=1e-10)


@pytest.mark.usefixtures("optimised")
@pytest.mark.parametrize(
    ("name", "step_size", "mode"),
    [("sgld", 2e-3, "moving"), ("sgld", 2e-3, "fixed"), ("sgld", 2e-3, "tilt"),
     ("sghmc", 0.01, "moving"), ("sghmc", 0.01, "fixed")],
)  # fmt: skip
def test_means_agree_and_repellence_lowers_their_error(name, step_size, mode):
    """What is left is the noise of the minibatches, whose mean no history can tell from a score."""
    num_steps, chains = 10_000, 32

    def errors(**options):
        algorithm = getattr(srmc, name)(score, step_size, **options)
        means = lambda key: run(algorithm, key, num_steps)[1][0].mean(0) - MEAN
        return np.asarray(jax.jit(jax.vmap(means))(jax.random.split(jax.random.key(5), chains)))

    squared = lambda e: np.einsum("ci,ij,cj->c", e, PRECISION, e) / D
    plain, repelled = errors(alpha=0.0), errors(**options_of(mode))
    for e in (plain, repelled):
        z = e.mean(0) / (e.std(0, ddof=1) / np.sqrt(chains))
        assert np.all(np.abs(z) < 4.5)
    ratio = squared(repelled).mean() / squared(plain).mean()
    assert ratio < 0.4


def test_the_gradients_reported_are_those_evaluated():
    seen = []

    def counted(x, minibatch):
        jax.debug.callback(lambda: seen.append(1))
        return score(x, minibatch)

    for options, expected in (
        ({"alpha": 0.0}, [1, 1, 1]),
        ({"frame": "moving"}, [2, 2, 2]),
        ({"frame": "fixed"}, [2, 2, 2]),
        ({"frame": "fixed", "history_every": 3}, [1, 1, 2]),
    ):
        algorithm = srmc.sgld(counted, 0.01, **options)
        state, step = algorithm.init(jnp.zeros(D)), jax.jit(algorithm.step)
        found = []
        for n in range(3):
            seen.clear()
            state, info = jax.block_until_ready(step(jax.random.key(n), state, jnp.zeros(D)))
            jax.effects_barrier()
            assert len(seen) == int(info.gradients)
            found.append(int(info.gradients))
        assert found == expected


def test_chains_can_share_a_history_and_a_step_size_can_fall():
    rates = []

    def schedule(n):
        rates.append(n)
        return 0.01 * n**-0.3

    algorithm = srmc.sgld(score, schedule, history_axis="chain", **options_of("moving"))
    states = jax.vmap(algorithm.init)(jnp.zeros((4, D)))
    step = jax.vmap(algorithm.step, axis_name="chain")
    states, _ = step(jax.random.split(jax.random.key(0), 4), states, jnp.ones((4, D)))
    assert len(np.unique(states.theta[:, 0])) == 1
    assert len(rates) == 1


def test_what_is_not_finite_is_kept_out_and_bad_calls_are_refused():
    algorithm = srmc.sgld(score, 0.01)
    state = algorithm.init(jnp.ones(D))
    after, info = algorithm.step(jax.random.key(0), state, jnp.full(D, jnp.nan))
    assert not info.is_finite
    np.testing.assert_array_equal(after.position, state.position)
    np.testing.assert_array_equal(after.theta, state.theta)
    with pytest.raises(ValueError, match="step_size must be finite and > 0"):
        srmc.sgld(score, -1.0)
    with pytest.raises(ValueError, match="friction must be"):
        srmc.sghmc(score, 0.1, 0.0)
    with pytest.raises(TypeError, match="score_fn must be"):
        srmc.sgld(None, 0.1)
    wrong = srmc.sgld(lambda x, batch: x[:2], 0.1)
    with pytest.raises(ValueError, match="score_fn must return what has the shape of the position"):
        wrong.step(jax.random.key(0), wrong.init(jnp.ones(D)), jnp.zeros(D))
