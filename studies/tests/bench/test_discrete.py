import json

from typer.testing import CliRunner

from srmc.cli.main import command

app = command()


def test_the_quick_study_prints_a_table_and_makes_a_page(tmp_path):
    rows, page = tmp_path / "rows.json", tmp_path / "page.md"
    args = ["bench", "discrete", "--quick", "--kernel", "gwg"]
    out = CliRunner().invoke(app, [*args, "--out", str(rows)])
    assert out.exit_code == 0, out.output
    assert "ising-4x4" in out.output
    for row in json.loads(rows.read_text()):
        assert row["is_exact"]
        assert row["errors"]["mean"]["ratio"] < 0.5
    out = CliRunner().invoke(app, ["bench", "page", str(rows), "--out", str(page)])
    assert out.exit_code == 0, out.output
    assert "| ising-4x4 | gwg |" in page.read_text()


def test_unknown_names_are_named():
    out = CliRunner().invoke(app, ["bench", "discrete", "--target", "nothing"])
    assert out.exit_code == 2
    assert "must be among" in " ".join(out.output.split())
