import json
import subprocess
import warnings
from types import SimpleNamespace

import jax
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from srmc.cli.main import command
from srmc_studies.bench.gallery import calls, run
from srmc_studies.bench.gallery.calls import Size
from srmc_studies.bench.gallery.compare import FUNCTIONALS, error_of, known, ratios, worse, z_scores
from srmc_studies.bench.gallery.models import MODELS
from srmc_studies.bench.gallery.study import Limits, listening, long_runs, study
from srmc_studies.bench.gallery.table import gallery_page, z_lines

app = command()

NAMES = [f"x[{n}]" for n in range(40)]


def summary(off, error):
    """A summary of standard normal coordinates, wrong by `off`, with standard errors."""
    exact = {"mean": 0.0, "sd": 1.0, "5%": -1.645, "50%": 0.0, "95%": 1.645}
    columns = {c: exact[c] + off + 1e-5 * np.arange(len(NAMES)) for c in FUNCTIONALS}
    columns |= {error_of(c): np.broadcast_to(error, len(NAMES)) for c in FUNCTIONALS}
    return pd.DataFrame(columns | {"r_hat_base": 1.0}, index=NAMES)


def test_a_quick_run_makes_rows_and_a_page_and_does_not_run_again(tmp_path, monkeypatch):
    rows, page = tmp_path / "rows", tmp_path / "gallery.md"
    args = ["bench", "gallery", "--quick", "--out", str(rows), "--page", str(page)]
    with jax.numpy_rank_promotion("allow"):  # NumPyro's Beta needs it
        out = CliRunner().invoke(app, args)
    assert out.exit_code == 0, out.output
    row = json.loads((rows / "baseball.json").read_text())
    assert row["runs"] == 2
    assert row["traces"] == 1
    assert {*row["sample"]["ratios"]} == {*row["improve"]} == {*FUNCTIONALS}
    assert all(0 < z["value"] < 4 for z in row["sample"]["z_rebalanced"].values())
    first = page.read_text()
    assert "| baseball | 18 players | NumPyro | 20 | 20 | 2 | " in first
    monkeypatch.setattr(run, "study", None)
    assert CliRunner().invoke(app, args).exit_code == 0
    assert page.read_text() == first


def test_z_scores_of_honest_errors_are_1_and_of_small_ones_larger():
    rng = np.random.default_rng(0)
    truth = known([summary(0.01 * rng.normal(size=40), 0.01) for _ in range(4)], ())
    assert truth.noise == pytest.approx(0.005)
    runs = [summary(0.1 * rng.normal(size=40), 0.1) for _ in range(50)]
    boasting = [run.assign(**{error_of(c): 0.05 for c in FUNCTIONALS}) for run in runs]
    honest, small = z_scores(truth, runs), z_scores(truth, boasting)
    for group in ("means", "sds", "quantiles"):
        assert abs(honest[group]["value"] - 1) < 4 * honest[group]["error"]
        assert honest[group]["long"] == pytest.approx(0.0025, rel=0.01)
        assert small[group]["value"] == pytest.approx(2 * honest[group]["value"], rel=0.01)


def test_replicates_share_the_error_of_the_long_runs():
    rng = np.random.default_rng(3)
    roots, errors = [], []
    for _ in range(200):
        truth = known([summary(0.1 * rng.normal(size=40), 0.1)], ())
        runs = [summary(0.01 * rng.normal(size=40), 0.01) for _ in range(4)]
        found = z_scores(truth, runs)["means"]
        roots.append(found["value"])
        errors.append(found["error"])
    assert np.mean(errors) == pytest.approx(np.std(roots), rel=0.25)


def test_estimates_without_an_error_are_counted():
    truth = known([summary(0.0, 0.01)], ())
    run = summary(0.1, np.where(np.arange(40) < 10, np.nan, 0.1))
    found = z_scores(truth, [run, run])["means"]
    assert found["without"] == pytest.approx(0.25)
    rows = [{"model": "m", "sample": {"z_plain": {"means": found}}}]
    assert z_lines(rows, "z_plain")[1] == ["m", "1.00 ± 0.00 (25% without)", "–", "–"]


def test_coordinates_that_are_constant_or_equal_are_left_out_and_heavy_tails_have_quantiles():
    long = summary(0.0, 0.01)
    long.loc["copy"] = long.loc["x[3]"]
    long.loc["constant"] = [1.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, np.nan]
    assert known([long], ()).names == NAMES
    run = summary(0.1, 0.1)
    assert {*ratios(known([long], ("x",)), [run], [run])} == {"5%", "50%", "95%"}


