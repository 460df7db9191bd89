"""Draws in the forms in which people have them go in, and come out as they were."""

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import xarray

import srmc

X = np.random.default_rng(0).normal(size=(2, 300, 3))  # of a Gaussian, whose score is -x
MOVED = srmc.rebalance(X, lambda x: -x, progress=False)
NAMED = {"b": X[:, :, 1:], "a": X[:, :, 0]}


def score(draw):
    assert jnp.shape(draw["a"]) == ()
    return {"a": -draw["a"], "b": -draw["b"]}


def density(draw):
    return -0.5 * (draw["a"] ** 2 + jnp.sum(draw["b"] ** 2))


def tree(**variables):
    dims = lambda x: ("chain", "draw", *(f"d{n}" for n in range(x.ndim - 2)))
    data = xarray.Dataset({k: (dims(x), x) for k, x in variables.items()}, attrs={"of": "mine"})
    return xarray.DataTree.from_dict({"posterior": data, "sample_stats": xarray.Dataset()})


def check(found, moved=MOVED):
    """The coordinates are solved for in another order, so that rounding differs."""
    np.testing.assert_allclose(found["a"], moved[:, :, 0], atol=1e-5)
    np.testing.assert_allclose(found["b"], moved[:, :, 1:], atol=1e-5)


@pytest.mark.parametrize("more", [{}, {"scores": {k: -x for k, x in NAMED.items()}}])
def test_a_dictionary(more):
    moved = srmc.rebalance(NAMED, score, **more, progress=False)
    assert list(moved) == ["b", "a"]
    check(moved)


@pytest.mark.filterwarnings("ignore")
def test_a_density_of_a_dictionary():
    """With a density that is never finite elsewhere, no draw moves."""
    known = jnp.asarray(X[:, :, 0].ravel())
    wall = lambda draw: jnp.where(jnp.isin(draw["a"], known), density(draw), -jnp.inf)
    stay = srmc.rebalance(NAMED, score, logdensity_fn=wall, progress=False)
    check(stay, X)


def test_a_trace_keeps_all_but_its_draws():
    moved = srmc.rebalance(tree(**NAMED), score, progress=False)
    check({k: moved["posterior"][k].values for k in NAMED})
    assert moved["posterior"].attrs == {"of": "mine"}
    assert "sample_stats" in moved.children
    alone = srmc.rebalance(tree(x=X), lambda x: -x, progress=False)
    np.testing.assert_allclose(alone["posterior"]["x"], MOVED)


def test_an_inference_data():
    arviz = pytest.importorskip("arviz")
    if "InferenceData" not in vars(arviz):
        pytest.skip("ArviZ 1.x has none")
    trace = arviz.from_dict(posterior=NAMED)
    moved = srmc.rebalance(trace, score, progress=False)
    assert type(moved) is type(trace)
    check({k: moved["posterior"][k].values for k in NAMED})


def test_a_data_frame():
    frame = pd.DataFrame(X[0], columns=["a", "b", "c"], index=np.arange(300) + 7)
    moved, report = srmc.rebalance(frame, lambda x: -x, report=True, progress=False)
    assert report.moved
    assert list(moved.columns) == ["a", "b", "c"]
    assert list(moved.index) == list(frame.index)
    np.testing.assert_allclose(moved, srmc.rebalance(X[0], lambda x: -x, progress=False))


def test_control_variates_take_the_same():
    known = srmc.zv(X, -X).mean
    for draws, scores in (
        (NAMED, score),
        (tree(**NAMED), {k: -x for k, x in NAMED.items()}),
        (tree(**NAMED), tree(**{k: -x for k, x in NAMED.items()})),
    ):
        found = srmc.zv(draws, scores).mean
        np.testing.assert_allclose([found["a"], *found["b"]], known, atol=1e-6)
    frame = pd.DataFrame(X[0])
    np.testing.assert_allclose(srmc.zv(frame, -frame).mean, srmc.zv(X[0], -X[0]).mean, atol=1e-9)
