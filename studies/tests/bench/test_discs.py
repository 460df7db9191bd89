import json

import numpy as np
import pytest
from typer.testing import CliRunner

from srmc.cli.main import command
from srmc_studies.bench.discs import _fields, effective_size

app = command()


def test_the_quick_study_prints_a_table_and_makes_a_page(tmp_path):
    rows, page = tmp_path / "rows.json", tmp_path / "page.md"
    out = CliRunner().invoke(app, ["bench", "discs", "--quick", "--out", str(rows)])
    assert out.exit_code == 0, out.output
    out = CliRunner().invoke(app, ["bench", "page", str(rows), "--out", str(page)])
    assert out.exit_code == 0, out.output
    for row in json.loads(rows.read_text()):
        assert row["evaluations"][0] == row["steps"]
        assert row["discs"] > 1
        assert max(row["mean"]["bias"]) < 5
        assert f"| ising-8x8 | {row['kernel']} |" in page.read_text()


def test_unknown_names_are_named():
    out = CliRunner().invoke(app, ["bench", "discs", "--kernel", "nuts"])
    assert out.exit_code == 2
    assert "must be among" in " ".join(out.output.split())


def test_the_effective_size_of_an_autoregression():
    """It is n (1 - rho) / (1 + rho)."""
    rng, n, rho = np.random.default_rng(0), 20_000, 0.8
    x = np.zeros(n)
    for i in range(1, n):
        x[i] = rho * x[i - 1] + rng.normal()
    assert effective_size(x) == pytest.approx(n * (1 - rho) / (1 + rho), rel=0.15)
    assert effective_size(np.ones(50)) == 1


def test_half_of_the_sites_are_in_the_disc():
    assert np.mean(_fields(50) > 0) == pytest.approx(0.5, abs=0.03)
