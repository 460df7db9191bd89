import json

import numpy as np
import pytest
from typer.testing import CliRunner

from srmc.cli.main import command
from srmc_studies.bench import machines


@pytest.mark.parametrize("held", [True, False])
def test_a_promise_that_does_not_hold_is_an_error(held, tmp_path, monkeypatch):
    sizes = []
    for name in ("single_chains", "models_on_dask", "resumed"):
        monkeypatch.setattr(machines, name, lambda size: sizes.append(size) or {"held": held})
    rows = tmp_path / "machines.json"
    out = CliRunner().invoke(command(), ["bench", "machines", "--quick", "--out", str(rows)])
    assert out.exit_code == (0 if held else 1)
    assert sizes == [machines.Size(3, 6, 50)] * 3
    assert [row["held"] for row in json.loads(rows.read_text())] == [held] * 3


def test_one_number_that_differs_is_seen():
    class Result:
        def __init__(self, last):
            self.draws = {"x": np.array([[1.0, last]])}
            self.base, self.stats = None, {"lp": np.array([[np.nan, 0.0]])}

    assert machines._equal(Result(2.0), Result(2.0))
    assert not machines._equal(Result(2.0), Result(np.nextafter(2.0, 3.0)))
