"""Traces of other programs: exact draws of one posterior, in every form in which they may come."""

import arviz
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray

import srmc
from fake_stan import FakeStan

# mu ~ N(0, 1) with y ~ N(mu, 1); s ~ Gamma(3, rate 2); p ~ Dirichlet; t = mu + s.
Y = np.array([0.3, 1.4, 0.8])
SHARES = np.array([2.0, 3.0, 4.0])
TRUTH = {"mu": Y.sum() / 4, "s": 1.5, "p": SHARES / 9, "t": Y.sum() / 4 + 1.5}
SD = {"mu": 0.5, "s": np.sqrt(3) / 2, "p": np.sqrt(SHARES * (9 - SHARES) / 810), "t": 1.0}
KINDS = ["low", "middle", "high"]
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


@pytest.fixture(autouse=True)
def _precision():
    """PyTensor turns double precision on for the whole process; here it is on from the start."""
    with jax.enable_x64(True):
        yield
    jax.config.update("jax_enable_x64", False)


def exact_draws(seed=0, shape=(2, 400)):
    rng = np.random.default_rng(seed)
    mu = TRUTH["mu"] + 0.5 * rng.standard_normal(shape)
    s = rng.gamma(3.0, 0.5, shape)
    return {"mu": mu, "s": s, "p": rng.dirichlet(SHARES, shape), "t": mu + s}


def dataset(draws, **attrs):
    rest = lambda k, x: ["kind" if k == "p" else f"{k}_dim_{n}" for n in range(x.ndim - 2)]
    data = {k: (("chain", "draw", *rest(k, x)), x) for k, x in draws.items()}
    chains, length = next(iter(draws.values())).shape[:2]
    coords = {"chain": np.arange(chains) + 5, "draw": np.arange(length) * 2}
    return xarray.Dataset(data, coords | ({"kind": KINDS} if "p" in draws else {}), attrs)


def as_tree(**groups):
    tree = xarray.DataTree.from_dict(groups)
    tree.attrs = {"made": "by hand"}
    return tree


def as_inference_data(**groups):
    if "InferenceData" not in vars(arviz):
        pytest.skip("ArviZ 1.0 has no InferenceData")
    return arviz.InferenceData(attrs={"made": "by hand"}, **groups)


def pymc_model(y=Y, rate=2.0, offset=0.0):
    pm = pytest.importorskip("pymc")
    with pm.Model(coords={"kind": KINDS}) as model:
        mu = pm.Normal("mu", 0, 1)
        s = pm.Gamma("s", 3, rate)
        pm.Dirichlet("p", SHARES, dims="kind")
        pm.Deterministic("t", mu + s + offset)
        pm.Normal("y", mu, 1, observed=y)
    return model


def numpyro_model(y):
    import numpyro
    from numpyro import distributions as dist

    mu = numpyro.sample("mu", dist.Normal(0, 1))
    s = numpyro.sample("s", dist.Gamma(3, 2))
    numpyro.sample("p", dist.Dirichlet(jnp.asarray(SHARES)))
    numpyro.deterministic("t", mu + s)
    numpyro.sample("y", dist.Normal(mu, 1), obs=y)


def log_density(z):
    mu, s, p = z["mu"], z["log_s"], z["log_p"]
    shares = jax.nn.log_softmax(jnp.append(p, 0.0))
    return -2 * (mu - TRUTH["mu"]) ** 2 + 3 * s - 2 * jnp.exp(s) + jnp.sum(SHARES * shares)


def unconstrain(v):
    log_p = jnp.log(v["p"])
    return {"mu": v["mu"], "log_s": jnp.log(v["s"]), "log_p": log_p[:2] - log_p[2]}


def constrain(z):
    s = jnp.exp(z["log_s"])
    p = jax.nn.softmax(jnp.append(z["log_p"], 0.0))
    return {"mu": z["mu"], "s": s, "p": p, "t": z["mu"] + s}


MODELS = {
    "pymc": lambda: (pymc_model(), {}),
    "numpyro": lambda: (pytest.importorskip("numpyro") and numpyro_model, {"data": (Y,)}),
    "density": lambda: (log_density, {"unconstrain": unconstrain, "constrain": constrain}),
    "stan": lambda: (FakeStan(TRUTH["mu"], SHARES), {}),
}


