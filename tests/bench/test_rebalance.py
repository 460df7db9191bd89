import json

from typer.testing import CliRunner

from srmc.cli import app


def test_the_quick_study_shows_the_gain_and_makes_a_page(tmp_path):
    rows, page = tmp_path / "rows.json", tmp_path / "page.md"
    out = CliRunner().invoke(app, ["bench", "rebalance", "--quick", "--out", str(rows)])
    assert out.exit_code == 0, out.output
    assert "gaussian-10" in out.output
    (row,) = json.loads(rows.read_text())
    for side in ("rebalanced", "rebalanced, equal cost"):
        assert row["errors"][side]["mean"]["ratio"] < 0.1
        assert row["errors"][side]["covariance"]["ratio"] < 0.3
    assert row["failed_checks"] == 0
    out = CliRunner().invoke(app, ["bench", "page", str(rows), "--out", str(page)])
    assert out.exit_code == 0, out.output
    text = page.read_text()
    for heading in ("Rebalanced", "Reweighted", "Control variates", "What it took"):
        assert f"## {heading}" in text


def test_an_unknown_target_is_named():
    out = CliRunner().invoke(app, ["bench", "rebalance", "--target", "nothing"])
    assert out.exit_code == 2
    assert "targets must be among" in " ".join(out.output.split())
