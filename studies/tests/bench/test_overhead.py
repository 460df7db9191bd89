import functools
import json

from typer.testing import CliRunner

from srmc.cli.main import command
from srmc_studies.bench import overhead

app = command()


def test_quick_rows_have_a_baseline_and_a_ratio_each(tmp_path, monkeypatch):
    size = {"num_data": 20, "dim": 3, "num_chains": 2, "lattice": 3}
    size["kernels"] = ("mala", "gwg", "rebalance")
    monkeypatch.setattr(overhead, "overhead", functools.partial(overhead.overhead, **size))
    out = tmp_path / "rows.json"
    ran = CliRunner().invoke(app, ["bench", "overhead", "--quick", "--out", str(out)])
    assert ran.exit_code == 0, ran.output
    rows = json.loads(out.read_text())
    assert {row["kernel"] for row in rows} == {"mala", "gwg", "rebalance, d = 10"}
    for row in rows:
        assert row["microseconds_per_step"] > 0
        assert (row["ratio"] == 1) or row["variant"] not in ("blackjax", "plain", "gradients")