def off(draws):
    """The error of means, in standard errors of independent draws."""
    n = np.sqrt(draws["mu"].size)
    errors = [n * (np.mean(draws[k], axis=(0, 1)) - TRUTH[k]) / SD[k] for k in TRUTH]
    return float(np.sqrt(np.mean(np.concatenate([np.ravel(e) for e in errors]) ** 2)))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", [as_inference_data, as_tree])
@pytest.mark.parametrize("name", MODELS)
def test_the_same_trace_comes_back_with_smaller_errors(name, make):
    draws = exact_draws()
    stats = dataset({"lp": draws["mu"]}, inference_library="none")
    trace = make(posterior=dataset(draws, created="today"), sample_stats=stats)
    model, options = MODELS[name]()
    out, report = srmc.improve(trace, model, report=True, progress=False, **options)
    assert type(out) is type(trace)
    assert out.attrs["made"] == "by hand"
    new, old = out["posterior"], out["posterior_plain"]
    assert list(new.data_vars) == ["mu", "s", "p", "t"]
    assert new["p"].dims == ("chain", "draw", "kind")
    assert list(new["kind"].values) == KINDS
    assert np.array_equal(new["chain"], [5, 6])
    assert new.attrs["created"] == "today"
    assert new.attrs["srmc_method"] == report.method == "rebalance"
    assert "posterior_plain" in new.attrs["srmc_diagnostics"]
    assert "posterior_plain" in out["sample_stats"].attrs["srmc_draws"]
    assert out["sample_stats"].attrs["inference_library"] == "none"
    for k, x in draws.items():
        assert np.array_equal(old[k], x)
        assert np.array_equal(trace["posterior"][k], x)
    np.testing.assert_allclose(new["t"], new["mu"] + new["s"], rtol=1e-6)
    np.testing.assert_allclose(new["p"].sum("kind"), 1, rtol=1e-6)
    assert float(new["s"].min()) > 0
    before, after = off(draws), off({k: new[k].values for k in draws})
    assert after < 0.4 * before
    assert report.means < 0.3
    assert 0 < report.largest_change < 5
    with pytest.raises(ValueError, match="improved already"):
        srmc.improve(out, model, **options)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["pymc", "numpyro"])
def test_the_log_likelihood_is_computed_anew(name):
    draws = exact_draws()
    likelihood = lambda mu: -0.5 * (Y - mu[..., None]) ** 2 - 0.5 * np.log(2 * np.pi)
    trace = as_tree(
        posterior=dataset(draws), log_likelihood=dataset({"y": likelihood(draws["mu"])})
    )
    model, options = MODELS[name]()
    out = srmc.improve(trace, model, progress=False, **options)
    new = out["posterior"]["mu"].values
    np.testing.assert_allclose(out["log_likelihood"]["y"], likelihood(new), rtol=1e-5)
    assert not np.allclose(new, draws["mu"])


def stored(seed=0):
    """Unconstrained draws and their scores, as nutpie stores them."""
    draws = exact_draws(seed)
    log_p = np.log(draws["p"])
    x = np.concatenate(
        [draws["mu"][..., None], np.log(draws["s"])[..., None], log_p[..., :2] - log_p[..., 2:]], -1
    )
    p = draws["p"][..., :2]
    score = np.concatenate(
        [-4 * (x[..., :1] - TRUTH["mu"]), 3 - 2 * np.exp(x[..., 1:2]), SHARES[:2] - 9 * p], -1
    )
    return draws, x, score


def with_gradients(draws, **stats):
    dims = ("chain", "draw", "unconstrained_parameter")
    data = xarray.Dataset({k: (dims, x) for k, x in stats.items()})
    return as_tree(posterior=dataset(draws), sample_stats=data)


