"""What fails after sampling never takes the draws with it."""

import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

import srmc
from srmc.cli.main import command
from srmc.results.result import Result
from srmc.sample import outcome

app = command()

SHORT = {"num_warmup": 200, "num_samples": 100, "num_chains": 2, "progress": False}
START = {"a": np.zeros(2, np.float32), "b": np.float32(0)}
STAGES = {
    "rebalancing failed": (outcome, "rebalance_parts"),
    "naming the draws failed": (outcome, "_by_name"),
    "diagnostics failed": (outcome, "troubles"),
    "the summary failed": (outcome, "look_at"),
    "the end of the run failed": (outcome, "about_run"),
}


def broken(*args, **kwargs):
    raise IndexError("by a test")


def normal(x):
    return -0.5 * (jnp.sum(x["a"] ** 2) + x["b"] ** 2)


@pytest.mark.parametrize("stage", STAGES)
def test_draws_survive_whatever_fails(monkeypatch, stage):
    aim = {"target_error": 10.0} if stage == "the summary failed" else {}
    monkeypatch.setattr(*STAGES[stage], broken)
    with pytest.warns(srmc.RunWarning, match=f"{stage}.*IndexError: by a test"):
        result = srmc.sample(normal, initial_position=START, kernel="mala", **SHORT, **aim)
    assert any(stage in text for text in result.warnings)
    if stage in ("naming the draws failed", "the end of the run failed"):
        assert result.draws["position"].shape == (2, 100, 3)
    else:
        assert result.draws["a"].shape == (2, 100, 2)
        assert np.all(np.isfinite(result.draws["b"]))
    monkeypatch.undo()
    assert np.all(np.isfinite(result.summary()["error"]))
    assert "draws" in repr(result) + result._repr_html_()


def test_resampling_that_fails_leaves_discrete_draws(monkeypatch):
    monkeypatch.setattr(outcome, "resample", broken)
    with pytest.warns(srmc.RunWarning, match="rebalancing failed"):
        result = srmc.sample(srmc.targets.ising(), **SHORT | {"num_samples": 1000})
    assert result.draws["x"].shape[:2] == (2, 1000)


@pytest.mark.parametrize("stage", ["plot", "report", "summary"])
def test_the_command_line_keeps_the_result_whatever_fails(monkeypatch, tmp_path, stage):
    monkeypatch.setattr(Result, stage, broken)
    options = ["--kernel", "mala", "--num-warmup", "100", "--num-samples", "20"]
    options += ["--out", str(tmp_path)]
    found = CliRunner().invoke(app, ["sample", "gaussian", *options])
    assert found.exit_code == 0, found.output
    assert "IndexError: by a test" in " ".join(found.output.split())
    assert srmc.load(tmp_path / "result.nc").draws


def test_variables_after_a_thousand_coordinates_are_looked_at():
    # The last variable is the one whose chains differ.
    def density(x):
        apart = jnp.logaddexp(-0.5 * (x["z"] - 30) ** 2, -0.5 * (x["z"] + 30) ** 2)
        return -0.5 * jnp.sum(x["a"] ** 2) + apart

    starts = [{"a": np.zeros(1100, np.float32), "z": np.float32(30 * s)} for s in (-1, 1)]
    with pytest.warns(srmc.RunWarning, match=r"R-hat .* \(z\)"):
        result = srmc.sample(density, initial_position=starts, **SHORT)
    assert result.draws["a"].shape == (2, 100, 1100)
