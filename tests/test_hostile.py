"""What others may have written: text that steers a terminal, planted links, names, forks."""

import json
import os
import subprocess
import sys
import textwrap

import h5py
import numpy as np
import pytest
from typer.testing import CliRunner

import srmc
from srmc import _files as files
from srmc.cli.main import command
from srmc.results.kept import Kept

HOSTILE = "\x1b]0;pwned\x07\x1b[2J\x9b31m"
FORMULA = "$\\frac{$"


@pytest.fixture
def result():
    rng = np.random.default_rng(0)
    draws = {FORMULA: rng.normal(size=(2, 200, 1))}
    stats = {
        name: np.ones((2, 200))
        for name in ("alpha", "acceptance_rate", "gradients", "theta_norm", "exponent")
    }
    stats |= {name: np.zeros((2, 200), bool) for name in ("diverging", "is_hot")}
    stats |= {name: np.ones((2, 200), bool) for name in ("is_finite", "is_stable")}
    about = {
        "settings": {"model": HOSTILE + FORMULA, "kernel": "nuts", "thin": 1},
        "num_draws": 200,
        "warnings": [HOSTILE],
        "gradients_of_warmup": 0,
        "seconds": 1.0,
        "rebalancing": [],
    }
    return srmc.Result(Kept(stats, draws=draws, base=draws), about)


def test_escapes_in_a_file_do_not_reach_the_terminal(result, tmp_path):
    path = tmp_path / "result.nc"
    result.save(path)
    with h5py.File(path, "a") as file:  # which removes the seal
        file["posterior"].move(FORMULA, f"a{HOSTILE}")
    files.seal(path)
    for options in ([], ["--json"]):
        shown = CliRunner().invoke(command(), ["show", str(path), *options])
        assert shown.exit_code == 0, shown.output
        assert "pwned" in shown.output
        assert not {"\x1b", "\x07", "\x9b"} & {*shown.output}
    loaded = srmc.load(path)
    assert all(text.isprintable() for text in [repr(loaded), *loaded.draws, *loaded.warnings])


def test_escapes_in_an_error_do_not_reach_the_terminal(tmp_path):
    path = tmp_path / f"{HOSTILE}.nc"
    path.write_text("no")
    shown = CliRunner().invoke(command(), ["show", str(path)])
    assert shown.exit_code == 2
    assert "\x1b" not in shown.output


def test_a_name_that_is_no_formula_breaks_no_figure(result, tmp_path):
    result.about["settings"]["model"] = FORMULA
    result.plot(tmp_path / "plot.png")
    result.report(tmp_path / "run.html")
    assert not result.warnings[1:]


def test_no_temporary_name_can_be_foreseen(tmp_path, monkeypatch):
    """Links that are planted under the names of before are not followed."""
    prey = tmp_path / "prey"
    prey.write_text("mine")
    for name in (f".x.json.{os.getpid()}.part.json", f".probe-{os.getpid()}"):
        (tmp_path / name).symlink_to(prey)
    files.check_writable("out", tmp_path)
    files.write_json(tmp_path / "x.json", {"a": 1})
    assert prey.read_text() == "mine"
    assert json.loads((tmp_path / "x.json").read_text())["a"] == 1
    monkeypatch.setattr(files.secrets, "token_hex", lambda n: "known")
    (tmp_path / ".y.json.known.part.json").symlink_to(prey)
    with pytest.raises(FileExistsError):
        files.write_json(tmp_path / "y.json", {"a": 2})
    assert prey.read_text() == "mine"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_what_is_no_file_is_not_replaced_by_one(result, tmp_path):
    """As root, a page for /dev/null would take the place of the device."""
    os.mkfifo(pipe := tmp_path / "pipe")
    for write in (result.report, result.save, result.plot):
        with pytest.raises(ValueError, match="path must be a file in an existing folder"):
            write(pipe)
    with pytest.raises(ValueError, match="no file that can be replaced"):
        files.write_json(pipe, {})
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_is_told_what_to_use_at_once():
    script = """
        import os, sys, warnings
        warnings.simplefilter("ignore")
        import numpy as np, srmc
        if os.fork() == 0:
            calls = (
                lambda: srmc.sample(lambda x: x, progress=False),
                lambda: srmc.rebalance(np.zeros((9, 2)), lambda x: -x),
                lambda: srmc.improve(3, 3),
            )
            for call in calls:
                try:
                    call()
                except RuntimeError as error:
                    assert 'get_context("spawn")' in str(error), error
                else:
                    os._exit(1)
            os._exit(7)
        sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    assert subprocess.run(command, timeout=100).returncode == 7
