"""Hierarchical models of PyMC and NumPyro, from their data to ArviZ and predictions."""

import json
import logging
from types import SimpleNamespace

import arviz
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc

pytestmark = pytest.mark.filterwarnings("ignore")
CITIES = ["london", "paris", "rome", "oslo"]
EFFECTS = ["level", "slope"]
CITY = np.repeat(np.arange(4), 10)
RNG = np.random.default_rng(3)
X = RNG.normal(size=40)
Y = np.array([1.0, 2.0, -1.0, 0.0])[CITY] + 0.5 * X + 0.4 * RNG.normal(size=40)
SHORT = {"num_warmup": 300, "num_samples": 300, "num_chains": 2, "progress": False}
COORDS = {"city": CITIES, "effect": EFFECTS}


def of_pymc():
    pm = pytest.importorskip("pymc")
    with pm.Model(coords=COORDS | {"row": np.arange(40)}) as model:
        x = pm.Data("x", X, dims="row")
        sd = pm.HalfNormal.dist(2.0)
        factor, _, _ = pm.LKJCholeskyCov("factor", n=2, eta=2.0, sd_dist=sd)
        z = pm.Normal("z", dims=("city", "effect"))
        effects = pm.Deterministic("effects", z @ factor.T, dims=("city", "effect"))
        sigma = pm.HalfNormal("sigma", 1.0)
        pm.Normal("y", effects[CITY, 0] + effects[CITY, 1] * x, sigma, observed=Y, dims="row")
    return srmc.sample(model, **SHORT), model


def of_numpyro():
    numpyro = pytest.importorskip("numpyro")
    dist = numpyro.distributions

    def model(x, y=None):
        scales = numpyro.sample("scales", dist.HalfNormal(2.0).expand([2]).to_event(1))
        factor = scales[:, None] * numpyro.sample("factor", dist.LKJCholesky(2, 2.0))
        with numpyro.plate("city", 4):
            infer = {"event_dims": ["effect"]}
            z = numpyro.sample("z", dist.Normal(0.0, 1.0).expand([2]).to_event(1), infer=infer)
        effects = numpyro.deterministic("effects", z @ factor.T)
        sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
        with numpyro.plate("row", 40):
            mean = effects[CITY, 0] + effects[CITY, 1] * x
            numpyro.sample("y", dist.Normal(mean, sigma), obs=y)

    given = {"dims": {"effects": ["city", "effect"], "x": "row"}, "coords": COORDS}
    data = {"x": X.astype(np.float32), "y": Y.astype(np.float32)}
    return srmc.sample(model, data=data, **given, **SHORT), model


@pytest.fixture(scope="module", params=[of_pymc, of_numpyro], ids=["pymc", "numpyro"])
def run(request):
    """PyTensor turns double precision on for the whole process."""
    before = jax.config.read("jax_enable_x64")
    with jax.numpy_rank_promotion("allow"):
        result, model = request.param()
        yield SimpleNamespace(
            result=result,
            model=model,
            library=request.param.__name__.removeprefix("of_"),
            trace=result.to_arviz(log_likelihood=True),
        )
    jax.config.update("jax_enable_x64", before)


def predicted_sd(posterior):
    """The standard deviation of predictions of each row, given the draws of the effects."""
    effects, sigma = posterior["effects"].values, posterior["sigma"].values
    mean = effects[..., CITY, 0] + effects[..., CITY, 1] * X
    return np.sqrt(np.mean(sigma**2) + mean.var(axis=(0, 1)))


