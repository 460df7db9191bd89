"""Variables of a trace: those that are missing, those that a sampler adds, and what each gains."""

import builtins

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray

import srmc
from srmc.models.numpyro import has_sites
from srmc.rebalance.errors import active_features
from srmc.rebalance.gains import Gain, gains

Y = np.array([1.1, -0.4, 2.0, 0.7])
N = len(Y)
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


@pytest.fixture(autouse=True)
def _precision():
    with jax.enable_x64(True):
        yield
    jax.config.update("jax_enable_x64", False)


def group_model(scale=1.0):
    """Group effects, not centred; given tau, everything is Gaussian."""
    pm = pytest.importorskip("pymc")
    with pm.Model(coords={"group": range(N)}) as model:
        tau = pm.Gamma("tau", 4, 4)
        offset = pm.Normal("offset", 0, scale, dims="group")
        pm.Deterministic("effect", 1 + offset * tau, dims="group")
        pm.Deterministic("spread", tau**2)
    return model


def group_draws(seed=0, shape=(2, 400)):
    rng = np.random.default_rng(seed)
    tau, offset = rng.gamma(4.0, 0.25, shape), rng.standard_normal((*shape, N))
    return {"tau": tau, "offset": offset, "effect": 1 + offset * tau[..., None], "spread": tau**2}


def posterior(draws, **attrs):
    axes = lambda x: ("chain", "draw", "group")[: x.ndim]
    return xarray.Dataset({k: (axes(x), x) for k, x in draws.items()}, attrs=attrs)


def as_tree(draws, **groups):
    return xarray.DataTree.from_dict({"posterior": posterior(draws)} | groups)


@pytest.mark.filterwarnings("ignore")
def test_a_missing_variable_is_recovered_from_one_that_is_affine_in_it():
    draws = group_draws()
    whole = srmc.improve(as_tree(draws), group_model(), progress=False)
    del draws["offset"]
    out = srmc.improve(as_tree(draws), group_model(), progress=False)
    assert list(out["posterior"].data_vars) == ["tau", "effect", "spread"]
    for name in draws:
        np.testing.assert_allclose(out["posterior"][name], whole["posterior"][name], rtol=1e-6)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kept", [["tau"], ["effect", "spread"], ["tau", "spread"]])
def test_a_variable_that_nothing_determines_is_still_missing(kept):
    draws = {name: x for name, x in group_draws().items() if name in kept}
    with pytest.raises(ValueError, match="must have all variables of the model, but lacks"):
        srmc.improve(as_tree(draws), group_model(), progress=False)


def test_value_variables_are_computed_in_silence():
    draws = group_draws()
    trace = as_tree(draws | {"tau_log__": np.log(draws["tau"])})
    out, report = srmc.improve(trace, group_model(), report=True, progress=False)
    new = out["posterior"]
    np.testing.assert_allclose(new["tau_log__"], np.log(new["tau"]), rtol=1e-9)
    assert not np.allclose(new["tau_log__"], trace["posterior"]["tau_log__"])
    assert {*report.variables} == {*new.data_vars}


def test_means_of_variables_that_others_determine_are_regressed(tmp_path):
    """Products of parameters, of which E[effect] = 1 and E[spread] = 1.25, stay so in files."""
    off, plain = [], []
    for seed in range(4):
        trace = as_tree(group_draws(seed))
        out, report = srmc.improve(trace, group_model(), report=True, progress=False)
        assert {*report.estimates} == {"effect", "spread"}
        table = srmc.summary(out, ["effect", "spread"])
        mean = [*report.estimates["effect"][0], *report.estimates["spread"][0]]
        np.testing.assert_allclose(table["mean"], mean)
        truth = np.array([1, 1, 1, 1, 1.25])
        off.append((table["mean"] - truth) / table["mcse_mean"])
        old = srmc.summary(trace, ["effect", "spread"])
        plain.append(((table["mean"] - truth) / (old["mean"] - truth)) ** 2)
    assert np.median(plain) < 0.1
    assert np.mean(np.abs(off) < 1.96) > 0.8
    out.to_netcdf(tmp_path / "t.nc")
    again = xarray.open_datatree(tmp_path / "t.nc")
    np.testing.assert_allclose(srmc.summary(again, ["effect", "spread"])["mean"], table["mean"])


def test_a_dataset_comes_back_as_a_dataset():
    density = lambda x: -0.5 * jnp.sum((x - 1) ** 2)
    x = 1 + np.random.default_rng(0).standard_normal((2, 300, N))
    data = posterior({"x": x}, made="by hand")
    out = srmc.improve(data, density, progress=False)
    assert isinstance(out, xarray.Dataset)
    assert out["x"].dims == data["x"].dims
    assert out.attrs["made"] == "by hand"
    assert out.attrs["srmc_method"] == "rebalance"
    np.testing.assert_array_equal(data["x"], x)
    assert float(np.abs(out["x"].mean(("chain", "draw")) - 1).max()) < 1e-2
    with pytest.raises(ValueError, match="improved already"):
        srmc.improve(out, density)
    with pytest.raises(ValueError, match="dimensions chain and draw"):
        srmc.improve(data.rename(chain="walker"), density)


