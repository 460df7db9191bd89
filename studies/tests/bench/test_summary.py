import json

from typer.testing import CliRunner

from srmc.cli.main import command

app = command()


def test_a_second_call_takes_no_time(tmp_path):
    out = tmp_path / "rows.json"
    ran = CliRunner().invoke(app, ["bench", "summary", "--quick", "--out", str(out)])
    assert ran.exit_code == 0, ran.output
    (row,) = json.loads(out.read_text())
    assert row["rows"] == 5
    assert row["seconds_again"] < row["seconds"] / 3
