"""The examples of `srmc.improve`: a scale, a simplex and a correlation matrix, with coordinates."""

import importlib
import json
import re
from pathlib import Path

import arviz
import jax
import matplotlib as mpl
import numpy as np
import pytest

import srmc

EXAMPLES = Path(__file__).parents[2] / "examples"
DOCS = EXAMPLES.parent / "docs"
NEEDS = {"numpyro": "numpyro", "pymc": "pymc", "nutpie": "nutpie", "stan_csv": "numpyro"}
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def example(monkeypatch):
    """An example as a module; PyTensor's double precision is taken back."""
    monkeypatch.syspath_prepend(EXAMPLES)
    before, backend = jax.config.read("jax_enable_x64"), mpl.get_backend()
    mpl.use("agg")
    with jax.numpy_rank_promotion("allow"):
        yield lambda name: importlib.import_module(f"improve_{name}")
    mpl.use(backend)
    jax.config.update("jax_enable_x64", before)


@pytest.mark.parametrize("name", NEEDS)
def test_examples_run_and_arviz_takes_what_comes_back(name, example):
    pytest.importorskip(NEEDS[name])
    module = example(name)
    trace = module.make_trace(0, draws=100, tune=200)
    better, report = module.improve(trace, report=True, progress=False)
    assert type(better) is type(trace)
    new, old = better["posterior"], trace["posterior"]
    # Some versions of nutpie keep unconstrained values, too, which the model does not compute.
    assert {*new.data_vars} == {k for k in old.data_vars if not str(k).endswith("__")}
    for k in new.data_vars:
        assert new[k].dims == old[k].dims
    assert new["shop"].values[0] == "Aberdeen"
    assert new["corr"].dims == ("chain", "draw", "measure", "measure_too")
    np.testing.assert_allclose(new["theta"], new["mu"] + new["tau"] * new["raw"], rtol=1e-3)
    np.testing.assert_allclose(new["p"].sum("kind"), 1, rtol=1e-5)
    assert np.all(np.linalg.eigvalsh(new["corr"].values) > 0)
    # The posterior of p is Dirichlet(13, 8, 5).
    share = np.array([13, 8, 5]) / 26
    off = lambda data: np.abs(data["p"].mean(("chain", "draw")).values - share).max()
    assert off(new) < 0.006
    assert report.means < 0.6
    assert "theta[Bath]" in arviz.summary(better, var_names=["theta"]).index
    arviz.plot_trace(better, var_names=["tau"])
    if "log_likelihood" in (better.groups() if callable(better.groups) else better.children):
        arviz.loo(better, var_name="sales")
    if hasattr(module, "weigh"):
        _, report = module.weigh(trace, report=True)
        assert report.method == "reweight"


def test_the_table_of_the_page_is_that_of_the_study(example):
    rows = json.loads((DOCS / "data" / "improve.json").read_text())
    assert example("study").table(rows) in (DOCS / "howto" / "improve.md").read_text()


def test_the_page_runs(capsys, tmp_path, monkeypatch):
    pytest.importorskip("numpyro")
    monkeypatch.chdir(tmp_path)
    page = (DOCS / "howto" / "improve.md").read_text()
    first, second = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    scope: dict = {}
    exec(first, scope)
    assert {*scope["better"]["posterior"].data_vars} == {"mu", "sigma", "ratio"}
    assert (srmc.summary(scope["better"])["gain"] > 10).all()
    printed = capsys.readouterr().out
    shown = "".join(re.findall(r"```\n( +mean .*?)```", page, flags=re.DOTALL))
    assert [row.split()[0] for row in printed.splitlines()] == [
        row.split()[0] for row in shown.splitlines()
    ]
    exec(second, scope)
    assert np.abs(scope["result"].draws["x"].mean(axis=(0, 1))).max() < 0.2
