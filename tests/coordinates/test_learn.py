"""What is learned from draws and scores, and when nothing is."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc
from srmc.coordinates import rule
from srmc.coordinates.table import grouped


def exact(target, n=600, seed=0):
    """Independent draws of a target, and their scores."""
    keys = jax.random.split(jax.random.key(seed), n)
    draws = jax.vmap(target.sample)(keys)
    return np.asarray(draws), np.asarray(jax.vmap(jax.grad(target.logdensity_fn))(draws))


def gaussian(n, d, seed=0):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((d, d)) + 2 * np.eye(d)
    z = rng.standard_normal((n, d))
    return z @ root.T, -z @ np.linalg.inv(root)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_funnel_is_undone(seed):
    c = srmc.learn_coordinates(*exact(srmc.targets.funnel(), seed=seed))
    before, after = c.divergence
    assert before > 5
    assert after < 0.02 * before
    assert list(c.modulators) == [0]
    (effect,) = c.table
    assert effect.what == "scale"
    assert effect.of == ("x[1]", "x[2]", "x[3]", "x[4]")
    x, s = exact(srmc.targets.funnel(), seed=seed + 2)
    u, s_u = np.asarray(c.forward(x)), np.asarray(c.scores(x, s))
    near = np.abs(u[:, 0]) < 2  # where there were draws
    assert np.median(np.abs(s_u + u)[near]) < 0.2


def test_a_banana_is_straightened_whatever_the_order():
    draws, scores = exact(srmc.targets.banana())
    for turn in (slice(None), slice(None, None, -1)):
        c = srmc.learn_coordinates(draws[:, turn], scores[:, turn])
        assert c.divergence[1] < 1e-3 * c.divergence[0]
        assert c.table[0].what == "curved location"


def test_the_order_is_found_on_shuffled_coordinates():
    draws, scores = exact(srmc.targets.funnel(20))
    order = np.random.default_rng(0).permutation(20)
    c = srmc.learn_coordinates(draws[:, order], scores[:, order])
    assert order[c.modulators[0]] == 0
    assert c.divergence[1] < 0.05 * c.divergence[0]


def test_units_do_not_matter():
    draws, scores = exact(srmc.targets.funnel())
    unit = np.array([10.0, 1e-3, 1e4, 1.0, 50.0])
    plain = srmc.learn_coordinates(draws, scores)
    c = srmc.learn_coordinates(draws * unit + 3, scores / unit)
    np.testing.assert_allclose(c.divergence, plain.divergence, rtol=0.05, atol=1e-3)
    u, same = c.forward(draws * unit + 3), plain.forward(draws)
    np.testing.assert_allclose(u, same, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("d", [2, 5, 30])
def test_gaussians_stay_as_they_are(d):
    c = srmc.learn_coordinates(*gaussian(500, d))
    assert c.is_identity
    assert c.divergence[0] < 1e-6


def test_near_gaussian_posteriors_stay_as_they_are():
    target = srmc.targets.logistic()
    run = srmc.sample(target, alpha=0.0, num_warmup=300, num_samples=200, progress=False)
    draws = run.draws["x"]
    scores = jax.vmap(jax.vmap(jax.grad(target.logdensity_fn)))(draws)
    assert srmc.learn_coordinates(draws, scores).is_identity


@pytest.mark.parametrize("name", ["student_t", "mixture"])
def test_heavy_tails_and_modes_are_not_the_geometry_of_a_map(name):
    target = getattr(srmc.targets, name)()
    assert srmc.learn_coordinates(*exact(target)).is_identity


@pytest.mark.parametrize("n", [10, 50])
def test_few_draws_give_a_good_map_or_none(n):
    worst = 0.0
    for seed in range(5):
        c = srmc.learn_coordinates(*exact(srmc.targets.funnel(), n=n, seed=seed))
        assert np.isfinite(c.center).all()
        worst = max(worst, float(c.divergence[1] / c.divergence[0])) if n == 50 else worst
        assert n > 10 or c.is_identity
    assert worst <= 1


def test_constant_coordinates_and_lost_scores():
    draws, scores = exact(srmc.targets.funnel())
    more = lambda a, value: np.concatenate([a, np.full((len(a), 2), value)], axis=1)
    draws, scores = more(draws, 7.0), more(scores, 0.0)
    scores[::50] = np.nan
    c = srmc.learn_coordinates(draws, scores)
    assert list(c.modulators) == [0]
    assert c.divergence[1] < 0.05 * c.divergence[0]
    assert np.isfinite(c.forward(draws)).all()


def test_one_coordinate_has_nothing_to_follow():
    assert srmc.learn_coordinates(*gaussian(100, 1)).is_identity


def test_many_coordinates():
    draws, scores = exact(srmc.targets.funnel(2000), n=200)
    c = srmc.learn_coordinates(draws, scores)
    assert c.modulators[0] == 0
    assert c.linear.shape == (2000, len(c.modulators))
    assert c.divergence[1] < 0.05 * c.divergence[0]


def test_chains_and_names():
    draws, scores = (a.reshape(4, 150, 5) for a in exact(srmc.targets.funnel()))
    names = ("v", *(f"theta[{k}]" for k in range(4)))
    c = srmc.learn_coordinates(draws, scores, names=names)
    assert str(c.table[0]) == "the scale of theta[0..3] follows v (explains 100%)"
    assert "theta[0..3]" in str(c)


def test_names_in_short():
    names = ("mu", *(f"a[{k}]" for k in (0, 1, 2, 5)), *(f"b[{k}]" for k in range(0, 20, 2)))
    assert grouped(names) == "mu, a[0..2, 5], b[0, 2, 4, 6, ... 10 in all]"


@pytest.mark.parametrize(
    ("draws", "scores", "names", "word"),
    [
        (np.ones(5), np.ones(5), (), "draws must be"),
        (np.ones((5, 2)), np.ones((5, 3)), (), "scores must have the shape"),
        (np.ones((5, 2)), np.ones((5, 2)), ("a",), "names must be"),
        (np.ones((5, 2)), "scores", (), "scores must be"),
    ],
)
def test_bad_calls(draws, scores, names, word):
    with pytest.raises((TypeError, ValueError), match=word):
        srmc.learn_coordinates(draws, scores, names=names)


def test_the_clip_is_where_the_rule_says():
    from srmc.coordinates.learned import _clip
    from srmc.coordinates.triangular import clip

    x = np.linspace(-10, 10, 401)
    found = clip(x)
    assert found.value.max() == rule.CLIP
    np.testing.assert_allclose(found.value, _clip(jnp.asarray(x)), atol=1e-5)
    np.testing.assert_allclose(np.gradient(found.value, x)[1:-1], found.slope[1:-1], atol=0.02)


def centred_schools(n, seed=0):
    """Draws of theta_j ~ N(mu, tau^2), 5^2 known about each theta_j, deep into the neck."""
    rng = np.random.default_rng(seed)
    log_tau, z = 1 + rng.standard_normal(n), rng.standard_normal((n, 6))
    tau = np.exp(log_tau)[:, None]
    prior, known = tau**-2.0, 1 / 25
    mu = 3 * rng.standard_normal((n, 1))
    theta = (prior * mu + known * 4) / (prior + known) + z / np.sqrt(prior + known)
    off = theta - mu
    d_theta = -off * prior - known * (theta - 4)
    # The score of p(mu) p(log_tau) N(theta | its conditional), by the chain rule.
    part = prior / (prior + known)
    location = (1 - part) * 4 + part * mu
    e = (theta - location) * (prior + known)
    d_mu = -mu[:, 0] / 9 + np.sum(e * part, axis=1)
    d_part = -2 * part * (1 - part)
    inner = e * d_part * (mu - 4) + part * (e * (theta - location) - 1)
    d_log = -(log_tau - 1) + np.sum(inner, axis=1)
    draws = np.column_stack([mu[:, 0], log_tau, theta])
    return draws, np.column_stack([d_mu, d_log, d_theta])


@pytest.mark.parametrize("seed", [0, 1])
def test_the_posterior_of_a_normal_hierarchy_is_a_gaussian_in_u(seed):
    draws, scores = centred_schools(800, seed)
    c = srmc.learn_coordinates(draws, scores)
    assert set(np.asarray(c.modulators[:2]).tolist()) == {0, 1}
    assert c.divergence[1] < 0.05 * c.divergence[0]


def test_tails_beyond_the_clip_have_finite_scales():
    c = srmc.learn_coordinates(*exact(srmc.targets.funnel()))
    far = np.zeros((2, 5))
    far[:, 0] = [1e4, -1e4]
    x, total = jax.vmap(c.inverse_and_log_determinant)(jnp.asarray(far))
    assert np.all(np.isfinite(x))
    log_scales = c.log_scale + jnp.log(c.scale)
    assert np.all(np.abs(total - jnp.sum(log_scales)) <= 4 * rule.CLIP + 1e-3)


def test_a_map_learned_from_one_mode_leaves_the_target_exact():
    """Where no draw was, the log density of u is that of x plus the log determinant."""
    logdensity = lambda x: jnp.logaddexp(-0.5 * jnp.sum(x**2), -0.5 * jnp.sum((x - 50) ** 2))
    draws, scores = exact(srmc.targets.banana())
    c = srmc.learn_coordinates(draws, scores)
    u = c.forward(jnp.full(2, 50.0))
    x, total = c.inverse_and_log_determinant(u)
    np.testing.assert_allclose(x, 50.0, rtol=1e-3)
    np.testing.assert_allclose(c.logdensity(logdensity)(u), logdensity(x) + total, rtol=1e-5)


def test_a_wrong_order_of_the_columns_is_no_obstacle():
    draws, scores = centred_schools(800)
    turn = np.random.default_rng(3).permutation(8)
    plain = srmc.learn_coordinates(draws, scores).divergence
    turned = srmc.learn_coordinates(draws[:, turn], scores[:, turn]).divergence
    np.testing.assert_allclose(turned, plain, rtol=0.2)