def test_dims_coords_and_data_reach_arviz(run):
    posterior = run.trace["posterior"]
    for group in ("posterior", "posterior_plain"):
        assert run.trace[group]["effects"].dims == ("chain", "draw", "city", "effect")
        assert run.trace[group]["z"].dims == ("chain", "draw", "city", "effect")
    assert list(posterior["city"].values) == CITIES
    assert list(posterior["effect"].values) == EFFECTS
    np.testing.assert_allclose(run.trace["observed_data"]["y"], Y, rtol=1e-6)
    np.testing.assert_allclose(run.trace["constant_data"]["x"], X, rtol=1e-6)
    assert run.trace["observed_data"]["y"].dims == ("row",)
    assert run.trace["constant_data"]["x"].dims == ("row",)
    assert posterior.attrs["inference_library"] == "srmc"
    apply = "do not apply" if run.result.is_rebalanced else "hold for these draws"
    assert apply in posterior.attrs["srmc_diagnostics"]
    assert json.loads(run.trace.attrs["about"]) == run.result.about


def test_rows_have_the_names_of_coordinates(run):
    summary = run.result.summary()
    assert "effects[rome,slope]" in summary.index
    table = arviz.summary(run.trace, var_names=["effects"])
    assert "effects[rome, slope]" in table.index
    mean = float(run.trace["posterior"]["effects"].sel(city="rome", effect="slope").mean())
    assert summary.loc["effects[rome,slope]", "mean"] == pytest.approx(mean, abs=1e-5)


def test_predictions_keep_the_effects(run, caplog):
    expected = predicted_sd(run.trace["posterior"])
    if run.library == "pymc":
        import pymc as pm

        with run.model, caplog.at_level(logging.INFO, logger="pymc"):
            options = {"random_seed": 0, "progressbar": False}
            drawn = pm.sample_posterior_predictive(run.trace, **options)
        assert "Sampling: [y]" in caplog.text
        assert list(drawn["posterior_predictive"].data_vars) == ["y"]
        y = drawn["posterior_predictive"]["y"].values
    else:
        from numpyro.infer import Predictive

        draws = {name: run.result.draws[name] for name in ("scales", "factor", "z", "sigma")}
        predict = Predictive(run.model, draws, batch_ndims=2)
        y = predict(jax.random.key(0), jnp.asarray(X))["y"]
    np.testing.assert_allclose(np.std(y, axis=(0, 1)), expected, rtol=0.15)
    assert np.mean(expected) < 0.6


def test_the_log_likelihood_is_that_of_the_draws(run):
    effects, sigma = (run.trace["posterior"][k].values for k in ("effects", "sigma"))
    off = (Y - effects[..., CITY, 0] - effects[..., CITY, 1] * X) / sigma[..., None]
    exact = -0.5 * off**2 - np.log(sigma)[..., None] - 0.5 * np.log(2 * np.pi)
    likelihood = run.trace["log_likelihood"]["y"]
    assert likelihood.dims == ("chain", "draw", "row")
    np.testing.assert_allclose(likelihood.values, exact, rtol=1e-3, atol=1e-3)
    arviz.loo(run.trace)


def test_energies_are_those_of_the_plain_chain(run):
    stats = run.trace["sample_stats"]
    whose = "posterior_plain" if run.result.is_rebalanced else "posterior"
    assert stats.attrs["srmc_draws"] == f"those of the group {whose}"
    kinetic = (stats["energy"] + stats["lp"]).values  # half a chi-square of d, or nearly
    dim = run.result.kept.scored["position"].shape[2]
    assert np.all(kinetic > 0)
    assert np.mean(kinetic) == pytest.approx(dim / 2, rel=0.15)
    found = srmc.metrics.bfmi(run.result.stats["energy"])
    known = arviz.bfmi(run.trace)
    known = known if isinstance(known, np.ndarray) else known["energy"].values
    np.testing.assert_allclose(known, found, rtol=0.01)


def test_all_of_it_is_in_the_file(run, tmp_path):
    run.result.save(tmp_path / "a.nc")
    again = srmc.load(tmp_path / "a.nc")
    assert list(again.summary().index) == list(run.result.summary().index)
    trace = again.to_arviz()
    for group in ("posterior", "posterior_plain", "observed_data", "constant_data"):
        assert trace[group].equals(run.trace[group]), group
    with pytest.raises(ValueError, match="log_likelihood=True needs the model"):
        again.to_arviz(log_likelihood=True)
    run.trace.to_netcdf(str(tmp_path / "b.nc"))
