import json

import jax
import numpy as np
import pytest
from typer.testing import CliRunner

from srmc.cli.main import command
from srmc_studies.bench.coordinates import CASES, RIVALS, Size, against, coordinates, find_truth
from srmc_studies.bench.posteriors.hierarchies import hierarchy, radon, twisted

app = command()


def test_quick_coordinates_and_their_page(tmp_path):
    rows, page = tmp_path / "rows.json", tmp_path / "page.md"
    files = ["--out", str(rows), "--page", str(page)]
    ran = CliRunner().invoke(app, ["bench", "coordinates", "--quick", *files])
    assert ran.exit_code == 0, ran.output
    found = {row["sampler"]: row for row in json.loads(rows.read_text())}
    assert list(found) == ["BlackJAX NUTS", "srmc, plain", "srmc, auto"]
    assert all(row["gradients"] > 4 * 300 for row in found.values())
    assert against(found["srmc, plain"], "draws", found["srmc, plain"], "mean", "gradients")[0] == 1
    assert "| banana | srmc, auto |" in page.read_text()


@pytest.mark.parametrize("posterior", [hierarchy(6), twisted(3)], ids=["hierarchy", "twisted"])
def test_exact_draws_have_scores_of_mean_zero(posterior):
    with jax.enable_x64(True):
        x = jax.vmap(posterior.sample)(jax.random.split(jax.random.key(0), 20_000))
        scores = np.asarray(jax.vmap(jax.grad(posterior.logdensity_fn))(x))
    z = scores.mean(axis=0) / (scores.std(axis=0) / np.sqrt(len(scores)))
    assert np.max(np.abs(z)) < 4


def test_both_forms_of_radon_are_one_posterior():
    posterior = radon()
    x = np.random.default_rng(0).normal(size=posterior.dim)
    assert np.isfinite(posterior.logdensity_fn(x))
    assert posterior.dim == 90


def test_funnels_are_seen_through_logarithms():
    case = CASES["funnel-5"]
    truth = find_truth(case.posterior(), case.view, quick=True)
    np.testing.assert_allclose(truth.mean[1:], -0.635, atol=0.1)  # E log |z| of a normal z


def test_unknown_targets_are_refused():
    with pytest.raises(ValueError, match="targets must be among"):
        coordinates(["nothing"], size=Size(2, 10, 10))
    assert RIVALS[0] == "BlackJAX NUTS"
