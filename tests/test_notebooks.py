"""The notebooks in examples/ run, and what they store is what they print."""

import importlib.util
import json
import re
from pathlib import Path

import jax
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
NEEDS = {"improve_a_trace": "pymc"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_runs(path):
    if path.stem in NEEDS:
        pytest.importorskip(NEEDS[path.stem])
    spec = importlib.util.spec_from_file_location("notebooks", EXAMPLES / "notebooks.py")
    notebooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(notebooks)
    notebook = json.loads(path.read_text())
    stored = [words(cell) for cell in notebook["cells"]]
    with jax.numpy_rank_promotion("allow"):
        scope = notebooks.run(notebook)
    assert [words(cell) for cell in notebook["cells"]] == stored
    if path.stem == "repel_a_kernel":
        assert scope["repelled"] < 0.5 * scope["plain"]
        assert scope["pooled"](scope["better"]) < 0.2 * scope["pooled"](scope["few"])
    if path.stem == "sample_a_model":
        assert abs(scope["result"].estimate(lambda d: d["log_scale"] > 1)[0] - 0.252) < 0.05
    if path.stem == "improve_a_trace":
        assert scope["gap"] < 1e-4


def words(cell):
    """What a cell prints, without its numbers, which depend on the machine."""
    texts = [line for out in cell.get("outputs", ()) for line in out.get("text", ())]
    return re.sub(r"[\d.e+\s-]+", " ", "".join(texts)).split()
