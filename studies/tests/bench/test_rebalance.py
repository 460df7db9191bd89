import json

from typer.testing import CliRunner

from srmc.cli.main import command

app = command()


def test_the_quick_study_shows_the_gain_and_makes_a_page(tmp_path):
    rows, page = tmp_path / "rows.json", tmp_path / "page.md"
    args = ["bench", "rebalance", "--quick", "--out", str(rows), "--keep", str(tmp_path)]
    out = CliRunner().invoke(app, args)
    assert out.exit_code == 0, out.output
    assert "gaussian-10" in out.output
    made = rows.read_text()
    assert len(list(tmp_path.glob("*.npz"))) == 2  # the truth and the plain runs, used again now
    assert CliRunner().invoke(app, args).exit_code == 0
    assert rows.read_text() == made
    (row,) = json.loads(rows.read_text())
    assert row["errors"]["rebalanced"]["mean"]["ratio"] < 0.1
    assert row["errors"]["rebalanced"]["covariance"]["ratio"] < 0.3
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


def test_a_folder_that_is_not_there_is_named():
    out = CliRunner().invoke(app, ["bench", "rebalance", "--quick", "--keep", "nowhere"])
    assert out.exit_code == 2
    assert "keep must be an existing folder" in " ".join(out.output.split())
