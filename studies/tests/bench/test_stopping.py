import json
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

import srmc
from srmc.cli.main import command
from srmc.results.kept import Kept

app = command()


def independent(target, *, seed, progress, num_samples, target_error=None):
    """Exact draws in place of a run, twice as many where an error is asked for."""
    draws = num_samples * (1 if target_error is None else 2)
    root = np.linalg.cholesky(0.9 ** np.abs(np.subtract.outer(np.arange(10), np.arange(10))))
    x = np.random.default_rng(seed).normal(size=(4, draws, 10)) @ root.T
    about = {"num_draws": draws, "looks": [{"met": seed != 0}]}
    return srmc.Result(Kept({"alpha": np.zeros((4, draws))}, {"x": x}), about)


def test_quick_stopping_and_its_page(tmp_path, monkeypatch):
    monkeypatch.setattr(srmc, "sample", independent)
    rows, page = tmp_path / "rows.json", tmp_path / "page.md"
    options = ["--target", "gaussian-10", "--target-error", "0.1", "--out", str(rows)]
    ran = CliRunner().invoke(app, ["bench", "stopping", "--quick", *options])
    assert ran.exit_code == 0, ran.output
    (row,) = json.loads(rows.read_text())
    assert row["lengths"] == {"250": 3}
    assert row["fixed_length"] == 250
    assert row["stopped, means"] == row["fixed, means"]  # the same draws
    assert 0.7 < row["stopped, quantiles"]["coverage"] <= 1
    assert 0 < row["stopped, error"] < 0.15
    made = CliRunner().invoke(app, ["bench", "page", str(rows), "--out", str(page)])
    assert made.exit_code == 0, made.output
    assert "| gaussian-10 | stopped | 250: 3 |" in page.read_text()
    assert "2 of 3 runs reached" in page.read_text()


def test_bad_names_are_refused():
    ran = CliRunner().invoke(app, ["bench", "stopping", "--target", "nothing"])
    assert ran.exit_code == 2
    assert "targets must be among" in ran.output


def test_the_page_is_that_of_the_study(tmp_path):
    docs = Path(__file__).parents[3] / "docs"
    rows, page = docs / "data" / "stopping.json", tmp_path / "page.md"
    CliRunner().invoke(app, ["bench", "page", str(rows), "--out", str(page)])
    title, made = page.read_text().split("\n", 1)
    published = (docs / "evidence" / "stopping.md").read_text()  # with a note on the version
    assert published.startswith(title)
    assert published.endswith(made)
