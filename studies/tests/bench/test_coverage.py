import json

from typer.testing import CliRunner

from srmc.cli.main import command

app = command()


def test_quick_coverage_and_its_page(tmp_path):
    rows, page = tmp_path / "rows.json", tmp_path / "page.md"
    ran = CliRunner().invoke(app, ["bench", "coverage", "--quick", "--out", str(rows)])
    assert ran.exit_code == 0, ran.output
    (row,) = json.loads(rows.read_text())
    for what in ("means", "sds", "quantiles"):
        assert 0.75 < row[f"rebalanced, {what}"]["coverage"] <= 1
    made = CliRunner().invoke(app, ["bench", "page", str(rows), "--out", str(page)])
    assert made.exit_code == 0, made.output
    assert "| nuts | gaussian-10 |" in page.read_text()


def test_bad_names_are_refused():
    for options, message in (
        (["--target", "nothing"], "targets must be among"),
        (["--kernel", "nothing"], "kernel must be one of"),
    ):
        ran = CliRunner().invoke(app, ["bench", "coverage", *options])
        assert ran.exit_code == 2
        assert message in ran.output
