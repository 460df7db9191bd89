"""The example on a graph: every chain has the target, and the page has the study's table."""

import importlib
import json
from pathlib import Path

import jax
import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
DOCS = EXAMPLES.parent / "docs"


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    with jax.numpy_rank_promotion("allow"):
        yield importlib.import_module("graph")


def test_every_method_has_the_target_and_one_hot_features_keep_visits_even(example, tmp_path):
    graph = example.make_graph(nodes=40, groups=4)
    edges, _, degree, _ = graph
    assert np.array_equal(edges, edges.T)
    assert np.array_equal(np.asarray(degree), edges.sum(1))
    slow = example.slow_functions(edges, 5)
    np.testing.assert_allclose(slow.mean(0), 0, atol=1e-9)
    np.testing.assert_allclose((slow**2).mean(0), 1, atol=1e-9)
    keys = jax.random.split(jax.random.key(0), 8)
    spread = {}
    for method, alpha in example.ALPHAS.items():
        one = lambda key, m=method, a=alpha: example.walk(m, graph, slow, a, 8_000, key)
        share = np.asarray(jax.jit(jax.vmap(one))(keys), float)[:, -1] / 8_000 * 40
        assert np.all(np.abs(share.mean(0) - 1) < 0.25), method
        spread[method] = np.mean((share - 1) ** 2)
    for method in ("SRRW", "HDT", "SRMC, one-hot"):
        assert spread[method] < 0.5 * spread["plain"]
    rows = example.study(200, 3, graph)
    assert [row["numbers"] for row in rows] == [0, 0, 40, 40, 40, 40, 40, 40, 10, 10]
    example.draw(rows, tmp_path / "graph.png")
    assert (tmp_path / "graph.png").exists()


def test_the_table_of_the_page_is_that_of_the_study(example):
    rows = json.loads((DOCS / "data" / "graph.json").read_text())
    assert example.table(rows) in (DOCS / "graph.md").read_text()
