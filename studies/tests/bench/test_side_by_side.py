"""`srmc bench posteriors` and `multimodal`: small forms, and the arithmetic of their tables."""

import json

import jax
import numpy as np
import pytest
from typer.testing import CliRunner

from srmc.cli.main import command
from srmc_studies.bench import posterior_tables as tables
from srmc_studies.bench import rivals
from srmc_studies.bench.measures import estimates, find_truth
from srmc_studies.bench.multimodal import modes_target
from srmc_studies.bench.posteriors import find
from srmc_studies.bench.side_by_side import compare

app = command()


def test_the_quick_comparison_prints_a_table_and_makes_a_page_with_a_picture(tmp_path):
    rows, page = tmp_path / "rows.json", tmp_path / "page.md"
    args = ["bench", "posteriors", "--quick", "--out", str(rows), "--page", str(page)]
    out = CliRunner().invoke(app, args)
    assert out.exit_code == 0, out.output
    assert "eight_schools" in out.output
    found = json.loads(rows.read_text())
    assert [row["sampler"] for row in found] == ["BlackJAX NUTS", "adjusted MCLMC"]
    for row in found:
        assert row["gradients"] > 0
        assert row["tuning_gradients"] > 0
        for name in ("mean", "variance", "covariance", "quantile", "tail"):
            assert np.isfinite(row["errors"]["rebalanced"][name]["ratio"])
    text = page.read_text()
    for heading in ("Against the best rival", "Where rebalancing loses", "The truth"):
        assert f"## {heading}" in text
    assert (tmp_path / "posteriors.png").stat().st_size > 1000
    page.unlink()
    joined = tmp_path / "joined.json"
    again = ["--rows", str(rows), "--out", str(joined), "--page", str(page)]
    out = CliRunner().invoke(app, ["bench", "posteriors", *again])
    assert out.exit_code == 0, out.output
    assert page.read_text() == text
    assert len(json.loads(joined.read_text())) == len(found)


@pytest.mark.usefixtures("x64")
def test_exact_draws_of_eight_schools_have_the_moments_of_quadrature():
    import srmc

    for centred in (False, True):
        target = srmc.targets.eight_schools(centred)
        name = "eight_schools_centred" if centred else "eight_schools"
        draws = jax.jit(jax.vmap(find(name).sample))(jax.random.split(jax.random.key(0), 2**16))
        mean, variance = (
            np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])
            for tree in target.moments[:2]
        )
        z = (np.mean(draws, axis=0) - mean) / np.sqrt(variance / 2**16)
        assert np.max(np.abs(z)) < 4.5
        np.testing.assert_allclose(np.var(draws, axis=0), variance, rtol=0.1)


@pytest.mark.usefixtures("x64")
def test_errors_of_exact_draws_are_those_of_theory():
    """Of n exact Gaussian draws: 1/n for means, 2/n for variances, p (1 - p) / n for the tail."""
    n, rng = 200, np.random.default_rng(0)
    found = [estimates(rng.normal(size=(n, 5)), np.zeros(5), np.ones(5)) for _ in range(400)]
    square = lambda name, truth: np.mean([(f[name] - truth) ** 2 for f in found]) * n
    tail = 0.0668072
    expected = {"mean": (0, 1), "variance": (1, 2), "covariance": (0, 1)}
    for name, (truth, value) in expected.items():
        assert abs(square(name, truth) / value - 1) < 0.2
    assert abs(square("tail", tail) / (tail * (1 - tail)) - 1) < 0.2


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", ["NumPyro NUTS", "BlackJAX NUTS, low rank", "nutpie, low rank"])
def test_other_samplers_run_too(name):
    pytest.importorskip(name.split()[0].strip(",").lower())
    posterior = find("banana")
    truth = find_truth(posterior, quick=True)
    row = compare(posterior, truth, name, 2, 100, 60)
    assert row["gradients"] >= row["draws"]
    assert row["rebalance"]["draws"] == row["draws"]


