import json

from typer.testing import CliRunner

from srmc.cli.main import command
from srmc.rebalance import rule as of_rebalancing
from srmc.sample.tune import rule

app = command()


def test_a_constant_is_changed_for_the_time_being(tmp_path):
    before = rule.TOLERANCE
    out = tmp_path / "rule.json"
    result = CliRunner().invoke(app, ["bench", "rule", "--quick", "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "TOLERANCE, logistic" in result.output
    assert before == rule.TOLERANCE
    page = tmp_path / "rule.md"
    result = CliRunner().invoke(app, ["bench", "page", str(out), "--out", str(page)])
    assert result.exit_code == 0, result.output
    lines = [line for line in page.read_text().splitlines() if line.startswith("| TOLERANCE")]
    ratios = [float(cell.split("±")[0]) for cell in lines[0].split("|")[4:7]]
    assert len(set(ratios)) == 3  # halved, kept and doubled differ


def test_constants_of_rebalancing_are_varied_on_the_same_runs(tmp_path):
    before, out = of_rebalancing.RIDGES, tmp_path / "rule.json"
    call = ["bench", "rule", "--quick", "--constant", "RIDGES", "--out", str(out)]
    result = CliRunner().invoke(app, call)
    assert result.exit_code == 0, result.output
    assert before == of_rebalancing.RIDGES
    ratios = [row["errors"]["mean"]["ratio"] for row in json.loads(out.read_text())]
    assert len(ratios) == 3
    assert 0 < max(ratios) < 1


def test_an_unknown_constant_is_named():
    result = CliRunner().invoke(app, ["bench", "rule", "--constant", "PI"])
    assert result.exit_code == 2
    assert "names must be among ALPHA" in result.output
