"""The online loop over a stream of draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc

CHOLESKY = np.linalg.cholesky(0.8 ** np.abs(np.subtract.outer(np.arange(4), np.arange(4))))
COVARIANCE = CHOLESKY @ CHOLESKY.T
PRECISION = jnp.asarray(np.linalg.inv(COVARIANCE))


def score(x):
    return -PRECISION.astype(x.dtype) @ (x - 1)


def draws(seed, chains=4, length=1000):
    noise = np.random.default_rng(seed).normal(size=(chains, length, 4))
    return (1 + noise @ CHOLESKY.T).astype(np.float32)


def streamed(x, score_fn=score, piece=None, **options):
    """All draws, moved piece by piece, and the last state."""
    init, step = srmc.rebalance_stream(score_fn, x, x.shape[1], **options)
    state, out = init(), []
    size = piece or step.block
    for start in range(0, x.shape[1], size):
        state, moved = step(state, jnp.asarray(x[:, start : start + size]))
        out.append(np.asarray(moved))
    return np.concatenate(out, axis=1), state


def squared_errors(x):
    x = x.reshape(-1, 4)
    off = np.mean((x.mean(axis=0) - 1) ** 2)
    return np.array([off, np.mean(((x - 1).T @ (x - 1) / len(x) - COVARIANCE) ** 2)])


@pytest.mark.parametrize("shared", [True, False])
def test_every_moment_comes_closer(shared):
    plain, repelled = np.zeros(2), np.zeros(2)
    for seed in range(12):
        x = draws(seed)
        out, state = streamed(x, shared_history=shared)
        plain += squared_errors(x)
        repelled += squared_errors(out)
        assert np.all(state.refused == 0)
    assert np.all(repelled < 0.4 * plain), repelled / plain


def test_a_whole_run_at_once_does_better():
    stream, whole = np.zeros(2), np.zeros(2)
    for seed in range(6):
        x = draws(seed)
        stream += squared_errors(streamed(x)[0])
        whole += squared_errors(srmc.rebalance(x, score))
    assert np.all(whole < 0.5 * stream), whole / stream


def test_draws_without_a_score_stay():
    x = draws(1)
    broken = lambda z: jnp.where(z[0] > 3.2, jnp.nan, score(z))
    init, step = srmc.rebalance_stream(broken, np.where(x[..., :1] > 3.2, 1, x), 1000)
    state, moved = init(), []
    for start in range(0, 1000, step.block):
        state, piece = step(state, jnp.asarray(x[:, start : start + step.block]))
        moved.append(np.asarray(piece))
    out = np.concatenate(moved, axis=1)
    far = x[..., 0] > 4  # no move leads back from there
    assert np.any(far)
    assert np.all(np.isfinite(out))
    np.testing.assert_array_equal(out[far], x[far])
    assert int(state.refused) > 0


def test_what_is_off_is_noticed():
    x = draws(2)
    with pytest.warns(UserWarning, match="a wrong gradient, .* repellence stays off"):
        out, _ = streamed(x, lambda z: score(z) / 100)
    np.testing.assert_array_equal(out, x)
    half = np.abs(np.random.default_rng(0).normal(size=(4, 500, 2))).astype(np.float32)
    logp = lambda z: jnp.where(jnp.all(z > 0), -0.5 * jnp.sum(z**2), -jnp.inf)
    with pytest.warns(UserWarning, match="repelled draws are off the target"):
        out, state = streamed(half, jax.grad(logp), alpha=10.0, logdensity_fn=logp)
    assert np.all(out > 0)
    assert int(state.refused) > 0


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"warmup": np.ones(3)}, ValueError, "warmup must be floating-point"),
        ({"warmup": draws(0, 2, 20)}, ValueError, "at least 64 draws per chain"),
        ({"alpha": -1.0}, ValueError, "alpha must be"),
        ({"alpha": "high"}, ValueError, "alpha must be one of"),
        ({"form": "spin"}, ValueError, "form must be one of"),
        ({"score_fn": 3.0}, TypeError, "score_fn must be a function"),
        ({"score_fn": lambda z: z[0]}, ValueError, "score_fn must return"),
        ({"score_fn": lambda z: -np.asarray(z)}, TypeError, "score_fn must be written with jax"),
        ({"logdensity_fn": score}, ValueError, "logdensity_fn must return"),
        ({"shared_history": 1}, TypeError, "shared_history must be True or False"),
        ({"num_samples": 0}, ValueError, "num_samples must be >= 1"),
    ],
)
def test_bad_input_is_named(options, error, message):
    given = {"score_fn": score, "warmup": draws(0, 2, 100), "num_samples": 100} | options
    with pytest.raises(error, match=message):
        srmc.rebalance_stream(**given)


def test_a_piece_of_another_shape_is_named():
    init, step = srmc.rebalance_stream(score, draws(0, 2, 100), 100)
    with pytest.raises(ValueError, match=r"draws must be \(2, draw, 4\)"):
        step(init(), draws(0, 1, 100))
