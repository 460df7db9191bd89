import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc

CHOLESKY = np.linalg.cholesky(0.8 ** np.abs(np.subtract.outer(np.arange(4), np.arange(4))))
PRECISION = jnp.asarray(np.linalg.inv(CHOLESKY @ CHOLESKY.T))


def score(x):
    return -PRECISION.astype(x.dtype) @ (x - 1)


def draws(seed, chains=4, length=1000):
    noise = np.random.default_rng(seed).normal(size=(chains, length, 4))
    return (1 + noise @ CHOLESKY.T).astype(np.float32)


def squared_errors(x):
    x = x.reshape(-1, 4)
    covariance = CHOLESKY @ CHOLESKY.T
    tail = np.mean(x > 2.5, axis=0) - 0.0668072
    return np.array(
        [
            np.mean((x.mean(axis=0) - 1) ** 2),
            np.mean(((x - 1).T @ (x - 1) / len(x) - covariance) ** 2),
            np.mean(tail**2),
        ]
    )


@pytest.mark.parametrize("shared", [True, False])
def test_every_functional_comes_closer(shared):
    plain, repelled = np.zeros(3), np.zeros(3)
    for seed in range(12):
        x = draws(seed)
        plain += squared_errors(x)
        repelled += squared_errors(srmc.rebalance(x, score, shared_history=shared))
    assert np.all(repelled < np.array([0.4, 0.4, 0.8]) * plain), repelled / plain


def test_shapes_and_types_are_kept():
    x = draws(0, 1, 203)
    out = srmc.rebalance(x[0], score)
    assert out.shape == (203, 4)
    assert out.dtype == np.float32
    np.testing.assert_array_equal(out, srmc.rebalance(x, score)[0])


def test_alpha_zero_leaves_the_draws_alone():
    x = draws(0, 2, 150)
    np.testing.assert_array_equal(srmc.rebalance(x, score, alpha=0.0), x)


def test_pieces_give_what_one_pass_gives():
    x = draws(3, 2, 320)
    init, step = srmc.rebalancing(score, x, 320)
    state, out = init(), []
    for start in range(0, 320, step.block):
        state, piece = step(state, jnp.asarray(x[:, start : start + step.block]))
        out.append(piece)
    np.testing.assert_allclose(np.concatenate(out, 1), srmc.rebalance(x, score), atol=1e-5)
    assert int(state.memory.step) == 320 // step.block
    assert int(state.refused) == 0


def test_scores_that_are_not_finite_keep_the_draw():
    x = draws(1)
    broken = lambda z: jnp.where(z[0] > 3.2, jnp.nan, score(z))
    with pytest.warns(UserWarning, match="of 4000 draws stayed as they were"):
        out = srmc.rebalance(x, broken, warmup=np.where(x[..., :1] > 3.2, 1, x))
    assert np.all(np.isfinite(out))
    far = x[..., 0] > 4  # no move leads back from there
    assert np.any(far)
    np.testing.assert_array_equal(out[far], x[far])
    assert np.mean(np.any(out != x, axis=2)) > 0.9
    with pytest.warns(UserWarning, match="explain nothing of their errors, or are not all finite"):
        np.testing.assert_array_equal(srmc.rebalance(x, broken), x)


def test_draws_stay_within_bounds():
    """Of exponential variables, whose score is not 0 on average."""
    x = np.random.default_rng(0).exponential(size=(4, 500, 2)).astype(np.float32)
    density = lambda z: jnp.where(jnp.all(z > 0), -jnp.sum(z), -jnp.inf)
    with pytest.warns(UserWarning, match="the mean score of the draws is not 0: .* stays off"):
        np.testing.assert_array_equal(srmc.rebalance(x, jax.grad(density)), x)
    with (
        pytest.warns(UserWarning, match="repelled draws are off the target"),
        pytest.warns(UserWarning, match="draws stayed as they were"),
    ):
        out = srmc.rebalance(x, jax.grad(density), alpha=10.0, logdensity_fn=density)
    assert np.all(out > 0)


def test_double_precision_is_kept():
    x = draws(0).astype(float) + 1e-9 * np.arange(4)
    out = srmc.rebalance(x, score)
    assert out.dtype == np.float64
    np.testing.assert_allclose(out, srmc.rebalance(x.astype(np.float32), score), atol=1e-5)
    np.testing.assert_array_equal(srmc.rebalance(x, score, alpha=0.0), x)


def test_a_wrong_score_is_noticed_and_does_little():
    """The score of a target ten times as wide."""
    x = draws(2)
    wrong = lambda z: score(z) / 100
    with pytest.warns(UserWarning, match="a wrong gradient, .* repellence stays off"):
        np.testing.assert_array_equal(srmc.rebalance(x, wrong), x)
    with pytest.warns(UserWarning, match="repelled draws are off the target"):
        out = srmc.rebalance(x, wrong, alpha=10.0)
    assert np.sqrt(np.mean((out - x) ** 2)) < 10
    assert np.all(np.isfinite(out))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: srmc.rebalance(x[0, 0], score), "draws must be floating-point"),
        (lambda x: srmc.rebalance(x.astype(int), score), "draws must be floating-point"),
        (lambda x: srmc.rebalance(x * np.nan, score), "draws must be finite"),
        (lambda x: srmc.rebalance(x, lambda z: z[0]), "score_fn must return"),
        (lambda x: srmc.rebalance(x, score, alpha=-1.0), "alpha must be"),
        (lambda x: srmc.rebalance(x, score, alpha="high"), "alpha must be one of"),
        (lambda x: srmc.rebalance(x, score, form="spin"), "form must be one of"),
        (lambda x: srmc.rebalance(x[:, :20], score), "at least 64 per chain"),
        (lambda x: srmc.rebalance(x, score, warmup=x[..., :3]), "warmup must have d = 4"),
        (lambda x: srmc.rebalance(x, score, logdensity_fn=score), "logdensity_fn must return"),
        (lambda x: srmc.rebalancing(score, x, 10)[1](None, x[:1]), "draws must be"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(draws(0, 2, 100))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"score_fn": 3.0}, "score_fn must be a function"),
        ({"score_fn": score, "logdensity_fn": 3.0}, "logdensity_fn must be a function"),
        ({"score_fn": score, "shared_history": 1}, "shared_history must be True or False"),
    ],
)
def test_a_wrong_type_is_named(options, message):
    with pytest.raises(TypeError, match=message):
        srmc.rebalance(draws(0, 1, 100), **options)


def test_a_target_in_large_dimensions_is_not_squared():
    dim = 1000
    x = np.random.default_rng(0).normal(size=(1, 300, dim)).astype(np.float32)
    jaxpr = str(jax.make_jaxpr(lambda z: srmc.affine(root=jnp.ones(dim)).flow(z, (z, z)))(x[0, 0]))
    assert f"{dim},{dim}" not in jaxpr
    out = srmc.rebalance(x, lambda z: -z)
    assert np.mean(out.mean(axis=1) ** 2) < 0.4 * np.mean(x.mean(axis=1) ** 2)
    assert np.mean((out.var(axis=1) - 1) ** 2) < 0.7 * np.mean((x.var(axis=1) - 1) ** 2)
