"""Posteriors: the log densities are those of the models, and of the reference draws."""

import json
import os
import zipfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import beta, cauchy, gamma, multivariate_normal, norm, t

from srmc_studies.bench.posteriors import BUILT_IN, POSTERIORDB, find, simulated

pytestmark = pytest.mark.usefixtures("x64")
N = 12
REFERENCE = Path(os.environ.get("SRMC_DATA", "/nowhere")) / "posteriordb"


def make_data():
    """Small data in the form of posteriordb."""
    rng = np.random.default_rng(0)
    normal, positive = rng.normal(size=(8, N)), np.exp(0.3 * rng.normal(size=(8, N)))
    binary, grades = rng.integers(0, 2, (3, N)), rng.integers(1, 5, (8, N))
    mesquite = ("weight", "diam1", "diam2", "canopy_height", "total_height")
    nes = ("partyid7", "real_ideo", "race_adj", "age_discrete", "educ1", "gender", "income")
    design = np.column_stack([np.ones(N), normal[:4].T])
    return {
        "arK": {"K": 2, "T": N, "y": normal[0]},
        "arma": {"T": N, "y": normal[0]},
        "diamonds": {"N": N, "K": 5, "X": design, "Y": 8 + normal[5], "prior_only": 0},
        "earnings": {"earn": 100 * positive[0], "height": 60 + normal[0], "male": binary[0]},
        "eight_schools": {
            "y": [28, 8, -3, 7, -1, 1, 18, 12],
            "sigma": [15, 10, 16, 11, 9, 11, 10, 18],
        },
        "garch": {"T": N, "y": 5 + normal[0], "sigma1": 0.5},
        "gp_pois_regr": {"N": N, "x": np.arange(N), "y": normal[0]},
        "kidiq": {
            "kid_score": 80 + 20 * normal[0],
            "mom_iq": 100 + 15 * normal[1],
            "mom_hs": binary[0],
        },
        "kilpisjarvi_mod": {
            "x": 1950 + np.arange(N),
            "y": 9 + normal[0],
            "pmualpha": 9.3,
            "psalpha": 100,
            "pmubeta": 0,
            "psbeta": 0.03,
        },
        "mesquite": dict(zip(mesquite, positive, strict=False)) | {"group": binary[0]},
        "nes1980": dict(zip(nes, grades, strict=False)),
        "sblrc": {"X": normal[:5].T, "y": normal[5]},
        "sblri": {"X": normal[:5].T, "y": normal[6]},
    }


DATA = make_data()


@pytest.fixture
def checkout(tmp_path):
    folder = tmp_path / "posterior_database" / "data" / "data"
    folder.mkdir(parents=True)
    for name, data in DATA.items():
        with zipfile.ZipFile(folder / f"{name}.json.zip", "w") as archive:
            as_json = {k: np.asarray(v).tolist() for k, v in data.items()}
            archive.writestr(f"{name}.json", json.dumps(as_json))
    return tmp_path


def arma_errors(p, y):
    before, error, out = p["mu"], 0.0, []
    for value in y:
        error = value - (p["mu"] + p["phi"] * before + p["theta"] * error)
        before = value
        out.append(error)
    return np.array(out)


def garch_scales(p, data):
    scales = [data["sigma1"]]
    for value in data["y"][:-1]:
        square = p["alpha1"] * (value - p["mu"]) ** 2 + p["beta1"] * scales[-1] ** 2
        scales.append(np.sqrt(p["alpha0"] + square))
    return np.array(scales)


def regression(p, y, columns, sigma_prior=0.0):
    fit = p["beta"][0] + np.stack(columns, axis=1) @ p["beta"][1:]
    return norm(fit, p["sigma"]).logpdf(y).sum() + sigma_prior


def autoregression(p, d):
    y = d["y"]
    fit = p["alpha"] + p["beta"][0] * y[1:-1] + p["beta"][1] * y[:-2]
    prior = norm(0, 10).logpdf([p["alpha"], *p["beta"]]).sum()
    return prior + cauchy(0, 2.5).logpdf(p["sigma"]) + norm(fit, p["sigma"]).logpdf(y[2:]).sum()


def diamonds(p, d):
    x = d["X"][:, 1:]
    fit = p["Intercept"] + (x - x.mean(axis=0)) @ p["b"]
    prior = norm().logpdf(p["b"]).sum() + t(3, 8, 10).logpdf(p["Intercept"])
    return prior + t(3, 0, 10).logpdf(p["sigma"]) + norm(fit, p["sigma"]).logpdf(d["Y"]).sum()


def schools(p, d):
    prior = norm(0, 5).logpdf(p["mu"]) + cauchy(0, 5).logpdf(p["tau"])
    prior += norm(p["mu"], p["tau"]).logpdf(p["theta"]).sum()
    return prior + norm(p["theta"], d["sigma"]).logpdf(d["y"]).sum()


