"""`srmc.plugins.pymc.sample` in place of `pm.sample`."""

import arviz
import jax
import numpy as np
import pytest

pm = pytest.importorskip("pymc")

from srmc.plugins.pymc import _seed, sample  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
Y = np.array([0.3, 1.4, 0.8])
SIZES = {"draws": 200, "tune": 200, "chains": 2, "progressbar": False}


@pytest.fixture(autouse=True)
def _precision():
    """PyTensor turns double precision on for the whole process."""
    before = jax.config.read("jax_enable_x64")
    yield
    jax.config.update("jax_enable_x64", before)


def make_model():
    with pm.Model(coords={"place": ["a", "b", "c"]}) as model:
        scale = pm.Data("scale", 1.0)
        mu = pm.Normal("mu", 0, 1, dims="place")
        s = pm.Gamma("s", 3, 2)
        pm.Deterministic("t", mu * s, dims="place")
        pm.Normal("y", mu, scale, observed=Y, dims="place")
    return model


def test_it_returns_what_pm_sample_returns():
    with make_model():
        trace = sample(**SIZES, random_seed=1, idata_kwargs={"log_likelihood": True})
    posterior = trace["posterior"]
    assert {*posterior.data_vars} == {"mu", "s", "t"}
    assert posterior["mu"].dims == ("chain", "draw", "place")
    assert list(posterior["place"].values) == ["a", "b", "c"]
    assert posterior["s"].shape == (2, 200)
    np.testing.assert_allclose(posterior["t"], posterior["mu"] * posterior["s"], rtol=1e-6)
    np.testing.assert_allclose(posterior["mu"].mean(("chain", "draw")), Y / 2, atol=0.15)
    assert {"acceptance_rate", "diverging", "lp", "step_size"} <= {*trace["sample_stats"].data_vars}
    mu, s = (posterior[k].values for k in ("mu", "s"))
    lp = -0.5 * (mu**2 + (mu - Y) ** 2).sum(axis=-1) + 3 * np.log(s) - 2 * s
    off = trace["sample_stats"]["lp"].values - lp
    assert np.ptp(off) < 1e-3
    plain = trace["posterior_plain"]["mu"]
    assert plain.dims == posterior["mu"].dims
    assert not np.array_equal(plain, posterior["mu"])
    np.testing.assert_array_equal(trace["observed_data"]["y"], Y)
    assert trace["constant_data"]["scale"] == 1
    assert trace["log_likelihood"]["y"].shape == (2, 200, 3)
    assert posterior.attrs["inference_library"] == "srmc"
    assert len(arviz.summary(trace)) == 7
    arviz.loo(trace)


def test_conventions_of_pm_sample():
    options = SIZES | {"draws": 20, "model": make_model(), "var_names": ["s"]}
    trace = sample(**options, random_seed=1, initvals={"s": 2.0})
    assert list(trace["posterior"].data_vars) == ["s"]
    assert "log_likelihood" not in trace
    with pytest.raises(TypeError, match="idata_kwargs got an unknown key, dim"):
        sample(**options, idata_kwargs={"dim": {}})
    with pytest.raises(TypeError, match="unknown keyword, target_accept"):
        sample(**options, target_accept=0.9)
    with pytest.raises(TypeError, match="context"):
        sample(**SIZES)


def test_seeds_may_come_in_any_form():
    generator = np.random.default_rng(0)
    assert _seed(generator) != _seed(generator)
    assert _seed(None) != _seed(None)
    assert _seed(np.int64(7)) == 7
    assert _seed([1, 2]) == _seed((1, 2)) != _seed([2, 1])
    assert 0 <= _seed([2**32 - 1]) < 2**31


def test_bambi_models_work_through_their_pymc_model():
    bambi, pandas = pytest.importorskip("bambi"), pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    x = rng.normal(size=40)
    model = bambi.Model("y ~ x", pandas.DataFrame({"x": x, "y": 1 + 2 * x + rng.normal(size=40)}))
    model.build()
    trace = sample(**SIZES, random_seed=1, model=model.backend.model)
    assert abs(float(trace["posterior"]["x"].mean()) - 2) < 0.5