@pytest.mark.filterwarnings("ignore")
def test_draws_of_an_approximation_are_refused():
    pm = pytest.importorskip("pymc")
    with group_model() as model:
        trace = pm.fit(10, progressbar=False, random_seed=0).sample(50)
    with pytest.raises(ValueError, match="comes from an approximation"):
        srmc.improve(trace, model)


@pytest.mark.filterwarnings("ignore")
def test_the_stored_log_density_must_be_that_of_the_model():
    draws = group_draws()
    tau, offset = draws["tau"], draws["offset"]
    lp = 4 * np.log(tau) - 4 * tau - 0.5 * np.sum(offset**2, axis=-1)
    for sign in (1, -1):  # PyMC's JAX samplers store the potential
        trace = as_tree(draws, sample_stats=posterior({"lp": sign * lp + 3.0}))
        trace["posterior"].attrs["inference_library"] = "pymc"
        assert "posterior_plain" in srmc.improve(trace, group_model(), progress=False)
        with pytest.raises(ValueError, match="its log density, lp in sample_stats, differs"):
            srmc.improve(trace, group_model(scale=1.02), progress=False)


def test_numpyro_is_not_imported_for_a_log_density(monkeypatch):
    """Its import of tqdm warns in notebooks without ipywidgets."""
    real = builtins.__import__

    def guarded(name, *args, **kwargs):
        assert not name.startswith("numpyro")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", guarded)
    assert not has_sites(lambda x: -0.5 * jnp.sum(x**2))


def change_point():
    """A rate that drops at some time; what follows from the parameters is steep in it."""
    pm = pytest.importorskip("pymc")
    time = np.arange(40)
    counts = np.random.default_rng(0).poisson(np.where(time < 18, 4.0, 1.0))
    with pm.Model() as model:
        switch = pm.Uniform("switch", 0, 39)
        early, late = pm.Exponential("early", 1), pm.Exponential("late", 1)
        after = pm.math.sigmoid((time - switch) / 2)
        rate = pm.Deterministic("rate", early + (late - early) * after)
        pm.Deterministic("start", pm.math.floor(switch))
        pm.Poisson("counts", rate, observed=counts)
        options = {"chains": 2, "cores": 1, "random_seed": 1, "progressbar": False}
        return model, pm.sample(300, tune=400, **options)


@pytest.mark.filterwarnings("ignore")
def test_the_gain_is_of_every_variable_and_a_loss_is_told(monkeypatch):
    model, trace = change_point()
    better, report = srmc.improve(trace, model, report=True, progress=False)
    new, old = better["posterior"], better["posterior_plain"]
    assert {*report.variables} == {*new.data_vars} == {"switch", "early", "late", "rate", "start"}
    for name, gain in report.variables.items():
        assert new[name].attrs["srmc_quantiles"] == gain.quantiles
        assert gain.is_loss == (name in report.worse)
        assert name == "start" or not np.any(new[name] == old[name])
    assert np.mean([sum(gain) / 3 for gain in report.variables.values()]) < 0.8

    loss = report.variables | {"rate": Gain(1.12, 1.74, 4.1)}
    monkeypatch.setattr("srmc.models.improve.gains", lambda *_: loss)
    with pytest.warns(UserWarning, match="estimates of .*rate.* get worse"):
        better, report = srmc.improve(trace, model, report=True, progress=False)
    new, old = better["posterior"], better["posterior_plain"]
    assert new.attrs["srmc_worse"] == ", ".join(report.worse)
    at_once = 1 / (1 + np.exp(-(np.arange(40) - new["switch"].values[..., None]) / 2))
    early, late = (new[name].values[..., None] for name in ("early", "late"))
    np.testing.assert_allclose(new["rate"], early + (late - early) * at_once, rtol=1e-6)
    table, plain = (srmc.summary(v, ["rate", "early"]) for v in (better, trace))
    columns = ["sd", "5%", "50%", "95%", "mcse_sd", "mcse_5%"]
    rates = [label for label in table.index if label.startswith("rate")]
    np.testing.assert_allclose(table.loc[rates, columns], plain.loc[rates, columns])
    assert table.loc["early", "mcse_sd"] < plain.loc["early", "mcse_sd"]


@pytest.mark.filterwarnings("ignore")
def test_heavy_tails_are_no_loss():
    """The sd of tau gains a hundredfold, which residuals with a tail do not show."""
    for seed in range(3):
        trace = as_tree(group_draws(seed))
        _, report = srmc.improve(trace, group_model(), report=True, progress=False)
        assert report.worse == ()


def test_a_change_that_features_do_not_explain_is_a_loss():
    rng = np.random.default_rng(0)
    x, s = rng.standard_normal((2, 2, 400, 1))
    features = active_features(x, -x)
    right = {"x": x - x.mean(), "same": s}
    found = gains({"x": x, "same": s}, right, features)
    assert found["x"].means < 0.01
    assert not found["x"].is_loss
    assert gains({"x": x}, {"x": x + 0.5}, features)["x"].is_loss
    assert gains({"x": 0 * x}, {"x": 0 * x}, features)["x"] == Gain(1.0, 1.0, 1.0)
