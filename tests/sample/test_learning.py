"""Sampling in learned coordinates: the same target and names, and no change where it is vain."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc
from srmc.sample.learning import LEAST_WARMUP, lengths

SHORT = {"num_warmup": 300, "num_samples": 200, "progress": False}


def skewed_funnel(x):
    """log of a Gamma(3) variable v, y_i | v ~ N(0.5 v, exp(v)): E v = digamma(3)."""
    v, y = x["v"], x["y"]
    rest = -0.5 * jnp.sum((y - 0.5 * v) ** 2) * jnp.exp(-2 * v) - y.size * v
    return 3 * v - jnp.exp(v) + rest


START = {"v": jnp.zeros(()), "y": jnp.zeros(3)}


def twisted(x):
    """x0 ~ N(1, 2^2), x1 | x0 ~ N(x0^2 / 3, 1)."""
    return -0.5 * ((x[0] - 1) / 2) ** 2 - 0.5 * (x[1] - x[0] ** 2 / 3) ** 2


def same(a, b):
    assert set(a.draws) == set(b.draws)
    for name in a.draws:
        np.testing.assert_array_equal(a.draws[name], b.draws[name])


def replicates(model, start, statistic, count=8):
    """The mean of a statistic of plain draws, and its standard error, over independent runs."""
    found = []
    for seed in range(count):
        given = {"initial_position": start, "coordinates": "learned", "alpha": 0.0} | SHORT
        run = srmc.sample(model, seed=seed, **given)
        assert run.about["coordinates"]["kind"] == "learned"
        found.append(statistic({k: np.asarray(v, float) for k, v in run.draws.items()}))
    found = np.array(found)
    return found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(count)


def test_a_skewed_funnel_is_sampled_exactly():
    digamma_3, trigamma_3 = 0.9227843350984671, 0.39493406684822643
    truth = np.array([digamma_3, trigamma_3, 0.5 * digamma_3])

    def statistic(draws):
        v, y = draws["v"], draws["y"]
        return v.mean(), np.mean((v - digamma_3) ** 2), y.mean()

    mean, error = replicates(skewed_funnel, START, statistic)
    assert np.all(np.abs(mean - truth) < 5 * error)
    assert np.all(error < 0.1)


def test_a_twisted_gaussian_is_sampled_exactly(x64):
    truth = np.array([1.0, 4.0, 5 / 3])

    def statistic(draws):
        x = draws["x"]
        return x[..., 0].mean(), np.mean((x[..., 0] - 1) ** 2), x[..., 1].mean()

    mean, error = replicates(twisted, jnp.zeros(2), statistic)
    assert np.all(np.abs(mean - truth) < 5 * error)
    assert np.all(error < 0.2)


def test_where_nothing_is_gained_draws_are_those_of_plain_coordinates():
    given = SHORT | {"model": srmc.targets.gaussian(3), "kernel": "hmc"}
    auto, plain = (srmc.sample(coordinates=c, **given) for c in ("auto", "plain"))
    assert auto.about["coordinates"]["kind"] == "plain"
    same(auto, plain)
    assert auto.about["gradients_of_warmup"] == plain.about["gradients_of_warmup"]


@pytest.fixture(scope="module")
def funnel():
    with jax.numpy_rank_promotion("raise"):
        return srmc.sample(srmc.targets.funnel(), **SHORT)


def test_a_funnel_is_sampled_in_learned_coordinates_unasked(funnel):
    run = funnel
    told = run.about["coordinates"]
    assert told["kind"] == "learned"
    assert told["divergence"][1] < 0.1 * told["divergence"][0]
    assert told["found"] == ["the scale of x[1..4] follows x[0] (explains 100%)"]
    assert run.draws["x"].shape == (4, 200, 5)
    density = srmc.targets.funnel().logdensity_fn
    flat = jnp.asarray(run.base["x"].reshape(-1, 5))
    lp, score = jax.vmap(jax.value_and_grad(density))(flat)
    np.testing.assert_allclose(run.stats["lp"].ravel(), lp, rtol=1e-3, atol=1e-3)
    wanted = np.asarray(score)
    size = np.abs(wanted).max(axis=0)
    np.testing.assert_allclose(run.scores.reshape(-1, 5) / size, wanted / size, atol=0.01)


@pytest.mark.parametrize(
    "keywords",
    [
        {"kernel": "mala", "num_chains": 40, "base": True},
        {"kernel": "mh", "alpha": 0.0},
        {"kernel": "hmc", "alpha": 1.0},
        {"kernel": "hmc", "alpha": 0.0, "keep": "moments"},
        {"kernel": "hmc", "metric": "dense", "thin": 3},
    ],
    ids=str,
)
def test_kernels_and_ways_to_keep(keywords):
    given = SHORT | {"num_samples": 60} | keywords
    run = srmc.sample(skewed_funnel, initial_position=START, coordinates="learned", **given)
    assert run.about["coordinates"]["kind"] == "learned"
    if "keep" in keywords:
        assert run.moments["y"]["mean"].shape == (4, 3)
    else:
        chains = given.get("num_chains", 4)
        assert run.draws["y"].shape == (chains, 60 // given.get("thin", 1), 3)
        assert np.all(np.isfinite(run.draws["y"]))


def test_resume_is_bit_for_bit(tmp_path):
    given = {"initial_position": START, "coordinates": "learned", "num_warmup": 300}
    whole = srmc.sample(skewed_funnel, num_samples=120, alpha=0.0, progress=False, **given)
    for num_samples in (50, 120):
        run = srmc.sample(
            skewed_funnel,
            num_samples=num_samples,
            alpha=0.0,
            progress=False,
            checkpoint=tmp_path / "run",
            resume=True,
            **given,
        )
    same(run, whole)
    assert run.about["coordinates"] == whole.about["coordinates"]


def test_saved_results_say_what_was_found(tmp_path, funnel):
    run = funnel
    run.save(tmp_path / "run.nc")
    loaded = srmc.load(tmp_path / "run.nc")
    assert loaded.about["coordinates"] == run.about["coordinates"]
    np.testing.assert_array_equal(loaded.scores, run.scores)
    np.testing.assert_allclose(loaded.summary(), run.summary(), rtol=1e-6)
    run.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "The scale of x[1..4] follows x[0] (explains 100%)." in page


def test_a_numpyro_model_keeps_its_names_and_supports():
    numpyro = pytest.importorskip("numpyro")
    dist = numpyro.distributions

    def model():
        tau = numpyro.sample("tau", dist.HalfNormal(1.0))
        with numpyro.plate("group", 6):
            numpyro.sample("theta", dist.Normal(0, tau**2))

    run = srmc.sample(model, coordinates="learned", **SHORT)
    assert run.about["coordinates"]["kind"] == "learned"
    assert set(run.draws) == {"tau", "theta"}
    assert np.all(run.draws["tau"] > 0)
    assert any("follows tau" in text for text in run.about["coordinates"]["found"])


def test_lengths():
    assert lengths(1000) == (400, 200, 400)
    assert lengths(300) == (150, 0, 150)
    assert all(sum(lengths(n)) == n for n in range(2 * LEAST_WARMUP, 1000, 37))


@pytest.mark.parametrize(
    ("keywords", "word"),
    [
        ({"coordinates": "neural"}, "coordinates must be one of"),
        ({"coordinates": "learned", "num_warmup": 150}, "num_warmup of at least 200"),
        ({"coordinates": "learned", "space": srmc.Binary()}, "is not for"),
    ],
)
def test_bad_calls(keywords, word):
    with pytest.raises(ValueError, match=word):
        srmc.sample(lambda x: jnp.sum(x), initial_position=jnp.zeros(3), **(SHORT | keywords))
