"""The whole run at once: every functional comes closer, and nothing is moved that must not be."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import digamma, gammaincinv, ndtr, polygamma

import srmc
from srmc.rebalance import batched, estimate

CHOLESKY = np.linalg.cholesky(0.8 ** np.abs(np.subtract.outer(np.arange(4), np.arange(4))))
COVARIANCE = CHOLESKY @ CHOLESKY.T
PRECISION = jnp.asarray(np.linalg.inv(COVARIANCE))


def density(x):
    return -0.5 * (x - 1) @ PRECISION.astype(x.dtype) @ (x - 1)


score = jax.grad(density)


def draws(seed, chains=4, length=1000):
    noise = np.random.default_rng(seed).normal(size=(chains, length, 4))
    return (1 + noise @ CHOLESKY.T).astype(np.float32)


def squared_errors(x):
    x = x.reshape(-1, 4)
    return np.array(
        [
            np.mean((x.mean(axis=0) - 1) ** 2),
            np.mean(((x - 1).T @ (x - 1) / len(x) - COVARIANCE) ** 2),
            np.mean((np.quantile(x, (0.05, 0.5, 0.95), axis=0).T - 1 - [-1.6449, 0, 1.6449]) ** 2),
            np.mean((np.mean(x > 2.5, axis=0) - 0.0668072) ** 2),
        ]
    )


@pytest.mark.parametrize(
    ("chains", "length", "pooled", "bounds"),
    [
        (4, 1000, True, (0.01, 0.02, 0.4, 0.5)),
        (4, 1000, False, (0.02, 0.05, 0.5, 0.6)),
        (1, 50, True, (0.05, 0.2, 0.7, 0.9)),
    ],
)
def test_every_functional_of_a_gaussian_comes_closer(chains, length, pooled, bounds):
    plain, moved = np.zeros(4), np.zeros(4)
    for seed in range(12):
        x = draws(seed, chains, length)
        plain += squared_errors(x)
        moved += squared_errors(srmc.rebalance(x, score, pooled=pooled))
    assert np.all(moved < np.array(bounds) * plain), moved / plain


def test_a_skewed_target_and_a_sticky_chain():
    """Log-gamma variables whose ranks are autoregressions."""
    shapes = np.array([0.5, 1.5, 4.0])
    mean, variance = digamma(shapes), polygamma(1, shapes)
    logp = lambda x: jnp.sum(shapes.astype(np.float32) * x - jnp.exp(x))
    plain, moved = [], []
    for seed in range(16):
        rng = np.random.default_rng(seed)
        z = np.zeros((1500, 3))
        for n in range(1, len(z)):
            z[n] = 0.9 * z[n - 1] + np.sqrt(1 - 0.81) * rng.normal(size=3)
        x = np.log(gammaincinv(shapes, ndtr(z[500:]))).astype(np.float32)
        out = srmc.rebalance(x, jax.grad(logp), logdensity_fn=logp)
        for kept, y in ((plain, x), (moved, out)):
            off = np.mean((y.mean(axis=0) - mean) ** 2 / variance)
            spread = np.mean((((y - mean) ** 2).mean(axis=0) / variance - 1) ** 2)
            kept.append([off, spread])
    ratio = np.mean(moved, axis=0) / np.mean(plain, axis=0)
    assert np.all(ratio < 0.3), ratio


def test_products_follow_a_bend():
    """Where one coordinate goes with the square of another, which linear maps do not see."""
    target = srmc.targets.banana()
    truth = target.moments
    errors = np.zeros(2)
    for seed in range(8):
        x = jax.vmap(target.sample)(jax.random.split(jax.random.key(seed), 1000))
        grad = jax.grad(target.logdensity_fn)
        sides = (x, srmc.rebalance(x, grad))
        off = [(np.mean(side, axis=0) - truth.mean) ** 2 / truth.variance for side in sides]
        errors += np.mean(off, axis=1)
    plain, moved = errors
    assert moved < 0.6 * plain, errors


def test_the_report_says_what_was_done():
    x = draws(0)
    out, report = srmc.rebalance(x, score, report=True)
    assert report.moved
    assert {kind: sum(found.values()) for kind, found in report.chosen.items()} == {
        "means": 4,
        "second moments": 1,
        "distributions": 4,
    }
    assert report.gradients == x[..., 0].size
    moves = np.abs(out - x) / x.std(axis=(0, 1))
    assert report.largest_move == pytest.approx(np.max(moves), rel=0.1)
    assert 0 < report.typical_move < 0.1
    assert report.stayed == 0
    assert [finding.name for finding in report.findings] == ["mean score"]
    known = jax.vmap(jax.vmap(score))(x)
    again, cheaper = srmc.rebalance(x, score, scores=known, report=True)
    assert cheaper.gradients == 0
    np.testing.assert_allclose(again, out, atol=1e-5)
    _, each = srmc.rebalance(x, score, pooled=False, report=True)
    assert len(each) == 4
    assert report.expected.means < 0.01  # nothing is left on a Gaussian
    assert report.expected.variances < 0.01
    assert report.expected.quantiles < 0.01


def test_shapes_and_precisions_are_kept():
    x = draws(0, 1, 203)
    out = srmc.rebalance(x[0], score)
    assert out.shape == (203, 4)
    assert out.dtype == np.float32
    np.testing.assert_array_equal(out, srmc.rebalance(jnp.asarray(x), score)[0])
    double = x.astype(float) + 1e-9 * np.arange(4)
    moved = srmc.rebalance(double, score)
    assert moved.dtype == np.float64
    np.testing.assert_allclose(moved, srmc.rebalance(x, score), atol=1e-5)


def test_batches_do_not_matter(monkeypatch):
    x = draws(0, 2, 150)
    whole = srmc.rebalance(x, score)
    monkeypatch.setattr(batched, "NUMBERS_AT_ONCE", 4 * 37)
    monkeypatch.setattr(estimate, "AT_ONCE", 1)
    np.testing.assert_allclose(srmc.rebalance(x, score), whole, atol=1e-5)


def test_draws_whose_scores_are_not_finite_stay():
    x = draws(1)
    broken = lambda z: jnp.where(z[0] > 3.2, jnp.nan, score(z))
    with pytest.warns(UserWarning, match="of 4000 draws are unchanged"):
        out = srmc.rebalance(x, broken)
    far = x[..., 0] > 3.2
    assert np.all(np.isfinite(out))
    np.testing.assert_array_equal(out[far], x[far])
    assert np.mean(np.any(out != x, axis=2)) > 0.9


# Targets on which E[feature] = 0 does not hold: draws, the log density, and what is taken for its
# score. What passes unnoticed would do harm.


def cut(at):
    def sample(rng):
        x = rng.normal(size=(8, 2000, 3))
        return np.stack([chain[chain[:, 0] > at][:1000] for chain in x[:4]])

    logp = lambda x: jnp.where(x[0] > at, -0.5 * jnp.sum(x**2), -jnp.inf)
    return sample, logp, jax.grad(logp)


def jump(height, at):
    def sample(rng):
        x = rng.normal(size=(4, 4000, 3))
        kept = rng.random((4, 4000)) < np.where(x[..., 0] > at, 1, np.exp(-height))
        return np.stack([chain[keep][:1000] for chain, keep in zip(x, kept, strict=True)])

    logp = lambda x: -0.5 * jnp.sum(x**2) + height * (x[0] > at)
    return sample, logp, jax.grad(logp)


def wrong(change):
    logp = lambda x: -0.5 * jnp.sum(x**2)
    return lambda rng: rng.normal(size=(4, 1000, 3)), logp, lambda x: change(jax.grad(logp)(x))


VIOLATIONS = {
    "cut off at -2 sd": cut(-2.0),
    "cut off at -2.5 sd": cut(-2.5),
    "a jump of 0.15": jump(0.15, 0.0),
    "a jump far out": jump(0.5, 1.5),
    "a score off by 0.05": wrong(lambda s: s.at[0].add(0.05)),
    "a score 10% too large": wrong(lambda s: 1.1 * s),
    "a score of another sign": wrong(lambda s: s.at[1].multiply(-1)),
}


@pytest.mark.parametrize("name", VIOLATIONS)
def test_what_breaks_the_assumption_is_found(name):
    sample, logp, slope = VIOLATIONS[name]
    for seed in range(3):
        x = sample(np.random.default_rng(seed)).astype(np.float32)
        with pytest.warns(UserWarning, match="the draws are unchanged: .*(wall|jump|gradient)"):
            out = srmc.rebalance(x, slope, logdensity_fn=logp)
        np.testing.assert_array_equal(out, x)


def test_smooth_targets_raise_no_alarm():
    shifted = lambda x: density(x) + 1e4
    for seed in range(20):
        _, report = srmc.rebalance(draws(seed), score, logdensity_fn=shifted, report=True)
        assert not any(finding.failed for finding in report.findings), report.findings


@pytest.mark.parametrize(
    ("logp", "sample"),
    [
        (lambda x: -jnp.sum(jnp.abs(x)), lambda rng: rng.laplace(size=(4, 1000, 5))),
        (lambda x: -jnp.sum(jnp.log1p(x**2)), lambda rng: rng.standard_cauchy(size=(4, 1000, 3))),
        (
            lambda x: -0.5 * jnp.sum((x - 1e4) ** 2),
            lambda rng: 1e4 + rng.normal(size=(4, 1000, 3)),
        ),
        (
            lambda x: -0.5 * jnp.sum(((x - 1e3) / 0.01) ** 2),
            lambda rng: 1e3 + 0.01 * rng.normal(size=(4, 1000, 3)),
        ),
        (
            lambda x: jnp.sum(jax.nn.logsumexp(jnp.stack([-50 * x**2 + 3, -0.5 * x**2]), axis=0)),
            lambda rng: (
                np.where(rng.random((4, 1000, 2)) < 0.7, 0.1, 1.0) * rng.normal(size=(4, 1000, 2))
            ),
        ),
    ],
    ids=["kinks", "Cauchy", "far from 0", "narrow and far from 0", "a sharp peak"],
)
def test_kinks_peaks_and_rounding_are_no_jumps(logp, sample):
    for seed in range(4):
        x = sample(np.random.default_rng(seed)).astype(np.float32)
        _, report = srmc.rebalance(x, jax.grad(logp), logdensity_fn=logp, report=True)
        assert not any(f.failed for f in report.findings if f.name != "mean score")


def test_a_wall_in_any_of_many_dimensions_is_found():
    dim = 64
    logp = lambda x: jnp.where(x[41] > -1.5, -0.5 * jnp.sum(x**2), -jnp.inf)
    x = np.random.default_rng(0).normal(size=(2000, dim))
    x = x[x[:, 41] > -1.5].astype(np.float32)
    with pytest.warns(UserWarning, match="in coordinate 41: it has a wall"):
        srmc.rebalance(x, jax.grad(logp), logdensity_fn=logp)


def test_every_chain_s_warning_is_heard():
    x = draws(0, 3, 400)
    x[1] += 3.0
    with pytest.warns(UserWarning, match="the draws of chain 1 are unchanged"):
        _, reports = srmc.rebalance(x, score, pooled=False, report=True)
    assert [r.moved for r in reports] == [True, False, True]


def test_no_draw_leaves_its_support():
    x = np.random.default_rng(0).normal(size=(4, 500, 2)).astype(np.float32)
    x = x[:, np.all(np.linalg.norm(x, axis=2) > 0.02, axis=0)]  # a hole that no check finds
    hole = lambda z: jnp.where(jnp.linalg.norm(z) > 0.02, -0.5 * jnp.sum(z**2), -jnp.inf)
    out, report = srmc.rebalance(x, lambda z: -z, logdensity_fn=hole, report=True)
    assert report.moved
    assert np.all(np.linalg.norm(out, axis=2) > 0.02)


def test_chains_that_disagree_still_do():
    """Rebalancing cannot mend chains that are stuck in different places, nor hide that."""
    logp = lambda x: jnp.logaddexp(-0.5 * jnp.sum((x - 5) ** 2), -0.5 * jnp.sum((x + 5) ** 2))
    rng = np.random.default_rng(0)
    centres = np.array([5, 5, -5, 5])[:, None, None]
    x = (centres + rng.normal(size=(4, 500, 2))).astype(np.float32)
    out = srmc.rebalance(x, jax.grad(logp), logdensity_fn=logp)
    assert np.all(srmc.metrics.r_hat(out) > 1.5)


@pytest.mark.parametrize(
    "x",
    [
        np.random.default_rng(0).normal(size=(1, 40, 60)),  # fewer draws than dimensions
        np.repeat(np.random.default_rng(0).normal(size=(1, 50, 3)), 8, axis=1),  # as MH leaves them
        np.random.default_rng(0).normal(size=(2, 3, 2)),
        np.random.default_rng(0).normal(size=(2, 400, 1)),
        np.random.default_rng(0).standard_t(2.5, size=(2, 400, 3)),
        np.dstack([np.random.default_rng(0).normal(size=(2, 200, 2)), np.ones((2, 200))]),
    ],
    ids=["few", "duplicates", "six", "one dimension", "heavy tails", "a constant"],
)
@pytest.mark.filterwarnings("ignore:the draws are unchanged")
def test_odd_draws_are_survived(x):
    out = srmc.rebalance(x.astype(np.float32), lambda z: -z)
    assert np.all(np.isfinite(out))
    assert np.all(np.abs(out - x) < 1.5 * (1 + np.abs(x)))


def test_many_dimensions_are_not_squared():
    dim = 3000
    x = np.random.default_rng(0).normal(size=(1, 300, dim)).astype(np.float32)
    out, report = srmc.rebalance(x, lambda z: -z, report=True)
    assert report.moved
    assert np.mean(out.mean(axis=1) ** 2) < 0.01 * np.mean(x.mean(axis=1) ** 2)
    assert np.mean((out.var(axis=1) - 1) ** 2) < 0.05 * np.mean((x.var(axis=1) - 1) ** 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: srmc.rebalance(x[0, 0], score), "draws must be floating-point"),
        (lambda x: srmc.rebalance(x.astype(int), score), "draws must be floating-point"),
        (lambda x: srmc.rebalance(x[:, :0], score), "draws must be floating-point"),
        (lambda x: srmc.rebalance(x * np.nan, score), "draws must be finite"),
        (lambda x: srmc.rebalance(x, lambda z: z[0]), "score_fn must return"),
        (lambda x: srmc.rebalance(x), "score_fn, scores or logdensity_fn must be given"),
        (lambda x: srmc.rebalance(x, score, scores=x[:1]), "scores must have the shape of draws"),
        (lambda x: srmc.rebalance(x, score, scores=1.0), "scores must have the shape of draws"),
        (lambda x: srmc.rebalance(x, score, logdensity_fn=score), "logdensity_fn must return"),
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
        ({"score_fn": score, "pooled": 1}, "pooled must be True or False"),
        ({"score_fn": score, "form": "full"}, "no keyword form: what is estimated"),
        ({"score_fn": score, "cost": 100.0}, "no keyword cost: gradients are evaluated only"),
        ({"score_fn": score, "colour": 1}, "no keyword colour"),
        ({"score_fn": lambda x: -np.asarray(x)}, "score_fn must be written with jax.numpy"),
    ],
)
def test_a_wrong_type_is_named(options, message):
    with pytest.raises(TypeError, match=message):
        srmc.rebalance(draws(0, 1, 100), **options)


def test_draws_in_single_precision_far_from_0_are_matched_relative_to_their_mean():
    x = draws(0)
    far = (1e6 + x.astype(float)).astype(np.float32)
    back = far.astype(float) - 1e6
    scores = np.asarray(jax.vmap(jax.vmap(score))(back.astype(np.float32)))
    with pytest.warns(UserWarning, match="lost in rounding"):
        out = srmc.rebalance(far, scores=scores)
    assert out.dtype == np.float32
    near = srmc.rebalance(back, scores=scores)
    np.testing.assert_allclose(out.astype(float) - 1e6, near, atol=0.1)  # its spacing is 1 / 16


def test_scores_alone_or_a_density_alone_are_enough():
    x = draws(0)
    known = jax.vmap(jax.vmap(score))(x)
    out = srmc.rebalance(x, scores=known)
    np.testing.assert_allclose(srmc.rebalance(x, logdensity_fn=density), out, atol=1e-5)


def test_scores_that_a_compiler_gets_wrong_in_batches_are_evaluated_one_by_one():
    """As XLA 0.9 does for gradients of squared distances, in batches of 64 draws and more."""

    @jax.custom_batching.custom_vmap
    def compiled(x):
        return score(x)

    @compiled.def_vmap
    def _(size, batched, x):
        return 1e3 * jnp.cos(1e3 * x) + 100, True

    x = draws(3, length=300)
    out, report = srmc.rebalance(x, compiled, logdensity_fn=density, report=True)
    assert report.moved
    np.testing.assert_allclose(out, srmc.rebalance(x, score, logdensity_fn=density), atol=1e-5)
