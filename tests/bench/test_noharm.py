import pytest
from typer.testing import CliRunner

import srmc
from srmc.bench._study import Case, study
from srmc.cli import app


def test_the_quick_study_prints_a_table_and_makes_a_page(tmp_path):
    rows, page = tmp_path / "rows.json", tmp_path / "page.md"
    args = ["bench", "noharm", "--quick", "--kernel", "mala", "--out", str(rows)]
    out = CliRunner().invoke(app, args)
    assert out.exit_code == 0, out.output
    for word in ("logistic", "banana", "geometric mean"):
        assert word in out.output
    out = CliRunner().invoke(app, ["bench", "page", str(rows), "--out", str(page)])
    assert out.exit_code == 0, out.output
    assert "| mala | logistic |" in page.read_text()
    assert "Results that are not finite: 0, in 16 runs." in page.read_text()


def test_strengths_are_dealt_out():
    case = Case("mala", {}, 300, 300)
    row = study(srmc.targets.banana(), case, replicates=4, alpha=(0.1, 100.0), beside=False)
    assert row["non_finite_results"] == 0


@pytest.mark.parametrize("option", ["--kernel", "--target"])
def test_unknown_names_are_named(option):
    out = CliRunner().invoke(app, ["bench", "noharm", option, "nothing"])
    assert out.exit_code == 2
    assert "must be among" in " ".join(out.output.split())
