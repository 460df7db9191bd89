"""The command line as a person uses it."""

import json
import sys

import jax
import numpy as np
import pytest
import xarray
from typer.testing import CliRunner

import srmc
from srmc.cli import main
from srmc.cli.main import command
from srmc.cli.terminal import find_model

app = command()

FAST = ["--num-chains", "2", "--num-warmup", "100", "--num-samples", "100"]


def call(*args):
    return CliRunner().invoke(app, [str(a) for a in args])


def test_targets_are_listed():
    out = call("targets")
    assert out.exit_code == 0
    for name in ("gaussian", "eight_schools", "funnel"):
        assert name in out.output


def test_a_target_whose_package_is_missing_is_listed_with_what_it_needs(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    out = call("targets")
    assert out.exit_code == 0
    assert "breast_cancer needs sklearn.datasets: pip install 'srmc[targets]'" in " ".join(
        out.output.split()
    )


def test_sample_leaves_a_result_that_can_be_shown_and_repeated(tmp_path):
    folder = tmp_path / "new"
    out = call("sample", "banana", "--kernel", "mala", "--alpha", "1", *FAST, "--out", folder)
    assert out.exit_code == 0, out.output
    assert "repelled" in out.output
    assert "gradients" in out.output
    assert (folder / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert "srmc sample banana --kernel mala --alpha 1 " in (folder / "run.html").read_text()
    result = srmc.load(folder / "result.nc")
    assert result.draws["x"].shape == (2, 100, 2)
    assert result.gradients == 2 * 105
    page = tmp_path / "again.html"
    shown = call("show", folder, "--plot", tmp_path / "again.png", "--report", page)
    assert shown.exit_code == 0, shown.output
    assert "x[1]" in shown.output
    assert (tmp_path / "again.png").exists()
    assert page.read_text() == (folder / "run.html").read_text()
    record = json.loads(call("show", folder / "result.nc", "--json").output)
    assert record["facts"]["gradients, sampling"] == 2 * 105

    again = ["--config", folder / "run.toml", "--out", tmp_path / "again", "--json"]
    out = call("sample", *again)
    assert out.exit_code == 0, out.output
    repeated = json.loads(out.stdout)
    assert repeated["summary"] == record["summary"]
    assert repeated["about"]["settings"] == result.about["settings"]
    (tmp_path / "bad.toml").write_text("alfa = 1\n")
    out = call("sample", "banana", "--config", tmp_path / "bad.toml")
    assert out.exit_code == 2
    assert "alfa" in out.output


def test_sample_takes_a_log_density_from_a_file(tmp_path):
    model = tmp_path / "model.py"
    model.write_text(
        "import jax.numpy as jnp\n"
        "initial_position = {'a': 0.0, 'b': jnp.zeros(2)}\n"
        "def logp(x): return -0.5 * (x['a'] ** 2 + jnp.sum(x['b'] ** 2))\n"
    )
    options = [
        "--kernel",
        "hmc",
        "--alpha",
        "2",
        "--num-integration-steps",
        "4",
        "--no-shared-history",
    ]
    options += ["--keep", "moments", "--thin", "2", "--checkpoint", tmp_path / "run"]
    for resume in ([], ["--resume"]):
        out = call("sample", f"{model}:logp", *options, *FAST, "--out", tmp_path, *resume)
        assert out.exit_code == 0, out.output
    result = srmc.load(tmp_path / "result.nc")
    assert list(result.summary().index) == ["a", "b[0]", "b[1]"]
    assert result.gradients == 2 * (400 + 20)
    out = call("sample", f"{model}:logp", *options, *FAST, "--out", tmp_path)
    assert out.exit_code == 2
    assert "checkpoint must be a new folder" in " ".join(out.output.split())


def test_data_of_a_log_density_do_not_make_it_a_numpyro_model(tmp_path):
    model = tmp_path / "model.py"
    model.write_text(
        "import jax.numpy as jnp\n"
        "data = {'y': jnp.arange(3.0)}\n"
        "initial_position = jnp.zeros(3)\n"
        "def logp(x): return -jnp.sum((x - data['y']) ** 2)\n"
    )
    out = call("sample", f"{model}:logp", *FAST, "--out", tmp_path)
    assert out.exit_code == 0, out.output


@pytest.mark.filterwarnings("ignore")
def test_data_of_other_models_are_left_to_them(tmp_path):
    pytest.importorskip("pymc")
    model = tmp_path / "model.py"
    model.write_text(
        "import numpy as np, pymc as pm\n"
        "data = np.arange(3.0)\n"
        "with pm.Model() as pymc_model:\n"
        "    pm.Normal('y', pm.Normal('mu'), observed=data)\n"
        "def logp(x): return -((x - data) ** 2).sum()\n"
    )
    found, _ = find_model(f"{model}:pymc_model")
    assert found.data is None
    out = call("sample", f"{model}:logp", *FAST, "--out", tmp_path)
    assert out.exit_code == 2
    assert "must define initial_position" in " ".join(out.output.split())


def test_a_run_that_is_repeated_does_not_overwrite_the_first(tmp_path):
    first = tmp_path / "o1"
    assert call("sample", "banana", *FAST, "--out", first).exit_code == 0
    before = (first / "result.nc").read_bytes()
    for again in ("o1-2", "o1-3"):
        out = call("sample", "--config", first / "run.toml", "--seed", "1")
        assert out.exit_code == 0, out.output
        assert f"settings are in {tmp_path / again}" in out.output.replace("\n", "")
        assert (tmp_path / again / "result.nc").exists()
    assert (first / "result.nc").read_bytes() == before
    assert call("sample", "banana", *FAST, "--seed", "1", "--out", first).exit_code == 0
    assert (first / "result.nc").read_bytes() != before


def test_the_settings_say_the_precision_that_ran(tmp_path):
    with jax.enable_x64(True):
        assert call("sample", "banana", *FAST, "--out", tmp_path).exit_code == 0
    assert "x64 = true" in (tmp_path / "run.toml").read_text()
    assert "--x64" in srmc.load(tmp_path / "result.nc").about["command"]


def test_what_cannot_be_shown_is_named(tmp_path):
    out = call("show", tmp_path)
    assert out.exit_code == 2
    assert "path must be a file" in " ".join(out.output.split())


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["nowhere"], "target must be one of gaussian"),
        (["nowhere.py:f"], "there is no file nowhere.py"),
        (["banana", "--alpha", "-1"], "alpha must be finite and >= 0"),
        (["banana", "--step-size", "0"], "step_size must be finite and > 0"),
        (["banana", "--kernel", "gibs"], "gibs"),
        (["banana", "--num-chains", "0"], "chains"),
        (["banana", "--alfa", "1"], "alfa"),
        (["banana", "--num-integration-steps", "5"], "num_integration_steps is for kernel 'hmc'"),
        (["banana", "--seed", "99999999999999999999"], "seed"),
        (["[/foo]"], "target must be one of"),
        (["banana", "--alpha", "strong"], "alpha must be a number or auto"),
        (["banana", "--out", "/proc/nothing"], "out must be a folder that can be written"),
    ],
)
def test_bad_calls_say_what_is_wrong(args, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = call("sample", *args, *(FAST if "--num-chains" not in args else FAST[2:]))
    assert out.exit_code == 2
    assert words in " ".join(out.output.split())


def test_a_file_without_what_is_asked_is_named(tmp_path):
    model = tmp_path / "model.py"
    model.write_text("def logp(x): return 0.0\n")
    assert "has nothing named 'other'" in " ".join(
        call("sample", f"{model}:other", "--out", tmp_path).output.split()
    )
    assert "initial_position must be given" in " ".join(
        call("sample", f"{model}:logp", "--out", tmp_path).output.split()
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def logp(x):\n    raise ValueError('mine [alone]')\n", "error: mine [alone]"),
        ("def logp(x):\n    return 1 / 0 * x\n", "ZeroDivisionError: division by zero"),
        ("def logp(x):\n    return y * x\n", "NameError: name 'y' is not defined"),
        ("y = unknown\ndef logp(x): return x\n", "NameError: name 'unknown' is not defined"),
        ("def logp(x) return x\n", "SyntaxError"),
    ],
)
def test_an_error_in_the_user_s_own_code_shows_the_user_s_own_lines(tmp_path, text, said):
    model = tmp_path / "srmc_model.py"
    model.write_text(f"initial_position = 0.0\n{text}")
    out = call("sample", f"{model}:logp", "--out", tmp_path / "results")
    assert out.exit_code == 2
    assert "srmc_model.py" in out.output
    assert "site-packages" not in out.output
    assert "srmc/cli" not in out.output
    assert said in out.output
    assert not (tmp_path / "results").exists()


