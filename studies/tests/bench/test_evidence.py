"""Pictures of the evidence, and the table of the README, come from the committed rows."""

import json
import shutil
from pathlib import Path

import numpy as np
from matplotlib import rcParams
from matplotlib.figure import Figure
from typer.testing import CliRunner

from srmc.cli.main import command
from srmc.results.look import COLOURS, look
from srmc_studies.bench import evidence
from srmc_studies.bench.panels import dots, of_ratios

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "evidence" / "index.md").read_text()


def test_the_command_draws_each_picture_of_the_pages_and_fills_the_table(tmp_path):
    shutil.copytree(ROOT / "docs" / "data", tmp_path / "data")
    (tmp_path / "evidence").mkdir()
    readme = tmp_path / "README.md"
    readme.write_text("before\n<!-- rebalance -->\nold\n<!-- end -->\nafter\n")
    done = CliRunner().invoke(
        command(), ["bench", "evidence", "--docs", str(tmp_path), "--readme", str(readme)]
    )
    assert done.exit_code == 0, done.output
    drawn = {path.name for path in (tmp_path / "evidence").glob("*.png")}
    assert drawn == {path.name for path in (ROOT / "docs" / "evidence").glob("*.png")}
    table = readme.read_text().removeprefix("before\n<!-- rebalance -->\n")
    assert table.removesuffix("<!-- end -->\nafter\n") in (ROOT / "README.md").read_text()
    assert table.count("\n| ") == 7


def test_the_page_shows_the_four_pictures():
    assert all(f"({draw.__name__}.png)" in PAGE for draw in evidence.PICTURES.values())


def test_the_page_counts_the_rows_in_which_control_variates_win():
    rows = json.loads((ROOT / "docs" / "data" / "noharm.json").read_text())
    rows = [row["errors"] for row in rows if (row["chains"], row["alpha"]) == (1, "auto")]
    rows = [row for row in rows if "repelled" in row]
    won = lambda k: sum(row["zv1"][k]["ratio"] < row["repelled"][k]["ratio"] for row in rows)
    text = " ".join(PAGE.split())
    assert f"in {won('mean')} of the {len(rows)} rows" in text
    assert f"of second moments in {len(rows) - won('second')}" in text


def test_the_page_has_the_counts_of_the_ledger():
    counts = (ROOT / "docs" / "reproduction" / "counts.txt").read_text()
    assert counts.strip() in PAGE


def test_small_ratios_are_at_the_edge_and_what_is_not_finite_is_left_out():
    axes = Figure().subplots()
    dots(axes, [1e-9, 0.5, np.nan], [0.0, 0.1, np.nan], least=1e-4, color="k", marker="o")
    inside, edge = axes.lines
    np.testing.assert_allclose(inside.get_xydata(), [[0.5, 1]])
    np.testing.assert_allclose(edge.get_xydata(), [[1e-4, 0]])
    of_ratios(axes, 1e-5, 12)
    assert [tick for tick in axes.get_xticks() if tick == 1.0]


def test_settings_of_a_picture_are_taken_back():
    before = dict(rcParams)
    with look():
        assert not rcParams["axes.spines.top"]
    assert dict(rcParams) == before
    assert len({COLOURS[side] for side in ("plain", "rebalanced", "repelled")}) == 3
