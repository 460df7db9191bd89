"""The quick form of each experiment, and the report that is made of them."""

import functools
import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from srmc.cli import app
from srmc.paper import EXPERIMENTS, Estimate, Row, _numbers, _page, _report
from srmc.paper._control import control_variates
from srmc.paper._images import images
from srmc.paper._ledger import NOT_IN_THE_PAPER


@pytest.fixture(autouse=True)
def _no_data(monkeypatch, tmp_path):
    monkeypatch.delenv("SRMC_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@functools.cache
def quick(name):
    return EXPERIMENTS[name]("quick", 0)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_row_is_complete(name, tmp_path):
    outcome = quick(name)
    assert outcome.figures
    assert outcome.settings
    for row in outcome.rows:
        record = row.record()
        assert record["where"]
        assert record["claim"]
        assert record["paper"]
        assert record["reason"]
        assert record["checks"]
        assert any(number[0] is not None for number in record["ours"].values())
        assert all(len(number) == 2 for number in record["ours"].values())
        assert record["verdict"] in ("reproduced", "partly", "not")
    _report.write(tmp_path, name, outcome, "quick", 0, 1.0)
    rows = _report.build(tmp_path, list(EXPERIMENTS))
    assert rows == json.loads((tmp_path / "ledger.json").read_text())
    assert {row["command"] for row in rows} == {f"srmc reproduce {name} --quick"}
    page = (tmp_path / "index.html").read_text()
    assert page.count("data:image/png;base64") == len(outcome.figures)
    assert not re.search(r"(src|href)=[\"']?https?:", page)
    assert (tmp_path / "ledger.md").read_text().count(f"reproduce {name}") == len(rows)


def test_the_same_seed_gives_the_same_rows():
    again = EXPERIMENTS["mixture-cifar"]("quick", 0)
    assert [row.record() for row in quick("mixture-cifar").rows] == [r.record() for r in again.rows]


def test_a_verdict_counts_checks():
    row = lambda *held: Row("", "", "", {}, dict(zip("ab", held, strict=True)), "")
    assert row(True, True).verdict == "reproduced"
    assert row(True, False).verdict == "partly"
    assert row(False, False).verdict == "not"


def test_our_own_rows_are_counted_apart():
    rows = [{"verdict": "not", "paper": "19"}, {"verdict": "reproduced", "paper": NOT_IN_THE_PAPER}]
    assert _page.count(rows[:1]) == "Of the paper's claims: 1 not"
    assert _page.count(rows).endswith("1 not. Of ours, about alpha=auto: 1 reproduced")


def test_of_two_that_diverged_neither_is_below():
    good, bad, worse = np.linspace(0, 1, 10), np.full(10, 1e20), np.full(10, np.nan)
    assert _numbers.below(good, bad, limit=5.0)
    assert not _numbers.below(bad, worse, limit=5.0)
    assert not _numbers.below(bad, good, limit=5.0)


def test_numbers_that_are_not_finite_are_null_in_json():
    row = Row("", "", "", {"x": Estimate(float("inf"), float("nan"))}, {"a": True}, "")
    assert json.loads(json.dumps(row.record(), allow_nan=False))["ours"] == {"x": [None, None]}


def test_control_variates_are_exact_on_a_gaussian():
    x = np.random.default_rng(0).normal(size=(2, 100, 3)) + 5
    scale = np.array([[1.0, 0.3, 0.0], [0.3, 2.0, 0.0], [0.0, 0.0, 1.0]])
    np.testing.assert_allclose(control_variates(x, -(x - 5) @ scale), 5, atol=1e-9)


def test_without_data_images_are_synthetic_and_say_where_to_put_real_ones(tmp_path, monkeypatch):
    x, source = images(2)
    assert x.shape == (20, 3072)
    assert "cifar10-subset.npz" in source
    arrays = {"x_train": np.zeros((30, 32, 32, 3), np.uint8), "y_train": np.arange(30) % 10}
    np.savez(tmp_path / "cifar10-subset.npz", **arrays)
    monkeypatch.setenv("SRMC_DATA", str(tmp_path))
    assert images(2)[1] == "CIFAR-10"


def test_an_unknown_experiment_is_named():
    result = CliRunner().invoke(app, ["reproduce", "figure9"])
    assert result.exit_code == 2
    assert "figure9" in result.output
