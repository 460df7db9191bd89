"""Models of other libraries, against the reference values of posteriordb."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc

EFFECTS = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
SIGMA = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
REFERENCE = {"mu": (4.411, 0.033), "tau": (3.602, 0.032)}
RUN = {"num_samples": 2000, "progress": False}


def agrees(result):
    """Within four standard errors, the reference's and the run's."""
    summary = result.summary()
    for name, (mean, error) in REFERENCE.items():
        found = summary.loc[name]
        assert abs(found["mean"] - mean) < 4 * np.hypot(error, found["error"])
    assert summary.loc["mu", "sd"] == pytest.approx(3.31, rel=0.05)
    assert summary.loc["tau", "sd"] == pytest.approx(3.22, rel=0.08)
    assert result.draws["theta"].shape == (4, 2000, 8)
    assert np.all(result.draws["tau"] > 0)
    assert np.mean(result.stats["alpha"]) > 0


def test_numpyro_eight_schools():
    numpyro = pytest.importorskip("numpyro")
    dist = numpyro.distributions

    def schools(sigma, y=None):
        mu = numpyro.sample("mu", dist.Normal(0, 5))
        tau = numpyro.sample("tau", dist.HalfCauchy(5))
        with numpyro.plate("schools", len(sigma)):
            raw = numpyro.sample("raw", dist.Normal(0, 1))
            theta = numpyro.deterministic("theta", mu + tau * raw)
            numpyro.sample("y", dist.Normal(theta, sigma), obs=y)

    agrees(srmc.sample(schools, data={"sigma": SIGMA, "y": EFFECTS}, **RUN))
    short = {"kernel": "mh", "num_warmup": 100, "num_samples": 10, "progress": False}
    prior = srmc.sample(schools, data=(SIGMA, EFFECTS), initial_position="prior", **short)
    assert set(prior.draws) == {"mu", "tau", "raw", "theta"}


def test_a_numpyro_model_without_arguments_is_recognised():
    numpyro = pytest.importorskip("numpyro")

    def model():
        numpyro.sample("p", numpyro.distributions.Beta(2.0, 5.0))

    short = {"kernel": "mh", "num_warmup": 100, "num_samples": 50, "progress": False}
    draws = srmc.sample(model, **short).draws["p"]
    assert np.all((draws > 0) & (draws < 1))

    def empty():
        numpyro.deterministic("a", jnp.ones(()))

    with pytest.raises(ValueError, match="model must have a latent variable"):
        srmc.sample(empty, data=(), **short)


@pytest.mark.filterwarnings("ignore")
def test_pymc_eight_schools():
    pm = pytest.importorskip("pymc")
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfCauchy("tau", 5)
        raw = pm.Normal("raw", 0, 1, shape=8)
        theta = pm.Deterministic("theta", mu + tau * raw)
        pm.Normal("y", theta, SIGMA, observed=EFFECTS)
    agrees(srmc.sample(model, **RUN))


@pytest.mark.filterwarnings("ignore")
def test_discrete_pymc_models_are_refused():
    pm = pytest.importorskip("pymc")
    with pm.Model() as model:
        pm.Poisson("k", 2.0)
    with pytest.raises(ValueError, match="continuous variables alone"):
        srmc.sample(model, progress=False)


def test_names_follow_the_position():
    position = {"b": {"c": jnp.ones(2)}, "a": 1.0}
    density = lambda x: -0.5 * (x["a"] ** 2 + jnp.sum(x["b"]["c"] ** 2))
    short = {"kernel": "mh", "num_warmup": 100, "num_samples": 10, "progress": False}
    result = srmc.sample(density, initial_position=position, **short)
    assert {k: v.shape for k, v in result.draws.items()} == {"a": (4, 10), "b.c": (4, 10, 2)}
    drawn = srmc.sample(
        lambda x: -0.5 * jnp.sum(x**2),
        initial_position=lambda key: jax.random.normal(key, (3,)),
        **short,
    )
    assert list(drawn.draws) == ["x"]
