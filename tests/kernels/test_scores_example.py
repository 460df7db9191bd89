"""The example of a learned score: it learns, its samples are finite, the page has its table."""

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
        yield importlib.import_module("scores")


def test_a_small_network_learns_and_both_samplers_follow_it(example, monkeypatch, tmp_path):
    monkeypatch.setattr(example, "REPELLED", (1.0,))
    (x, _), _ = example.digits()
    network, losses = example.train(x, num_steps=300, batch=64, width=32)
    assert losses[-30:].mean() < 0.8 * losses[:30].mean()
    rows, shown = example.study(network, num_steps=2, batches=2, chains=32)
    assert [row["scores"] for row in rows] == [20, 40, 40, 0]
    assert all(np.all(np.isfinite(samples)) for samples in shown.values())
    assert rows[-1]["energy distance"][0] < 0.3 * rows[0]["energy distance"][0]
    example.draw(shown, tmp_path / "scores.png")
    assert (tmp_path / "scores.png").exists()


def test_the_energy_distance_is_0_for_one_distribution_and_grows_with_a_shift(example):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 400, 5))
    assert abs(example.energy_distance(x, y)) < 0.05
    assert example.energy_distance(x, y + 1) > 0.5


def test_the_table_of_the_page_is_that_of_the_study(example):
    rows = json.loads((DOCS / "data" / "scores.json").read_text())
    assert example.table(rows) in (DOCS / "scores.md").read_text()
