"""What axes and the positions along them are called."""

import jax.numpy as jnp
import numpy as np
import pytest

import srmc
from srmc.models.model import Model, as_problem
from srmc.models.problem import Labels

QUICK = {"kernel": "mala", "num_warmup": 100, "num_samples": 20, "num_chains": 2, "progress": False}
START = {"mu": np.zeros(2, np.float32), "tau": np.zeros((), np.float32)}


def normal(x):
    return -0.5 * (jnp.sum(x["mu"] ** 2) + x["tau"] ** 2)


def test_a_log_density_takes_names_for_its_axes(tmp_path):
    when = np.array(["2024-01-01", "2025-06-01"], "datetime64[ns]")
    named = {"dims": {"mu": "day"}, "coords": {"day": when}}
    for keep in ("draws", "moments"):
        result = srmc.sample(normal, initial_position=START, keep=keep, **named, **QUICK)
        assert list(result.summary().index) == ["mu[2024-01-01]", "mu[2025-06-01]", "tau"]
        result.save(tmp_path / f"{keep}.nc")
        assert srmc.load(tmp_path / f"{keep}.nc").summary().index[0] == "mu[2024-01-01]"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"dims": {"nu": "city"}}, "dims must be of variables of the model, mu, tau, got nu"),
        ({"dims": {"mu": ["city", "day"]}}, "dims of mu must name its 1 axes"),
        ({"dims": {"mu": "draw"}}, "dims of mu must be names other than chain and draw"),
        ({"dims": {"mu": "a"}, "coords": {"a": list("xyz")}}, "coords of a must have 2 entries"),
        ({"dims": {"mu": "a"}, "coords": {"a": "xyz"}}, "coords of a must be a list of names"),
    ],
)
def test_names_that_do_not_fit_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        srmc.sample(normal, initial_position=START, **given, **QUICK)
    with pytest.raises(TypeError, match="dims must be a dictionary"):
        srmc.sample(normal, initial_position=START, dims=["mu"], **QUICK)


def test_rows_differ_even_if_coordinates_do_not():
    labels = Labels({"mu": ("city",)}, {"city": np.array(["york", "york"])})
    assert [list(axis) for axis in labels.along("mu", (2,))] == [[0, 1]]


def test_plates_of_a_numpyro_model_name_axes():
    numpyro = pytest.importorskip("numpyro")
    dist = numpyro.distributions

    def model(shift, y):
        with numpyro.plate("outer", 3, dim=-2), numpyro.plate("inner", 2, dim=-1):
            a = numpyro.sample("a", dist.Normal(0.0, 1.0))
            numpyro.deterministic("pair", jnp.stack([a, a], axis=-1))
        with numpyro.plate("outer_only", 3, dim=-2):
            numpyro.sample("b", dist.Normal(0.0, 1.0))
        numpyro.factor("extra", -0.5 * jnp.sum(a**2))
        with numpyro.plate("row", 4):
            numpyro.sample("y", dist.Normal(a.sum() + shift, 1.0), obs=y)

    y = np.arange(4.0, dtype=np.float32)
    labels = as_problem(Model(model, data=(0.5, y))).labels
    assert labels.dims == {
        "a": ("outer", "inner"),
        "pair": ("outer", "inner", "pair_dim_2"),
        "b": ("outer_only", "b_dim_1"),
        "y": ("row",),
    }
    assert labels.constant == {"shift": 0.5}
    np.testing.assert_array_equal(labels.observed["y"], y)
