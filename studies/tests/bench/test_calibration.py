"""`srmc bench calibration` and `streaming`: small forms, and the arithmetic of ranks."""

import json

import jax
import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from srmc.cli.main import command
from srmc_studies.bench import calibration, streaming
from srmc_studies.bench.calibration_tables import calibration_page

app = command()


def test_the_quick_calibration_is_uniform_and_makes_a_page(tmp_path):
    rows, page = tmp_path / "rows.json", tmp_path / "page.md"
    args = ["bench", "calibration", "--quick", "--out", str(rows), "--page", str(page)]
    out = CliRunner().invoke(app, args)
    assert out.exit_code == 0, out.output
    (found,) = json.loads(rows.read_text())
    assert found["forms"].get("none", 0) < 10
    for side in ("plain", "rebalanced"):
        fifths = np.reshape(found["sides"][side]["counts"], (2, 5, 4)).sum(axis=2)  # 12 in each
        assert np.min(stats.chisquare(fifths, axis=1).pvalue) > 1e-4
    assert "weibull, d = 2" in page.read_text()
    assert (tmp_path / "calibration.png").stat().st_size > 1000


def test_ranks_of_exact_draws_are_uniform_and_those_of_narrow_draws_are_not():
    rng = np.random.default_rng(0)
    truth, draws = rng.normal(size=(400, 2)), rng.normal(size=(400, 500, 2))
    ranks = np.array([calibration.rank(t, x) for t, x in zip(truth, draws, strict=True)])
    assert ranks.min() >= 0
    assert ranks.max() < calibration.RANKS
    assert min(calibration.uniformity(ranks)["p"]) > 1e-3
    narrow = np.array([calibration.rank(t, x / 2) for t, x in zip(truth, draws, strict=True)])
    assert max(calibration.uniformity(narrow)["p"]) < 1e-6


@pytest.mark.parametrize("name", list(calibration.MODELS))
def test_densities_are_those_that_made_the_data(name):
    """Their score at the true parameters has mean 0 over prior and data."""
    model = calibration.MODELS[name]()

    def score(key):
        prior_key, data_key = jax.random.split(key)
        truth = model.prior(prior_key)
        data = model.simulate(data_key, truth)
        return jax.grad(model.logdensity, argnums=1)(data, truth)

    scores = np.asarray(jax.vmap(score)(jax.random.split(jax.random.key(0), 20_000)))
    z = scores.mean(axis=0) / (scores.std(axis=0) / np.sqrt(len(scores)))
    assert np.max(np.abs(z)) < 4.5


def test_z_scores_have_a_line_for_each_posterior():
    row = {"posterior": "p", "dim": 2, "form": "moved", "z": [1.0, -1.0], "error_over_sd": 0.01}
    assert "| p | 2 | moved | 1.00 | 1.00 | 0.01 |" in calibration_page([row])


def test_the_quick_stream_has_errors_below_those_of_the_plain_run(tmp_path):
    rows, page = tmp_path / "rows.json", tmp_path / "page.md"
    args = ["bench", "streaming", "--quick", "--out", str(rows), "--page", str(page)]
    out = CliRunner().invoke(app, args)
    assert out.exit_code == 0, out.output
    (row,) = json.loads(rows.read_text())
    errors = [row["sides"][side]["mean"] for side in streaming.SIDES]
    assert max(errors[1:]) < errors[0]
    assert "log gamma, d = 16" in page.read_text()