def test_the_version_is_told():
    assert call("--version").output == f"srmc {srmc.__version__}\n"


def test_what_was_saved_is_said_after_an_interrupt(tmp_path, monkeypatch):
    run = srmc.sample

    def interrupted(*args, **options):
        result = run(*args, **options)
        result.interrupted, result.about["num_draws"] = True, 70
        return result

    monkeypatch.setattr(srmc, "sample", interrupted)
    out = call("sample", "banana", "--kernel", "mala", "--alpha", "0", *FAST, "--out", tmp_path)
    assert out.exit_code == 130
    said = " ".join(out.output.split())
    assert f"Interrupted: 70 of 100 draws per chain were saved in {tmp_path}." in said

    def stopped(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(srmc, "sample", stopped)
    out = call("sample", "banana", *FAST, "--out", tmp_path / "new")
    assert out.exit_code == 130
    assert "nothing was saved" in out.output
    assert not (tmp_path / "new").exists()


LOG_DENSITY = "import jax.numpy as jnp\ndef logp(x): return -0.5 * jnp.sum(x**2)\n"
NUMPYRO = """
import numpy as np, numpyro
from numpyro import distributions as dist
data = (np.zeros(4),)
def model(y):
    x = numpyro.sample("x", dist.Normal(0, 2).expand([2]).to_event(1))
    numpyro.sample("y", dist.Normal(x.sum(), 2), obs=y)
"""
PYMC = """
import numpy as np, pymc as pm
data = np.zeros(4)
with pm.Model() as model:
    x = pm.Normal("x", 0, 2, shape=2)
    pm.Normal("y", x.sum(), 2, observed=data)
"""


def exact_draws(covariance, path):
    draws = np.random.default_rng(0).multivariate_normal(np.zeros(2), covariance, size=(4, 200))
    data = xarray.Dataset({"x": (("chain", "draw", "x_dim"), draws)})
    xarray.DataTree.from_dict({"posterior": data}).to_netcdf(path, engine="h5netcdf")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("text", "name"), [(LOG_DENSITY, "logp"), (NUMPYRO, "model"), (PYMC, "model")]
)
def test_improve_takes_a_trace_and_a_model_from_files(text, name, tmp_path):
    if "pymc" in text:
        pytest.importorskip("pymc")
    model, trace, out = tmp_path / "model.py", tmp_path / "trace.nc", tmp_path / "better.nc"
    model.write_text(text)
    precision = np.eye(2) if name == "logp" else np.eye(2) / 4 + np.ones((2, 2))
    exact_draws(np.linalg.inv(precision), trace)
    before = jax.config.read("jax_enable_x64")
    with jax.numpy_rank_promotion("allow"):
        said = call("improve", trace, f"{model}:{name}", "--out", out)
    jax.config.update("jax_enable_x64", before)
    assert said.exit_code == 0, said.output
    assert max(map(len, said.output.splitlines())) <= 80
    assert "Plain draws would have the same errors" in said.output
    with xarray.open_datatree(out, engine="h5netcdf") as better:
        table = srmc.summary(better.load())
    assert (table["gain"] > 10).all()
    assert (abs(table["mean"]) < 0.02).all()
    again = call("improve", out, f"{model}:{name}", "--out", tmp_path / "more.nc")
    assert again.exit_code == 2
    assert "must not be improved already" in " ".join(again.output.split())


def test_improve_says_what_is_wrong_with_its_files(tmp_path):
    trace = tmp_path / "trace.nc"
    model = tmp_path / "model.py"
    model.write_text(LOG_DENSITY)
    said = lambda *args: " ".join(call("improve", *args).output.split())
    assert "trace must be a file" in said(trace, f"{model}:logp")
    trace.write_text("no trace")
    assert "trace must be a NetCDF 4 file" in said(trace, f"{model}:logp")
    exact_draws(np.eye(2), trace)
    assert "model must be file.py:name" in said(trace, "logp")
    assert "--out must be another file" in said(trace, f"{model}:logp", "--out", trace)
    assert "model must be given" in said(trace)


@pytest.mark.parametrize(("level", "logged"), [(None, True), ("1", True), ("3", False)])
def test_programs_are_not_kept_where_jax_logs_a_page_for_each(level, logged, monkeypatch):
    """JAX itself sets the level to 1, which does not hide errors."""
    monkeypatch.setattr(main, "version", lambda name: "0.9.2")
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
    if level is not None:
        monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", level)
    assert main._logs_programs() is logged
