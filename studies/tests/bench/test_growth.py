import json

import numpy as np
from typer.testing import CliRunner

from srmc.cli.main import command
from srmc_studies.bench.growth import BANDWIDTH, LATENCY, all_reduce
from srmc_studies.bench.growth_devices import _bytes
from srmc_studies.bench.growth_tables import slope


def test_a_quick_run_makes_rows_and_a_page(tmp_path):
    rows, page = tmp_path / "growth.json", tmp_path / "growth.md"
    args = ["bench", "growth", "--quick", "--out", str(rows), "--page", str(page)]
    out = CliRunner().invoke(command(), args)
    assert out.exit_code == 0, out.output
    found = json.loads(rows.read_text())
    axes = {(row["axis"], row["part"]) for row in found if row["kind"] == "time"}
    assert ("rows", "sampling") in axes
    assert ("dimensions", "rebalancing") in axes
    assert "a simulation" in page.read_text()
    for row in found:
        if row["kind"] == "simulation":
            assert row["shared_history"] >= row["own_histories"] > 0


def test_a_slope_is_a_power_of_the_size():
    sizes = [10, 100, 1000]
    np.testing.assert_allclose(slope(sizes, [3.0 * n**1.5 for n in sizes]), 1.5)


def test_small_messages_travel_by_a_tree_and_large_ones_around_a_ring():
    np.testing.assert_allclose(all_reduce(0), 14 * LATENCY)
    np.testing.assert_allclose(all_reduce(10**12), 2 * 0.99 * 10**12 / BANDWIDTH, rtol=1e-4)


def test_the_bytes_of_arrays_in_a_program():
    assert _bytes("(f32[10,3]{1,0}, s32[])") == 124
