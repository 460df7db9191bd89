import json

import pytest
from typer.testing import CliRunner

import srmc
from srmc.cli.main import command
from srmc_studies.bench.study import Case, find_truth, study

app = command()


def test_the_quick_study_prints_a_table_and_makes_a_page(tmp_path):
    rows, page = tmp_path / "rows.json", tmp_path / "page.md"
    args = ["bench", "noharm", "--quick", "--kernel", "mala", "--out", str(rows)]
    out = CliRunner().invoke(app, args)
    assert out.exit_code == 0, out.output
    for word in ("banana", "geometric mean"):
        assert word in out.output
    joined = tmp_path / "joined.json"
    args = ["bench", "page", str(rows), str(rows), "--out", str(page), "--joined", str(joined)]
    out = CliRunner().invoke(app, args)
    assert out.exit_code == 0, out.output
    assert json.loads(joined.read_text()) == json.loads(rows.read_text())
    assert "| mala | banana |" in page.read_text()
    assert "Results that are not finite: 0, in 4 runs." in page.read_text()


def test_strengths_are_dealt_out():
    case = Case("mala", 300, 300)
    row = study(srmc.targets.banana(), case, replicates=4, alpha=(0.1, 100.0), beside=False)
    assert row["non_finite_results"] == 0


@pytest.mark.parametrize("option", ["--kernel", "--target"])
def test_unknown_names_are_named(option):
    out = CliRunner().invoke(app, ["bench", "noharm", option, "nothing"])
    assert out.exit_code == 2
    assert "must be among" in " ".join(out.output.split())


def test_all_columns_of_a_study():
    """Everything that stands beside a repelled run, on a target that is quick to run."""
    target = srmc.targets.gaussian(3)
    case = Case("hmc", 300, 300)
    row = study(target, case, replicates=4, truth=find_truth(target, length=200))
    assert set(row["errors"]) == {"plain", "repelled", "shift", "paper", "zv1", "zv2"}
    assert row["errors"]["zv2"]["covariance"]["ratio"] < 0.01  # exact on a Gaussian
    for side in ("plain", "repelled", "shift"):
        assert all(0 < error["squared_error"] < 10 for error in row["errors"][side].values())


@pytest.mark.parametrize("content", ["", "[{", None, '[{"a": 1}]', "[1]", "1"])
def test_a_broken_file_of_rows_is_named(tmp_path, content):
    rows = tmp_path / "rows.json"
    if content is not None:
        rows.write_text(content)
    out = CliRunner().invoke(app, ["bench", "page", str(rows), "--out", str(tmp_path / "p.md")])
    assert out.exit_code == 2
    assert "rows must be files" in " ".join(out.output.split())
    assert not (tmp_path / "p.md").exists()
