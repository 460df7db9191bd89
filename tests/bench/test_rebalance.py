from typer.testing import CliRunner

from srmc.bench.rebalance import rebalance
from srmc.cli import app


def test_the_quick_study_prints_a_table_and_makes_a_page(tmp_path):
    rows, page = tmp_path / "rows.json", tmp_path / "page.md"
    out = CliRunner().invoke(app, ["bench", "rebalance", "--quick", "--out", str(rows)])
    assert out.exit_code == 0, out.output
    assert "logistic" in out.output
    out = CliRunner().invoke(app, ["bench", "page", str(rows), "--out", str(page)])
    assert out.exit_code == 0, out.output
    text = page.read_text()
    for heading in ("Rebalanced", "Reweighted", "Control variates", "What it took"):
        assert f"## {heading}" in text


def test_rebalanced_draws_are_better_at_equal_cost_too():
    (row,) = rebalance(["gaussian-10"], quick=True)
    for side in ("rebalanced", "rebalanced, equal cost"):
        assert row["errors"][side]["mean"]["ratio"] < 0.1
        assert row["errors"][side]["covariance"]["ratio"] < 0.3
    assert row["failed_checks"] == 0


def test_an_unknown_target_is_named():
    out = CliRunner().invoke(app, ["bench", "rebalance", "--target", "nothing"])
    assert out.exit_code == 2
    assert "targets must be among" in " ".join(out.output.split())
