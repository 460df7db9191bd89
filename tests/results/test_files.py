"""Whatever numbers and names a run was given, it can be saved, or is refused before it runs."""

import sys

import h5py
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc

numpyro = pytest.importorskip("numpyro")

QUICK = {"kernel": "mala", "num_warmup": 100, "num_samples": 20, "num_chains": 2, "progress": False}


def normal(x):
    return -0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(x))


def saved(result, path):
    """The result, saved and loaded, with the same draws."""
    result.save(path)
    result.to_arviz()
    again = srmc.load(path)
    assert again.draws.keys() == result.draws.keys()
    for name, x in result.draws.items():
        np.testing.assert_array_equal(again.draws[name], x)
    assert again == result
    return again


@pytest.mark.parametrize("number", [np.asarray, jnp.asarray], ids=["numpy", "jax"])
def test_scalars_of_numpy_and_jax_are_numbers(tmp_path, number):
    given = {"num_samples": 20, "num_warmup": 100, "num_chains": 2, "seed": 3, "thin": 2}
    given |= {"step_size": 0.5, "alpha": 0.0}
    options = QUICK | {"initial_position": np.zeros(2, np.float32)}
    scalars = {name: number(value)[()] for name, value in given.items()}
    result = srmc.sample(normal, **options | scalars, checkpoint=tmp_path / "run")
    saved(result, tmp_path / "result.nc")
    plain = srmc.sample(normal, **options | given)
    np.testing.assert_array_equal(result.draws["x"], plain.draws["x"])
    assert result.about["settings"] == plain.about["settings"]
    np.testing.assert_array_equal(result.base["x"], plain.base["x"])  # 0 is plain, as any 0
    with pytest.raises(TypeError, match=r"num_samples must be a whole number, got 20\.0"):
        srmc.sample(normal, **options | {"num_samples": number(20.0)})


def test_names_that_files_use_themselves_are_kept(tmp_path):
    zero = np.zeros(2, np.float32)
    start = dict.fromkeys(("chain", "base", "x", "a.x", "zarr.json", "__x"), zero)
    start |= {"draw": zero[0], "x_dim_0": zero[0]}
    more = lambda values: {"base/x": values["x"].sum(), "x/y": values["draw"], "a/y": values["x"]}
    options = QUICK | {"initial_position": start, "statistics": more, "alpha": 1.0}
    result = srmc.sample(normal, **options, checkpoint=tmp_path / "run")
    assert result.draws.keys() == {*start, "base.x", "x.y", "a.y"}
    saved(result, tmp_path / "result.nc")
    memory = srmc.sample(normal, **options)
    for name, x in memory.draws.items():
        np.testing.assert_array_equal(result.draws[name], x)
    moments = srmc.sample(normal, **options, keep="moments")
    moments.save(tmp_path / "moments.nc")
    assert srmc.load(tmp_path / "moments.nc").moments.keys() == result.draws.keys()


def test_scopes_of_numpyro_have_one_name_everywhere(tmp_path):
    def model(y):
        with numpyro.handlers.scope(prefix="a"):
            x = numpyro.sample("x", numpyro.distributions.Normal(0, 1))
        with numpyro.plate("b/rows", len(y)):
            numpyro.sample("b/y", numpyro.distributions.Normal(x, 1), obs=y)
        numpyro.deterministic("a.x", 2 * x)

    result = srmc.sample(model, data=(np.ones(3),), **QUICK, checkpoint=tmp_path / "run")
    names = ["a.x", "a.x_"]
    assert sorted(result.draws) == sorted(result.summary().index) == names
    trace = result.to_arviz(log_likelihood=True)
    assert sorted(trace["posterior"].data_vars) == names
    assert trace["log_likelihood"]["b.y"].dims == ("chain", "draw", "b.rows")
    assert sorted(saved(result, tmp_path / "result.nc").draws) == names


def test_saved_files_have_the_groups_of_arviz_and_those_of_before_are_read(tmp_path):
    given = {"initial_position": np.zeros(2, np.float32), "dims": {"x": ["city"]}}
    result = srmc.sample(normal, **QUICK, **given, coords={"city": ["london", "paris"]})
    result.save(tmp_path / "result.nc")
    with h5py.File(tmp_path / "result.nc", "a") as file:
        known = {"posterior", "posterior_plain", "unconstrained_posterior", "sample_stats"}
        assert {k for k, x in file.items() if isinstance(x, h5py.Group)} == known
        file.move("posterior_plain", "base")
        file.move("unconstrained_posterior", "scored")
        del file.attrs["_NCProperties"]  # which note that it was sealed
    old = srmc.load(tmp_path / "result.nc")
    np.testing.assert_array_equal(old.base["x"], result.base["x"])
    np.testing.assert_array_equal(old.scores, result.scores)
    assert list(old.summary().index) == ["x[london]", "x[paris]"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"initial_position": {"a.b": jnp.zeros(2), "a": {"b": jnp.zeros(2)}}}, "different names"),
        ({"initial_position": {"a/b": jnp.zeros(2), "a_b": jnp.zeros(2)}}, "different names"),
        ({"statistics": lambda v: {"x": v["x"]}}, "statistics must return new names, got x"),
        ({"statistics": lambda v: {"x[0]": v["x"][0]}}, r"differ from those of entries.*x\[0\]"),
        ({"statistics": lambda v: {"": v["x"]}}, "names of values must be printable text"),
    ],
)
def test_names_that_collide_are_refused_before_sampling(change, words, monkeypatch):
    monkeypatch.setattr(sys.modules["srmc.sample.running"], "warm_up", None)
    options = QUICK | {"initial_position": jnp.zeros(2)} | change
    with pytest.raises(ValueError, match=words):
        srmc.sample(normal, **options)


@pytest.mark.parametrize("given", [lambda v: v["x"], lambda v: {"y": [v["x"]]}, lambda v: [v["x"]]])
def test_statistics_are_a_dict_of_arrays(given):
    with pytest.raises(TypeError, match="statistics must return a dict of arrays by name"):
        srmc.sample(normal, **QUICK, initial_position=jnp.zeros(2), statistics=given)
