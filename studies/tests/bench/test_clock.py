import json

from typer.testing import CliRunner

from srmc.cli.main import command
from srmc_studies.bench import clock_calls
from srmc_studies.bench.clock_tables import clock_page, draw_clock

app = command()


def test_a_quick_run_makes_rows_a_page_and_a_picture(tmp_path):
    rows, page = tmp_path / "clock.json", tmp_path / "clock.md"
    args = ["bench", "clock", "--quick", "--out", str(rows), "--page", str(page)]
    out = CliRunner().invoke(app, args)
    assert out.exit_code == 0, out.output
    found = json.loads(rows.read_text())
    variants = {row["variant"] for row in found if row["kind"] == "step"}
    assert variants == {"BlackJAX", "plain", "repelled", "gradients alone"}
    units = [row for row in found if (row.get("library"), row.get("call")) == ("BlackJAX", "first")]
    assert [row["ratio"] for row in units] == [1.0]
    assert "| logistic-3 | 3 | mala |" in page.read_text()
    built = {r["variant"]: r["gradients_per_step"] for r in found if r["kind"] == "builder"}
    assert built["BlackJAX"] == built["plain"] == 1
    assert 1 < built["moving, history_every=50"] < 1.05 < built["moving, history_every=5"] < 1.3
    assert built["moving"] == 2 < built["default"]
    assert "| mala | moving, history_every=50 |" in page.read_text()
    assert (tmp_path / "clock.png").stat().st_size > 0


def test_libraries_that_are_absent_are_named(tmp_path):
    calls = [
        {"kind": "call", "model": "m", "dim": 3, "library": "BlackJAX", "call": "first"}
        | {"seconds": 2.0, "cpu_seconds": 1.0, "rounds": 3, "ratio": 1.0, "cpu_ratio": 1.0}
    ]
    names = ("BlackJAX", "plain", "repelled", "gradients alone")
    steps = [
        {"kind": "step", "model": "m", "dim": 3, "kernel": "nuts", "variant": name}
        | {"microseconds_per_step": 1.0, "cpu_microseconds_per_step": 1.0, "rounds": 9}
        | {"ratio": 1.0, "cpu_ratio": 1.0, "gradients_per_step": 7.0}
        for name in names
    ]
    memory = {"kind": "memory", "dim": 10, "kernel": "hmc", "keep": "draws"}
    memory |= {"warmup": 1, "samples": 2, "chains": 4}
    memory |= {"megabytes": 200.0, "megabytes_before": 150.0, "kept_megabytes": 1.0, "seconds": 3.0}
    more = [memory, {"kind": "skipped", "model": "m", "library": "nutpie"}]
    page = clock_page(calls + steps + more)
    assert "skipped: nutpie" in page
    assert "| 10 | hmc | 1 + 2 | draws | 1 | 50 | 3.0 |" in page
    draw_clock(calls + steps + more, tmp_path)


def test_a_process_reports_its_calls_and_its_memory(monkeypatch):
    seen = []
    build = lambda target, size, keep: lambda seed: seen.append((target.name, size, keep, seed))
    monkeypatch.setitem(clock_calls.LIBRARIES, "srmc", build)
    asked = {"library": "srmc", "model": "normal-5", "size": [100, 20, 1], "count": 2}
    out = clock_calls.main(asked | {"keep": "moments"})
    size = clock_calls.Size(100, 20, 1)
    assert seen == [("normal-5", size, "moments", 0), ("normal-5", size, "moments", 1)]
    assert len(out["times"]) == 2
    assert not out["megabytes"] < out["megabytes_before"]


def test_an_unknown_model_is_refused():
    out = CliRunner().invoke(app, ["bench", "clock", "--model", "nothing"])
    assert out.exit_code == 2
    assert "nothing" in out.output
