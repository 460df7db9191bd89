import json

from typer.testing import CliRunner

from srmc.cli.main import command


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
