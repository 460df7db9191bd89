"""`srmc bench centred`, `divergences` and `looped`: small forms and their pages."""

import json

import numpy as np
from typer.testing import CliRunner

from srmc.cli.main import command
from srmc_studies.bench.centred import centred_hierarchy, centred_page


def run(*words):
    done = CliRunner().invoke(command(), ["bench", *map(str, words)])
    assert done.exit_code == 0, done.output


def test_divergences_fall_and_make_a_page(tmp_path):
    out, page = tmp_path / "rows.json", tmp_path / "page.md"
    run("divergences", "--quick", "--out", out, "--page", page)
    for row in json.loads(out.read_text()):
        assert row["learned"] == row["replicates"]
        assert np.all(np.array(row["after"]) < 0.1 * np.array(row["before"]))
    assert "| banana | 2 |" in page.read_text()


def test_a_quick_calibration_learns_and_makes_a_page(tmp_path):
    out, page = tmp_path / "rows.json", tmp_path / "page.md"
    run("centred", "--quick", "--out", out, "--page", page)
    (row,) = json.loads(out.read_text())
    assert row["data_sets"] == 6
    assert row["learned"] > 2
    assert "| log tau |" in page.read_text()


def test_the_page_of_a_calibration_has_a_line_for_each_parameter():
    dim = centred_hierarchy().dim
    side = {"p": [0.5] * dim, "counts": [[5] * 20] * dim}
    row = {"data_sets": 100, "draws": 200, "warmup": 40, "learned": 90}
    row |= {"divergences": {"plain": 0.02, "learned": 0.01}, "sides": {"plain": side}}
    page = centred_page([row])
    assert page.count("| 0.5 | 0.050 | 0.050 |") == dim
    assert "divergences per draw are" in page.lower()


def test_a_quick_study_of_repelled_chains_and_its_page(tmp_path):
    out, page = tmp_path / "rows.json", tmp_path / "page.md"
    run("looped", "--quick", "--out", out, "--page", page)
    (row,) = json.loads(out.read_text())
    assert row["coordinates"] == "learned"
    assert row["repelled"]["gradients"] > row["plain"]["gradients"] > 0
    assert "| banana | mala | learned | 1.000 ± 0.000 |" in page.read_text()
