"""Chains that run by themselves are what they are in the whole run, and merge to it."""

import json
import shutil

import jax
import numpy as np
import pytest

import srmc
from helpers import MEAN, VARIANCE, log_gamma

START = np.zeros(2, np.float32)
RUN = {
    "kernel": "mala",
    "num_warmup": 100,
    "num_samples": 40,
    "num_chains": 4,
    "initial_position": START,
    "progress": False,
}


def same(one, other):
    assert one.draws.keys() == other.draws.keys()
    for name in one.draws:
        np.testing.assert_array_equal(one.draws[name], other.draws[name])
        np.testing.assert_array_equal(one.base[name], other.base[name])
    for name in one.stats:
        np.testing.assert_array_equal(one.stats[name], other.stats[name])
    # Gradients that the parts have spent on scores are not spent again.
    reports = ([r._replace(gradients=0) for r in x.rebalancing] for x in (one, other))
    assert next(reports) == next(reports)
    assert one.about["settings"] == other.about["settings"]
    assert one.about["measured"] == pytest.approx(other.about["measured"], rel=1e-9)


def merged(*args, **options):
    return srmc.merge(*args, **options, progress=False)


@pytest.fixture(scope="module")
def whole():
    return srmc.sample(log_gamma, **RUN, chains=range(4))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The checkpoints of four jobs, which ran in another order, the last one in two parts."""
    folder = tmp_path_factory.mktemp("jobs")
    for chain in (2, 0, 3):
        srmc.sample(log_gamma, **RUN, chains=[chain], checkpoint=folder)
    srmc.sample(log_gamma, **RUN | {"num_samples": 25}, chains=[1], checkpoint=folder)
    srmc.sample(log_gamma, **RUN, chains=[1], checkpoint=folder, resume=True)
    return folder


@pytest.fixture
def jobs(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "jobs")


def test_sixty_four_jobs_are_the_whole_run_bit_for_bit():
    run = RUN | {"num_chains": 64, "num_samples": 10, "alpha": 0.0, "seed": 2**40}
    whole = srmc.sample(log_gamma, **run, chains=range(64))
    assert whole.draws["x"].shape == (64, 10, 2)
    assert len(np.unique(whole.draws["x"][:, -1, 0])) == 64
    jobs = [srmc.sample(log_gamma, **run, chains=[chain]) for chain in reversed(range(64))]
    same(merged(jobs), whole)


def test_checkpoints_merge_to_the_rebalanced_run(jobs, whole):
    found = merged(jobs, log_gamma, initial_position=START)
    assert whole.rebalancing[0].moved
    same(found, whole)
    assert found.about["gradients_of_warmup"] == whole.about["gradients_of_warmup"]
    with pytest.raises(ValueError, match=r"model must be given.*srmc.merge\(runs, model\)"):
        merged(jobs)


@pytest.mark.parametrize(
    "options",
    [
        {"kernel": "nuts"},
        {"kernel": "mh", "shared_history": False},
        {"kernel": "hmc", "alpha": 3.0, "shared_history": False},
        {"initial_position": [START, START + 1, START, START - 1]},
    ],
    ids=["nuts", "maps of their own", "repelled", "starts of their own"],
)
def test_results_merge_whatever_ran(options, tmp_path):
    run = RUN | {"seed": 1} | options
    whole = srmc.sample(log_gamma, **run, chains=range(4))
    first, second = (srmc.sample(log_gamma, **run, chains=chains) for chains in ([3, 1], [0]))
    np.testing.assert_array_equal(second.base["x"][0], whole.base["x"][0])
    third = srmc.sample(log_gamma, **run, chains=[2])
    third.save(tmp_path / "third.nc")
    same(merged([merged([first, second]), tmp_path / "third.nc"]), whole)


def test_states_of_a_discrete_space_are_resampled_together():
    target = srmc.targets.ising([(0, 1), (1, 2), (2, 3)], coupling=0.2)
    run = {"num_warmup": 100, "num_samples": 200, "num_chains": 2, "progress": False}
    whole = srmc.sample(target, **run, chains=range(2))
    jobs = [srmc.sample(target, **run, chains=[chain]) for chain in (1, 0)]
    assert whole.rebalancing
    same(merged(jobs, target), whole)
    with pytest.raises(ValueError, match="model must be given, with its space"):
        merged(jobs)


@pytest.mark.parametrize("keep", ["moments", "covariance"])
def test_moments_merge(keep):
    run = RUN | {"keep": keep, "alpha": 0.0, "num_samples": 200}
    jobs = [srmc.sample(log_gamma, **run, chains=[chain]) for chain in range(4)]
    found = merged([merged(jobs[:2]), *jobs[2:]])
    draws = srmc.sample(log_gamma, **run | {"keep": "draws"}, chains=range(4)).draws["x"]
    table = found.summary()
    np.testing.assert_allclose(table["mean"], draws.mean(axis=(0, 1)), rtol=1e-4)
    np.testing.assert_allclose(table["sd"], draws.std(axis=(0, 1)), rtol=1e-2)
    errors = [job.summary()["error"] for job in jobs]
    assert np.all(table["error"] < np.mean(errors, axis=0))
    if keep == "covariance":
        exact = np.cov(draws.reshape(-1, 2).T)
        np.testing.assert_allclose(found.covariance, exact, rtol=1e-4, atol=1e-4)


def test_a_chain_that_is_missing_is_named(jobs):
    shutil.rmtree(jobs / "chain-2")
    given = [jobs / "chain-0", jobs / "chain-3", jobs / "chain-1"]
    found = merged(given, log_gamma, initial_position=START)
    assert found.about["settings"]["chains"] == [0, 1, 3]
    assert found.warnings[0] == "of 4 chains 1 are missing: 2"


def edit(path, change):
    record = json.loads(path.read_text())
    change(record)
    record.pop("sha256")
    path.write_text(json.dumps(record))


def test_what_does_not_belong_together_is_named(jobs, tmp_path):
    one = jobs / "chain-1"
    with pytest.raises(ValueError, match="different chains, got chain 1 twice"):
        merged([jobs, one], log_gamma, initial_position=START)
    other = lambda x: log_gamma(x) - 0.01 * x[0] ** 2
    with pytest.raises(ValueError, match="model must be that of the runs, but the model's log"):
        merged(jobs, other, initial_position=START)
    for change, why in (
        ({"seed": 5}, "seed is 0 and 5"),
        ({"step_size": 0.3}, "step_size is None and 0.3"),
    ):
        away = tmp_path / why
        srmc.sample(log_gamma, **RUN | change, chains=[1], checkpoint=away)
        with pytest.raises(ValueError, match=rf"chains \[0\] and \[1\] .* different runs: {why}"):
            merged([jobs / "chain-0", away], log_gamma, initial_position=START)
    srmc.sample(other, **RUN, chains=[1], checkpoint=tmp_path / "other")
    with pytest.raises(ValueError, match="different runs: the model's log density was"):
        merged([jobs / "chain-0", tmp_path / "other"], log_gamma, initial_position=START)
    edit(one / "run.json", lambda record: record["versions"].update(jax="0.1"))
    found = merged(jobs, log_gamma, initial_position=START)
    assert "different versions" in found.warnings[0]
    (one / "about.json").unlink()
    with pytest.raises(ValueError, match=r"chain 1 in .* is not complete; resume it"):
        merged(jobs, log_gamma, initial_position=START)


def test_what_cannot_be_merged_is_refused(jobs, tmp_path, whole):
    together = srmc.sample(log_gamma, **RUN, checkpoint=tmp_path / "run")
    for run in (together, tmp_path / "run"):
        with pytest.raises(ValueError, match=r"runs must be .*chains"):
            merged([run], log_gamma)
    with pytest.raises(ValueError, match="none"):
        merged(tmp_path)
    with pytest.raises(ValueError, match="there is no"):
        merged(tmp_path / "nowhere")
    with pytest.raises(TypeError, match="runs must be folders or results"):
        merged(3)
    with pytest.raises(ValueError, match="runs must hold at least one"):
        merged([])
    with pytest.raises(ValueError, match="holds a run of chains together"):
        srmc.sample(log_gamma, **RUN, chains=[0], checkpoint=tmp_path / "run")
    with jax.enable_x64(True), pytest.raises(ValueError, match=r"runs have single precision: jax"):
        merged(jobs, log_gamma, initial_position=START)
    more = {"statistics": lambda values: {"total": values["x"].sum()}}
    job = srmc.sample(log_gamma, **RUN, **more, chains=[0])
    with pytest.raises(ValueError, match=r"runs kept total, .*checkpoint and resume=True"):
        merged([job])


def test_all_jobs_can_be_ended_by_one_call(jobs, whole):
    """It has the statistics and the labels, too."""
    same(srmc.sample(log_gamma, **RUN, chains=range(4), checkpoint=jobs, resume=True), whole)


def test_means_and_covariances_follow_from_sums(tmp_path):
    run = RUN | {"num_samples": 400, "num_warmup": 300, "num_chains": 8}
    for chain in range(8):
        job = srmc.sample(log_gamma, **run, chains=[chain], checkpoint=tmp_path)
    whole = merged(tmp_path, log_gamma, initial_position=START)
    for folder in tmp_path.glob("chain-*"):
        shutil.rmtree(folder / "draws.zarr")
    found = merged(tmp_path, draws=False)
    plain, better = (found.summary(base=base) for base in (True, False))
    draws = whole.base["x"]
    np.testing.assert_allclose(plain["mean"], draws.mean(axis=(0, 1)), rtol=1e-5)
    np.testing.assert_allclose(plain["sd"], draws.std(axis=(0, 1)), rtol=1e-5)
    assert np.all(better["error"] < 0.7 * plain["error"])
    np.testing.assert_array_less(abs(better["mean"] - MEAN), 4 * better["error"])
    np.testing.assert_allclose(better["sd"], np.sqrt(VARIANCE), rtol=0.1)
    np.testing.assert_allclose(np.diag(found.covariance), better["sd"] ** 2, rtol=1e-6)
    assert found.total("gradients") == whole.total("gradients")
    levels = (0.01, 0.3, 0.95)
    of_sums = found.summary(base=True, quantiles=levels)
    near = of_sums[["1%", "30%", "95%"]].to_numpy()
    below = np.mean(draws[..., None] <= near, axis=(0, 1))
    np.testing.assert_allclose(below, np.broadcast_to(levels, below.shape), rtol=0, atol=0.01)
    assert np.all(of_sums[["error_1%", "error_30%", "error_95%"]] > 0)
    shown = list(found.summary().columns)
    assert shown[3:] == ["5%", "50%", "95%", *(f"error_{q}%" for q in (5, 50, 95))]
    assert np.all(merged([job], draws=False).summary()["error"] > better["error"])
