import json
import os

from typer.testing import CliRunner

from srmc.cli.main import command
from srmc_studies.bench import soak


def test_large_runs_have_rows_and_none_fails(tmp_path):
    out = tmp_path / "rows.json"
    asked = ["--case", "1,000 chains", "--case", "moments"]
    ran = CliRunner().invoke(command(), ["bench", "soak", "--quick", *asked, "--out", str(out)])
    assert ran.exit_code == 0, ran.output
    rows = json.loads(out.read_text())
    assert [row["step"] for row in rows] == [
        *("sample, with a checkpoint", "summary", "page", "save", "load"),
        "moments of 2,000 coordinates",
    ]
    assert not any(row["failed"] for row in rows)
    assert all(row["peak"] > 50 for row in rows)
    page = tmp_path / "page.md"
    made = CliRunner().invoke(command(), ["bench", "page", str(out), "--out", str(page)])
    assert made.exit_code == 0, made.output
    assert page.read_text().count("\n| ") == 1 + len(rows)


def _dies(*args):
    os._exit(9)


def test_a_case_whose_process_dies_is_a_row(monkeypatch):
    monkeypatch.setattr(soak, "_rows", _dies)
    (row,) = soak.soak(["moments"], quick=True)
    assert row["failed"] == "the process died"
