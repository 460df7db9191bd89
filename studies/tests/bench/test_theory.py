import json

import pytest
from typer.testing import CliRunner

from srmc.cli.main import command
from srmc_studies.bench.theory import slope

app = command()


def test_the_command_leaves_numbers_and_a_picture(tmp_path):
    ran = CliRunner().invoke(app, ["theory", "mixture", "--quick", "--out", str(tmp_path)])
    assert ran.exit_code == 0, ran.output
    record = json.loads((tmp_path / "theory.json").read_text())
    assert record["predicted"][1] < record["predicted"][0]
    (rows,) = record["simulated"].values()
    assert rows[1]["mse"] < 1.5 * rows[0]["mse"]
    assert (tmp_path / "theory.png").stat().st_size > 5000


def test_what_it_cannot_take_is_named(tmp_path):
    for target in ("ising", "nothing"):
        ran = CliRunner().invoke(app, ["theory", target, "--out", str(tmp_path)])
        assert ran.exit_code == 2
        assert "target must be" in " ".join(ran.output.split())


def test_slopes_are_of_the_excess_over_the_limit():
    alphas = (0.0, 1.0, 3.0, 7.0)
    assert slope(alphas, [1 + (1 + a) ** -2 for a in alphas], 1.0) == pytest.approx(-2)
