"""The Python of the README and of the pages runs as it is printed."""

import json
import re
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import srmc
from srmc_studies.bench import rebalance_tables

README = Path(__file__).parents[1] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS)
def test_readme_code_runs(block, capsys):
    scope: dict = {}
    if "pymc" in block:
        pytest.importorskip("pymc")
        before = jax.config.read("jax_enable_x64")
        with warnings.catch_warnings(), jax.numpy_rank_promotion("allow"):
            warnings.simplefilter("ignore")
            exec(block, scope)
        jax.config.update("jax_enable_x64", before)
        assert (srmc.summary(scope["better"], ["mu", "tau"])["gain"] > 1).all()
        return
    exec(block, scope)
    assert scope["draws"].shape in ((1000, 10), (4, 1000, 10))
    assert jnp.all(jnp.isfinite(scope["draws"]))
    assert "gradients" in capsys.readouterr().out


def test_the_readme_s_table_is_that_of_the_study():
    rows = json.loads((README.parent / "docs" / "data" / "rebalance.json").read_text())
    assert rebalance_tables.short_table(rows) in README.read_text()


def test_the_readme_s_counts_are_those_of_the_ledger():
    counts = (README.parent / "docs" / "reproduction" / "counts.txt").read_text()
    assert counts.strip() in README.read_text()


def test_the_page_on_sampling_runs(capsys):
    page = (README.parent / "docs" / "howto" / "sampling.md").read_text()
    scope: dict = {}
    for block in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL):
        exec(block, scope)
    assert list(scope["result"].draws) == ["a", "b"]
    assert "b[1]" in capsys.readouterr().out


def test_the_page_on_fields_runs():
    page = (README.parent / "docs" / "explanation" / "fields.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    scope: dict = {}
    exec(block, scope)
    plain, repelled = (abs(scope[name].mean(axis=0)).max() for name in ("draws", "repelled"))
    assert scope["repelled"].shape == scope["draws"].shape
    assert repelled < plain


def test_the_page_on_rebalancing_runs():
    page = (README.parent / "docs" / "explanation" / "rebalance.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    scope: dict = {}
    exec(block, scope)
    off = scope["off"]
    assert off(scope["better"]) < 0.5 * off(scope["draws"])


def test_the_page_on_discrete_spaces_runs(capsys):
    page = (README.parent / "docs" / "explanation" / "discrete.md").read_text()
    first, mixed, second, third = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    scope: dict = {}
    exec(first, scope)
    assert scope["result"].draws["x"].shape == (4, 1000, 12)
    exec(mixed, scope)
    assert {*scope["np"].unique(scope["result"].draws["z"])} == {0.0, 1.0}
    exec(second, scope)
    assert scope["info"].evaluations == len(scope["heat"])
    exec(third, scope)
    out = scope["out"]
    assert abs(out.log_normalizer - scope["target"].table.log_normalizer) < 5 * out.error
    assert "exactly" in capsys.readouterr().out


def test_the_page_on_theory_runs():
    page = (README.parent / "docs" / "explanation" / "theory.md").read_text()
    first, second = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    exec(first, {})
    scope: dict = {}
    exec(second, scope)
    result, better = scope["result"], scope["better"]
    assert (better.error < result.summary(base=True)["error"].to_numpy()).all()
    assert (abs(better.mean - srmc.targets.logistic().moments.mean) < 0.02).all()
