"""Models of other libraries, against the reference values of posteriordb."""

import os
import runpy
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc
from srmc.models.model import Model, as_problem

EXAMPLES = Path(__file__).parents[2] / "examples"
REFERENCE = {"mu": (4.411, 0.033), "tau": (3.602, 0.032)}


def example(name):
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))


@pytest.fixture
def precision():
    """PyTensor turns double precision on for the whole process."""
    before = jax.config.read("jax_enable_x64")
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.mark.usefixtures("precision")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("library", ["numpyro", "pymc"])
def test_eight_schools_agree_with_posteriordb(library):
    """Within four standard errors, the reference's and the run's."""
    pytest.importorskip(library)
    scope = example(f"eight_schools_{library}")
    environment = dict(os.environ)
    data = {"sigma": scope["SIGMA"], "y": scope["Y"]} if library == "numpyro" else None
    result = srmc.sample(scope["eight_schools"], data=data, num_samples=2000, progress=False)
    summary = result.summary()
    for name, (mean, error) in REFERENCE.items():
        found = summary.loc[name]
        assert abs(found["mean"] - mean) < 4 * np.hypot(error, found["error"])
    assert summary.loc["mu", "sd"] == pytest.approx(3.31, rel=0.05)
    assert summary.loc["tau", "sd"] == pytest.approx(3.22, rel=0.08)
    assert result.draws["theta"].shape == (4, 2000, 8)
    assert np.all(result.draws["tau"] > 0)
    assert result.is_rebalanced
    assert dict(os.environ) == environment


def test_numpyro_models_start_from_the_prior():
    pytest.importorskip("numpyro")
    scope = example("eight_schools_numpyro")
    model = as_problem(Model(scope["eight_schools"], data=(scope["SIGMA"], scope["Y"])), "prior")
    starts = model.starts(jax.random.key(0), 3)
    assert {name: x.shape for name, x in starts.items()} == {"mu": (3,), "tau": (3,), "raw": (3, 8)}


def test_a_numpyro_model_without_arguments_is_recognised():
    numpyro = pytest.importorskip("numpyro")

    def model():
        numpyro.sample("p", numpyro.distributions.Beta(2.0, 5.0))

    found = as_problem(Model(model))
    assert np.all(np.abs(found.starts(jax.random.key(0), 50)["p"]) < 2)
    assert 0.7 < float(found.values({"p": jnp.ones(())})["p"]) < 0.8

    def empty():
        numpyro.deterministic("a", jnp.ones(()))

    with pytest.raises(ValueError, match="model must have a latent variable"):
        as_problem(Model(empty, data=()))


@pytest.mark.usefixtures("precision")
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
    model = as_problem(Model(density), position)
    assert {k: jnp.shape(v) for k, v in model.values(position).items()} == {"a": (), "b.c": (2,)}
    starts = model.starts(jax.random.key(0), 3)
    assert starts["b"]["c"].shape == (3, 2)
    drawn = as_problem(
        Model(density), lambda key: {"a": 0.0, "b": {"c": jax.random.normal(key, (2,))}}
    )
    assert np.std(drawn.starts(jax.random.key(0), 3)["b"]["c"]) > 0


def test_starts_of_a_model_are_values_of_its_variables():
    pytest.importorskip("numpyro")
    import numpyro
    import numpyro.distributions as dist

    def model():
        numpyro.sample("scale", dist.HalfNormal(1.0))

    options = {"num_warmup": 100, "num_samples": 20, "num_chains": 2, "progress": False}
    result = srmc.sample(model, initial_position={"scale": 0.7}, **options)
    assert np.all(result.draws["scale"] > 0)
    with pytest.raises(ValueError, match="inside their supports"):
        srmc.sample(model, initial_position={"scale": -0.7}, **options)
    with pytest.raises(ValueError, match="must have values of scale, got width"):
        srmc.sample(model, initial_position={"width": 0.7}, **options)


def test_a_flat_density_is_refused_in_words():
    with pytest.raises(ValueError, match="must be a proper log density"):
        srmc.sample(
            lambda x: 0.0 * jnp.sum(x),
            initial_position=np.zeros(2, np.float32),
            num_warmup=300,
            progress=False,
        )


def test_what_numpyro_refuses_is_said():
    numpyro = pytest.importorskip("numpyro")
    normal = numpyro.distributions.Normal

    def twice():
        numpyro.sample("m", normal(0.0, 1.0))
        numpyro.sample("m", normal(0.0, 1.0))

    with pytest.raises(ValueError, match="model must run, but NumPyro refuses it: "):
        srmc.sample(twice, progress=False)
    with pytest.raises(ValueError, match="invalid scale"):  # which NumPyro 0.19 sees later
        srmc.sample(lambda: numpyro.sample("m", normal(0.0, -1.0)), progress=False)