@pytest.mark.usefixtures("x64")
def test_gradients_of_microcanonical_steps_are_counted():
    seen = []
    posterior = find("banana")

    def counted(x):
        jax.debug.callback(lambda: seen.append(1))
        return posterior.logdensity_fn(x)

    sample = rivals.SAMPLERS["adjusted MCLMC"]
    _, _, tuning, gradients = jax.jit(lambda key: sample(counted, key, jax.numpy.zeros(2), 10, 20))(
        jax.random.key(0)
    )
    jax.effects_barrier()
    assert 0 <= len(seen) - int(tuning + gradients) <= 2  # and one to start


def row(sampler, mean, rebalanced, gradients=1000.0):
    ratio = {"ratio": rebalanced / mean, "error": 0.01, "worst_ratio": 1.0}
    side = lambda value: {"mean": {"average": value, "standard_error": 0.1 * value} | ratio}
    return {
        "posterior": "p",
        "dim": 2,
        "sampler": sampler,
        "draws": 100,
        "gradients": gradients,
        "tuning_gradients": 500.0,
        "seconds": 1.0,
        "control_variates": {"order": 0, "refused": 0, "seconds": 0.0},
        "rebalance": {"draws": 50, "gradients": 500.0, "seconds": 1.0},
        "errors": {"plain": side(mean), "control variates": {}, "rebalanced": side(rebalanced)},
    }


def test_the_best_rival_is_the_one_with_the_least_error_times_gradients():
    rows = [row("a", 0.2, 0.3), row("b", 0.1, 0.05, gradients=4000.0)]
    assert tables.best(rows, ("plain",), "mean").sampler == "a"
    # Rebalanced runs have half the draws, and 500 gradients more: 0.3 * 1000 and 0.05 * 2500.
    ratio, error = tables.against_best(rows, "mean")
    np.testing.assert_allclose(ratio, 125 / 200)
    np.testing.assert_allclose(error, ratio * 0.1 * 2**0.5)
    assert [line[1] for line in tables.losing(rows)] == ["a"]


def test_errors_of_rounding_are_not_compared():
    ratio, _ = tables.against_best([row("a", 1e-20, 1e-15)], "mean")
    np.testing.assert_allclose(ratio, 1.0)  # half the draws, and as many gradients again


def test_bad_arguments_are_named(tmp_path):
    runner = CliRunner()
    for args, message in (
        (["posteriors", "--quick", "--full"], "not both"),
        (["posteriors", "--posterior", "nothing"], "posterior must be one of"),
        (["posteriors", "--sampler", "nothing"], "samplers must be among"),
        (["posteriors", "--posterior", "arK-arK", "--data", str(tmp_path)], "put a checkout"),
        (["posteriors", "--page", str(tmp_path / "no" / "page.md")], "page must be"),
    ):
        out = runner.invoke(app, ["bench", *args])
        assert out.exit_code == 2
        assert message in " ".join(out.output.split())


def test_tempering_finds_the_weights_of_modes(tmp_path):
    rows, page = tmp_path / "rows.json", tmp_path / "page.md"
    args = ["bench", "multimodal", "--quick", "--out", str(rows), "--page", str(page)]
    out = CliRunner().invoke(app, args)
    assert out.exit_code == 0, out.output
    (found,) = json.loads(rows.read_text())
    assert found["sides"]["tempered"]["ratio"] < 0.2
    assert "| 2, 2 |" in page.read_text()


@pytest.mark.parametrize(("modes", "dim"), [(2, 3), (25, 10)])
def test_modes_are_isolated(modes, dim):
    _, weights, centres = modes_target(modes, dim)
    assert len(weights) == len(centres) == modes
    np.testing.assert_allclose(weights.sum(), 1)
    apart = np.linalg.norm(centres[:, None] - centres[None], axis=2) + 99 * np.eye(modes)
    assert apart.min() >= 6