def test_gradients_of_nutpie_give_weights_and_resampled_draws():
    ratios = []
    for seed in range(8):
        draws, x, score = stored(seed)
        trace = with_gradients(draws, gradient=score, unconstrained_draw=x)
        out, report = srmc.improve(trace, report=True)
        weight = out["sample_stats"]["srmc_weight"].values
        weighted = {k: (weight.T * v.T).T.sum(axis=(0, 1)) for k, v in draws.items()}
        weighted = {k: v[None, None] for k, v in weighted.items()} | {"mu": weighted["mu"][None]}
        new = {k: out["posterior"][k].values for k in draws}
        ratios.append((off(new) / off(draws)) ** 2)
        np.testing.assert_allclose(new["t"], new["mu"] + new["s"])
        assert weight.sum() == pytest.approx(1)
        assert abs(weighted["mu"] - TRUTH["mu"]) < 0.01
        assert report.method == "reweight"
        assert 0.5 < report.effective < 1
    assert np.mean(ratios) < 0.5


def test_numpyro_s_gradients_are_those_of_the_potential():
    rng = np.random.default_rng(0)
    draws = {"a": rng.normal(2.0, 3.0, (2, 300)), "b": rng.normal(0.0, 1.0, (2, 300, 2))}
    z_grad = {"a": (draws["a"] - 2) / 9, "b": draws["b"]}
    trace = as_tree(posterior=dataset(draws | {"c": 2 * draws["a"]}))
    out = srmc.improve(trace, z_grad=z_grad)
    weight = out["sample_stats"]["srmc_weight"].values
    assert np.sum(weight * draws["a"]) == pytest.approx(2.0, abs=1e-3)
    np.testing.assert_allclose(out["posterior"]["c"], 2 * out["posterior"]["a"])
    with pytest.raises(ValueError, match="must be those of the trace's draws"):
        srmc.improve(trace, z_grad={k: -g for k, g in z_grad.items()})
    with pytest.raises(ValueError, match="z_grad of b must have the shape"):
        srmc.improve(trace, z_grad=z_grad | {"b": z_grad["b"][..., :1]})
    with pytest.raises(ValueError, match="z_grad has 'd'"):
        srmc.improve(trace, z_grad={"d": z_grad["a"]})
    with pytest.raises(TypeError, match="z_grad must be"):
        srmc.improve(trace, z_grad=z_grad["a"])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("model", "words"),
    [
        (lambda: pymc_model(y=Y + 3), "does not explain the draws"),
        (lambda: pymc_model(rate=4.0), "does not explain the draws"),
        (lambda: pymc_model(offset=0.5), "t is .* in a draw of trace, and the model computes"),
    ],
)
def test_the_trace_of_another_model_is_refused(model, words):
    with pytest.raises(ValueError, match=words):
        srmc.improve(as_tree(posterior=dataset(exact_draws())), model(), progress=False)


def test_constrained_draws_without_a_transform_are_refused():
    rng = np.random.default_rng(0)
    trace = as_tree(posterior=dataset({"x": rng.exponential(1.0, (2, 500))}))
    bounded = lambda x: jnp.where(x > 0, -x, -jnp.inf)
    with pytest.raises(ValueError, match="give unconstrain and constrain"):
        srmc.improve(trace, bounded, progress=False)
    positive = {"unconstrain": lambda v: jnp.log(v["x"]), "constrain": lambda z: {"x": jnp.exp(z)}}
    out = srmc.improve(trace, lambda z: z - jnp.exp(z), progress=False, **positive)
    plain, new = (float(out[g]["x"].mean()) for g in ("posterior_plain", "posterior"))
    assert abs(new - 1) < 0.2 * abs(plain - 1)


def test_targets_and_plain_densities_need_no_transform():
    target = srmc.targets.gaussian(3)
    x = np.random.default_rng(0).multivariate_normal(np.zeros(3), np.eye(3), (2, 300))
    root = np.linalg.cholesky(np.linalg.inv(-jax.hessian(target.logdensity_fn)(jnp.zeros(3))))
    trace = as_tree(posterior=dataset({"x": x @ root.T}))
    for model in (target, target.logdensity_fn):
        out = srmc.improve(trace, model, progress=False)
        assert float(np.abs(out["posterior"]["x"].mean(("chain", "draw"))).max()) < 1e-2


def without_finite(draws):
    draws["mu"][0, 3] = np.nan


def without_s(draws):
    del draws["s"], draws["t"]  # s follows from t


def negative(draws):
    draws["s"] *= -1


def whole(draws):
    draws["s"] = np.ceil(draws["s"]).astype(int)


