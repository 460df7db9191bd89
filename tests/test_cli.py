"""The command line as a person uses it."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from srmc.cli import app

FAST = ["--chains", "2", "--warmup", "100", "--steps", "100"]


def call(*args):
    return CliRunner().invoke(app, [str(a) for a in args])


def test_targets_are_listed():
    out = call("targets")
    assert out.exit_code == 0
    for name in ("gaussian", "eight_schools", "funnel"):
        assert name in out.output


def test_sample_writes_draws_summary_and_plot(tmp_path):
    out = call("sample", "banana", "--kernel", "mala", *FAST, "--out", tmp_path / "new")
    assert out.exit_code == 0, out.output
    assert "repelled" in out.output
    assert "gradients" in out.output
    with np.load(tmp_path / "new" / "draws.npz", allow_pickle=False) as draws:
        assert draws["base/x"].shape == (2, 100, 2)
        assert draws["repelled/stats/alpha"].shape == (2, 100)
    record = json.loads((tmp_path / "new" / "summary.json").read_text())
    assert record["settings"]["seed"] == 0
    assert record["settings"]["kernel"] == "mala"
    assert record["base"]["gradients"] == 2 * 100
    assert record["repelled"]["gradients"] in (2 * 100, 2 * 105)  # off or on
    assert set(record["versions"]) == {"srmc", "jax", "blackjax"}
    assert (tmp_path / "new" / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_random_walks_pay_for_their_history_alone(tmp_path):
    out = call("sample", "banana", "--kernel", "mh", "--alpha", "1", *FAST, "--out", tmp_path)
    assert out.exit_code == 0, out.output
    record = json.loads((tmp_path / "summary.json").read_text())
    assert record["base"]["gradients"] == 0
    assert 0 < record["repelled"]["gradients"] <= 2 * 5


def test_sample_takes_a_log_density_from_a_file(tmp_path):
    model = tmp_path / "model.py"
    model.write_text(
        "import jax.numpy as jnp\n"
        "initial_position = {'a': 0.0, 'b': jnp.zeros(2)}\n"
        "def logp(x): return -0.5 * (x['a'] ** 2 + jnp.sum(x['b'] ** 2))\n"
    )
    options = ["--kernel", "hmc", "--alpha", "2", "--leapfrogs", "4", "--own-histories", "--x64"]
    out = call("sample", f"{model}:logp", *options, *FAST, "--out", tmp_path)
    assert out.exit_code == 0, out.output
    record = json.loads((tmp_path / "summary.json").read_text())
    assert list(record["base"]["mean"]) == ["a", "b[0]", "b[1]"]
    assert record["repelled"]["gradients"] == 2 * (400 + 20)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["nowhere"], "target must be one of gaussian"),
        (["nowhere.py:f"], "target must be one of gaussian"),
        (["banana", "--alpha", "-1"], "alpha must be finite and >= 0"),
        (["banana", "--step-size", "0"], "step_size must be finite and > 0"),
        (["banana", "--kernel", "gibs"], "gibs"),
        (["banana", "--chains", "0"], "chains"),
        (["banana", "--alfa", "1"], "alfa"),
        (["banana", "--leapfrogs", "5"], "leapfrogs is for kernel 'hmc' alone"),
        (["banana", "--seed", "99999999999999999999"], "seed"),
        (["[/foo]"], "target must be one of"),
        (["banana", "--alpha", "strong"], "alpha must be a number or auto"),
        (["banana", "--out", "/proc/nothing"], "out must be a folder that can be written"),
    ],
)
def test_bad_calls_say_what_is_wrong(args, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = call("sample", *args, *(FAST if "--chains" not in args else FAST[2:]))
    assert out.exit_code == 2
    assert words in " ".join(out.output.split())


def test_a_file_without_what_is_asked_is_named(tmp_path):
    model = tmp_path / "model.py"
    model.write_text("def logp(x): return 0.0\n")
    assert "no function or Target named 'other'" in " ".join(
        call("sample", f"{model}:other", "--out", tmp_path).output.split()
    )
    assert "must also define initial_position" in " ".join(
        call("sample", f"{model}:logp", "--out", tmp_path).output.split()
    )


def test_an_error_in_the_user_s_own_code_keeps_its_traceback(tmp_path):
    model = tmp_path / "srmc_model.py"
    model.write_text("initial_position = 0.0\ndef logp(x): raise ValueError('mine [alone]')\n")
    out = call("sample", f"{model}:logp", "--out", tmp_path / "results")
    assert out.exit_code == 2
    assert "srmc_model.py" in out.output
    assert "mine [alone]" in out.output
    assert not (tmp_path / "results").exists()
