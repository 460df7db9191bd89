"""The example with minibatches, on fewer rows, and the table of its page."""

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
        yield importlib.import_module("stochastic_gradients")


@pytest.mark.usefixtures("optimised")
def test_the_example_runs(example, tmp_path, monkeypatch):
    data = example.make_data(2_000)
    score = example.in_units(data, *example.reference(data))
    monkeypatch.setattr(example, "BATCH", 100)
    sample = example.sample
    monkeypatch.setattr(example, "sample", lambda *args: sample(*args, batch=100))
    rows = [
        example.measure(data, score, "sgld", 0.01, chains=8, epochs=100, **options)
        for options in ({"alpha": 0.0}, {})
    ]
    plain, repelled = (row["squared error"][0] for row in rows)
    assert repelled < 0.6 * plain
    assert all(0.7 < row["variance"][0] < 1.6 for row in rows)
    example.draw(rows, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").exists()


def test_the_reference_is_that_of_importance_sampling(example):
    """Laplace's method with its next term, on few enough rows for the term to matter."""
    data = example.make_data(200)
    mean, covariance = example.reference(data)
    x, y = (np.asarray(a, float) for a in data)
    root = np.linalg.cholesky(covariance)
    z = np.random.default_rng(0).normal(size=(100_000, 5))
    w = mean + np.concatenate([z, -z]) @ root.T
    logits = w @ x.T
    density = -0.5 * (w**2).sum(1) + (y * logits - np.logaddexp(0, logits)).sum(1)
    density += 0.5 * (np.concatenate([z, z]) ** 2).sum(1)
    weights = np.exp(density - density.max())
    exact = (weights[:, None] * w).sum(0) / weights.sum()
    sd = np.sqrt(np.diag(covariance))
    assert np.abs(exact - mean).max() < 0.05 * sd.max()
    assert np.all(np.abs(exact - mean) < 0.1 * sd)


def test_the_table_of_the_page_is_that_of_the_study(example):
    rows = json.loads((DOCS / "data" / "stochastic-gradients.json").read_text())
    assert example.table(rows) in (DOCS / "tutorials" / "stochastic-gradients.md").read_text()