def process(p, d):
    square = np.subtract.outer(d["x"], d["x"]) ** 2
    covariance = p["alpha"] ** 2 * np.exp(-square / 2 / p["rho"] ** 2) + p["sigma"] * np.eye(N)
    prior = gamma(25, scale=1 / 4).logpdf(p["rho"]) + norm(0, 2).logpdf(p["alpha"])
    likelihood = multivariate_normal(np.zeros(N), covariance).logpdf(d["y"])
    return prior + norm().logpdf(p["sigma"]) + likelihood


def arma(p, d):
    prior = norm([0, 0, 0], [10, 2, 2]).logpdf([p["mu"], p["phi"], p["theta"]]).sum()
    errors = arma_errors(p, d["y"])
    return prior + cauchy(0, 2.5).logpdf(p["sigma"]) + norm(0, p["sigma"]).logpdf(errors).sum()


def kilpisjarvi(p, d):
    prior = norm(9.3, 100).logpdf(p["alpha"]) + norm(0, 0.03).logpdf(p["beta"])
    return prior + norm(p["alpha"] + p["beta"] * d["x"], p["sigma"]).logpdf(d["y"]).sum()


def mesquite(p, d):
    area = d["diam1"] * d["diam2"]
    measures = (area * d["canopy_height"], area, d["diam1"] / d["diam2"], d["total_height"])
    return regression(p, np.log(d["weight"]), [*np.log(measures), d["group"]])


def nes(p, d):
    ages = [d["age_discrete"] == k for k in (2, 3, 4)]
    rest = [d[k] for k in ("educ1", "gender", "income")]
    return regression(p, d["partyid7"], [d["real_ideo"], d["race_adj"], *ages, *rest])


def blr(p, d):
    prior = norm(0, 10).logpdf([*p["beta"], p["sigma"]]).sum()
    return prior + norm(d["X"] @ p["beta"], p["sigma"]).logpdf(d["y"]).sum()


def earnings(p, d):
    product = d["height"] * d["male"]
    return regression(p, np.log(d["earn"]), [d["height"], d["male"], product])


def kids(p, d, columns):
    return regression(p, d["kid_score"], columns, cauchy(0, 2.5).logpdf(p["sigma"]))


MODELS = {
    "arK-arK": autoregression,
    "arma-arma11": arma,
    "diamonds-diamonds": diamonds,
    "earnings-logearn_interaction": earnings,
    "eight_schools-eight_schools_noncentered": schools,
    "garch-garch11": lambda p, d: norm(p["mu"], garch_scales(p, d)).logpdf(d["y"]).sum(),
    "gp_pois_regr-gp_regr": process,
    "kidiq-kidscore_interaction": lambda p, d: kids(
        p, d, [d["mom_hs"], d["mom_iq"], d["mom_hs"] * d["mom_iq"]]
    ),
    "kidiq-kidscore_momiq": lambda p, d: kids(p, d, [d["mom_iq"]]),
    "kilpisjarvi_mod-kilpisjarvi": kilpisjarvi,
    "mesquite-logmesquite_logvash": mesquite,
    "nes1980-nes": nes,
    "sblrc-blr": blr,
    "sblri-blr": blr,
}