def test_gains_are_those_of_squared_errors_and_what_got_worse_is_named():
    rng = np.random.default_rng(1)
    truth = known([summary(0.0, 1e-4)], ())
    off = [rng.normal(size=40) for _ in range(10)]
    before = [summary(0.1 * x, 0.1) for x in off]
    halved, doubled = ([summary(s * x, 0.1) for x in off] for s in (0.05, 0.2))
    assert ratios(truth, before, halved)["sd"]["value"] == pytest.approx(0.25, rel=0.01)
    assert worse(truth, before, halved) == []
    unknown = known([summary(0.0, np.where(np.arange(40) < 10, np.nan, 1e-4))], ())
    assert ratios(unknown, before, halved)["sd"]["value"] == pytest.approx(0.25, rel=0.01)
    found = worse(truth, before, doubled)
    assert [(one["variable"], one["functional"]) for one in found] == [
        ("x", c) for c in FUNCTIONALS
    ]


def test_warnings_are_kept_word_for_word_and_failures_with_them():
    told = []
    for n in (3, 5):
        with listening(told, "sample"):
            warnings.warn(f"{n} divergences", UserWarning, stacklevel=1)
    with listening(told, "improve"):
        raise ValueError("no such variable")
    kinds = [(t["call"], t["kind"], t["text"], t["count"]) for t in told]
    assert kinds == [
        ("sample", "UserWarning", "3 divergences", 2),
        ("improve", "failed: ValueError", "no such variable", 1),
    ]


def test_a_process_that_fails_or_takes_too_long_leaves_a_row(monkeypatch):
    def run_child(command, **options):
        script = "import time; time.sleep(60)" if "calls" in command[2] else "raise OSError('no')"
        return Popen([command[0], "-c", script], **options)

    Popen = subprocess.Popen
    monkeypatch.setattr(run.subprocess, "Popen", run_child)
    monkeypatch.setattr(calls, "usable", lambda name: ["srmc", "NumPyro"])
    (row,) = run.gallery(["baseball"], limits=Limits(seconds=0.025))
    assert row["first_call"] == {"srmc": "stopped after 0.5 s", "NumPyro": "stopped after 0.5 s"}
    assert [told["text"] for told in row["told"]] == ["OSError: no", "OSError: no"]
    page = gallery_page([row])
    assert "| baseball | – | – | – |" in page
    assert "earlier version" not in page
    assert "earlier version" in gallery_page([{k: v for k, v in row.items() if k != "date"}])


def test_long_runs_and_calls_that_were_kept_are_not_made_again(monkeypatch, tmp_path):
    made = []

    def child(module, asked, patience, x64="0"):
        made.append(asked.get("library") or asked["stage"])
        return {"seconds": 1.0, "processor": 2.0, "told": []}, ""

    monkeypatch.setattr(run, "_child", child)
    monkeypatch.setattr(calls, "usable", lambda name: ["srmc", "NumPyro"])
    (tmp_path / "baseball").mkdir()
    (tmp_path / "baseball" / "first_call.json").write_text('{"srmc": {"seconds": 3}}')
    (tmp_path / "baseball" / "0.long").write_text("")
    (row,) = run.gallery(["baseball"], keep=tmp_path)
    assert made == ["NumPyro", "study"]
    assert row["first_call"]["srmc"] == {"seconds": 3}


@pytest.mark.parametrize("name", MODELS)
def test_every_model_is_built(name):
    entry = MODELS[name]
    model = entry.build()
    if entry.library == "NumPyro":
        assert callable(model)
        assert all(np.isfinite(x).all() for x in entry.data())
    else:
        assert model.free_RVs
        assert model.observed_RVs


def test_an_unknown_model_is_refused():
    out = CliRunner().invoke(app, ["bench", "gallery", "--model", "nothing"])
    assert out.exit_code == 2
    assert "nothing" in out.output


def test_long_runs_whose_chains_have_not_mixed_are_left_out(monkeypatch, tmp_path):
    told = [["the chains have not mixed: R-hat is 1.2"], ["a divergence"], []]

    def sample(*_, **options):
        warned = told.pop() if options else []  # those of long runs have options
        table = summary(0.0 if options else 1e-4, 1e-4)
        return SimpleNamespace(summary=lambda base=False: table, warnings=warned, rebalancing=[])

    monkeypatch.setattr(calls, "srmc_sample", sample)
    given = "baseball", Size(10, 10, 4), Limits(3, 3), tmp_path
    long_runs(*given)
    assert {file.name for file in tmp_path.iterdir()} == {"0.long", "1.long", "2.doubted"}
    row = study(*given)
    assert (row["longer"], row["left_out"]) == (8, 1)