def longer(draws):
    draws["p"] = np.concatenate([draws["p"], draws["p"]], axis=-1)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (without_finite, "mu must be finite in trace, got 1 NaN"),
        (without_s, "must have all variables of the model, but lacks s"),
        (negative, "outside or on the edge of the model's support"),
        (whole, "s must be continuous to be improved, got int"),
        (longer, "trace does not fit the model"),
    ],
)
def test_bad_draws_are_refused(spoil, words):
    pytest.importorskip("numpyro")
    draws = exact_draws()
    spoil(draws)
    dims = {"p": ("kind",)} if draws["p"].shape[-1] == 3 else {"p": ("p_dim_0",)}
    data = {k: (("chain", "draw", *dims.get(k, ())), x) for k, x in draws.items()}
    with pytest.raises(ValueError, match=words):
        srmc.improve(as_tree(posterior=xarray.Dataset(data)), numpyro_model, data=(Y,))


@pytest.mark.filterwarnings("ignore")
def test_discrete_latents_are_refused():
    pm, numpyro = pytest.importorskip("pymc"), pytest.importorskip("numpyro")
    rng = np.random.default_rng(0)
    trace = as_tree(posterior=dataset({"k": rng.poisson(2.0, (2, 50))}))
    with pm.Model() as model:
        pm.Poisson("k", 2.0)
    with pytest.raises(ValueError, match="continuous variables alone"):
        srmc.improve(trace, model)
    with pytest.raises(ValueError, match="continuous variables alone"):
        srmc.improve(trace, lambda: numpyro.sample("k", numpyro.distributions.Poisson(2.0)))
    with pytest.raises(ValueError, match="k must be continuous"):
        srmc.improve(trace, lambda x: -x["k"])


def test_what_is_asked_for_must_be_possible():
    trace = as_tree(posterior=dataset(exact_draws()))
    with pytest.raises(TypeError, match="trace must be an ArviZ"):
        srmc.improve(exact_draws(), log_density)
    with pytest.raises(ValueError, match="must have a group posterior"):
        srmc.improve(as_tree(prior=dataset(exact_draws())), log_density)
    with pytest.raises(ValueError, match="no stored gradients"):
        srmc.improve(trace)
    draws, _, score = stored()
    with pytest.raises(ValueError, match="store_unconstrained=True"):
        srmc.improve(with_gradients(draws, gradient=score))
    with pytest.raises(ValueError, match="given together"):
        srmc.improve(trace, log_density, constrain=constrain)
    with pytest.raises(ValueError, match="give one of the two"):
        srmc.improve(trace, log_density, z_grad={})
    with pytest.raises(ValueError, match="must be continuous, got one on"):
        srmc.improve(trace, srmc.Model(log_density, space=srmc.Binary()))
    opaque = lambda z: float(np.sum(np.asarray(z["mu"])))
    with pytest.raises(TypeError, match="from_value_and_grad"):
        srmc.improve(trace, opaque, unconstrain=unconstrain, constrain=constrain)
    with pytest.raises(TypeError, match="report must be"):
        srmc.improve(trace, log_density, report="yes")


def test_what_comes_back_can_be_saved(tmp_path):
    options = {"unconstrain": unconstrain, "constrain": constrain, "progress": False}
    for make in (as_tree, as_inference_data):
        out = srmc.improve(make(posterior=dataset(exact_draws())), log_density, **options)
        out.to_netcdf(tmp_path / f"{make.__name__}.nc")
        with xarray.open_dataset(tmp_path / f"{make.__name__}.nc", group="posterior") as read:
            assert read.attrs["srmc_method"] == "rebalance"
            np.testing.assert_array_equal(read["s"], out["posterior"]["s"])


def test_variables_that_the_model_does_not_know_are_left_with_the_plain_draws():
    draws = exact_draws()
    trace = as_tree(posterior=dataset(draws | {"ratio": draws["mu"] / draws["s"]}))
    with pytest.warns(UserWarning, match="does not compute ratio"):
        out = srmc.improve(
            trace, log_density, unconstrain=unconstrain, constrain=constrain, progress=False
        )
    assert "ratio" not in out["posterior"]
    assert "ratio" in out["posterior_plain"]