def assert_same_up_to_a_constant(posterior, model):
    """The log density is that of the model plus log |d parameters / d numbers|."""

    @jax.jit
    @jax.vmap
    def evaluate(x):
        p = posterior.constrain(x)
        flat = lambda z: jax.flatten_util.ravel_pytree(posterior.constrain(z))[0]
        return posterior.logdensity_fn(x), p, jax.jacfwd(flat)(x), posterior.unconstrain(p)

    points = jax.random.normal(jax.random.key(0), (4, posterior.dim)) / 2
    ours, parameters, jacobians, back = jax.tree.map(np.asarray, evaluate(points))
    theirs = [
        model({k: v[n] for k, v in parameters.items()}) + np.linalg.slogdet(jacobians[n])[1]
        for n in range(len(points))
    ]
    np.testing.assert_allclose(np.diff(ours), np.diff(theirs), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(back, points, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", POSTERIORDB)
def test_the_log_density_is_that_of_the_model(name, checkout):
    data = {k: np.asarray(v, float) for k, v in DATA[name.split("-")[0]].items()}
    assert_same_up_to_a_constant(find(name, checkout), lambda p: MODELS[name](p, data))


@pytest.mark.parametrize("name", POSTERIORDB)
@pytest.mark.skipif(not REFERENCE.is_dir(), reason="posteriordb is not in $SRMC_DATA")
def test_the_reference_draws_are_those_of_the_log_density(name):
    """E[s] = 0 and E[(x - E[x]) s^T] = -I, which ties means and covariances; within 5 errors."""
    posterior = find(name)
    x = posterior.reference().reshape(-1, posterior.dim)
    s = np.asarray(jax.jit(jax.vmap(jax.grad(posterior.logdensity_fn)))(jnp.asarray(x)))
    y = (x - x.mean(axis=0)) / x.std(axis=0)
    products = y[:, :, None] * (s * x.std(axis=0))[:, None] + np.eye(posterior.dim)
    for values in (s, products.reshape(len(s), -1)):
        z = values.mean(axis=0) / (values.std(axis=0) / np.sqrt(len(s)))
        assert np.max(np.abs(z)) < 5
    constrained = jax.vmap(posterior.constrain)(jnp.asarray(x[:100]))
    back = jax.vmap(posterior.unconstrain)(constrained)
    np.testing.assert_allclose(back, x[:100], rtol=1e-6, atol=1e-8)


def brownian(p):
    logs = norm(0, 2).logpdf(np.log([p["step"], p["noise"]])) - np.log([p["step"], p["noise"]])
    steps = norm(0, p["step"]).logpdf(np.diff(p["path"], prepend=0)).sum()
    rng = np.random.RandomState(0)
    path = np.cumsum(0.1 * rng.standard_normal(30))
    seen = np.r_[0:10, 20:30]
    y = path[seen] + 0.15 * rng.standard_normal(20)
    return logs.sum() + steps + norm(p["path"][seen], p["noise"]).logpdf(y).sum()


def volatility(p):
    rng = np.random.RandomState(0)
    first, second = rng.standard_normal((2, 40))
    returns, h, x = [], 0.0, 0.0
    total = norm().logpdf(p["z"]).sum() + cauchy(0, 5).logpdf(p["mu"])
    total += cauchy(0, 2).logpdf(p["sigma"]) + beta(20, 1.5).logpdf((1 + p["phi"]) / 2)
    for n in range(40):
        h = 0.95 * h + 0.2 * first[n] / (np.sqrt(1 - 0.95**2) if n == 0 else 1)
        scale = np.sqrt(1 - p["phi"] ** 2) if n == 0 else 1
        x = p["phi"] * x + p["sigma"] * p["z"][n] / scale
        returns.append(np.exp(h / 2 - 0.5) * second[n])
        total += norm(0, np.exp((p["mu"] + x) / 2)).logpdf(returns[-1])
    return total


def test_simulated_posteriors_are_those_of_their_models():
    assert_same_up_to_a_constant(find("brownian_motion"), brownian)
    assert_same_up_to_a_constant(simulated.stochastic_volatility(length=40), volatility)
    plain, sparse = (simulated.german_credit(sparse=s) for s in (False, True))

    def sparse_model(p):
        scales = np.append(p["tau"], p["lambda"])
        coefficients = p["tau"] * p["lambda"] * p["beta"]
        likelihood = float(plain.logdensity_fn(jnp.asarray(coefficients))) + 0.5 * np.sum(
            coefficients**2
        )
        prior = gamma(0.5, scale=2).logpdf(scales).sum() + norm().logpdf(p["beta"]).sum()
        return likelihood + prior

    assert_same_up_to_a_constant(sparse, sparse_model)


@pytest.mark.parametrize(
    "name", [n for n in BUILT_IN if n not in ("german_credit", "german_credit_sparse")]
)
def test_built_in_posteriors_have_the_stated_dimension(name):
    dims = {
        "gaussian-100": 100,
        "banana": 2,
        "brownian_motion": 32,
        "german_credit_simulated": 25,
        "german_credit_sparse_simulated": 51,
        "item_response": 501,
        "stochastic_volatility": 1003,
    }
    posterior = find(name)
    assert posterior.dim == dims.get(name, 10)
    evaluate = jax.jit(jax.value_and_grad(posterior.logdensity_fn))
    value, score = evaluate(jnp.full(posterior.dim, 0.1))
    assert np.isfinite(value)
    assert np.all(np.isfinite(score))


def test_real_credit_data_are_read_from_a_file(tmp_path, monkeypatch):
    monkeypatch.setenv("SRMC_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"put german.data-numeric .* into \$SRMC_DATA"):
        find("german_credit")
    table = np.random.default_rng(0).integers(1, 5, (30, 25))
    table[:, -1] = np.arange(30) % 2 + 1
    np.savetxt(tmp_path / "german.data-numeric", table, fmt="%d")
    assert find("german_credit").dim == 25
    assert find("german_credit_sparse").dim == 51


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"arK.json.zip is not there; put a checkout"):
        find("arK-arK", tmp_path)
    with pytest.raises(ValueError, match=r"posterior must be one of .* got 'nothing'"):
        find("nothing")
