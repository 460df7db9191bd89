"""Checkpoints: nothing is lost, altered or taken for another run's in silence."""

import contextlib
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc
from helpers import log_gamma
from srmc.sample import checkpoint as checkpoints
from srmc.sample import stored
from srmc.sample.identity import compare, probe

QUICK = {
    "kernel": "mala",
    "alpha": 0.0,
    "num_warmup": 100,
    "num_samples": 100,
    "num_chains": 2,
    "initial_position": np.zeros(2, np.float32),
    "progress": False,
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run in pieces of about 20 draws, which have several commits each."""
    folder = tmp_path_factory.mktemp("run") / "run"
    with pytest.MonkeyPatch.context() as patch, jax.numpy_rank_promotion("raise"):
        patch.setattr(stored, "PIECE", 2000)
        options = QUICK | {"checkpoint": folder, "checkpoint_seconds": 0.002}
        return srmc.sample(log_gamma, **options), folder


@pytest.fixture
def run(finished, tmp_path):
    """The run, and a copy of its folder."""
    whole, folder = finished
    shutil.copytree(folder, tmp_path / "run")
    return whole, tmp_path / "run"


def resumed(folder, **options):
    return srmc.sample(log_gamma, **QUICK | options, checkpoint=folder, resume=True)


def test_every_file_that_is_missing_or_altered_is_named(run, tmp_path):
    whole, folder = run
    pieces = sorted(p for p in (folder / "draws.zarr/values/x").iterdir() if p.name[0] == "c")
    assert len(pieces) > 2
    np.testing.assert_array_equal(resumed(folder).draws["x"], whole.draws["x"])
    files = [*pieces, folder / "draws.zarr/stats/gradients/c.0.0"]
    for file in files:
        content = file.read_bytes()
        file.unlink()
        with pytest.raises(ValueError, match=f"{file.name} is missing.*put back a copy"):
            resumed(folder)
        for place in {0, len(content) // 2, len(content) - 1} if file == files[0] else {0}:
            flipped = bytearray(content)
            flipped[place] ^= 64
            file.write_bytes(flipped)
            with pytest.raises(ValueError, match=f"{file.name} is damaged.*put back a copy"):
                resumed(folder)
        file.write_bytes(content[: len(content) // 2])
        with pytest.raises(ValueError, match=f"{file.name} is damaged"):
            resumed(folder)
        file.write_bytes(content)
    description = folder / "draws.zarr/values/x/zarr.json"
    content = description.read_bytes()
    for change in (b"", content[:50], content.replace(b"float32", b"int32"), None):
        description.unlink() if change is None else description.write_bytes(change)
        with pytest.raises(ValueError, match=r"values/x/.* is (missing|damaged).*put back a copy"):
            resumed(folder)
    description.write_bytes(content)
    other = pieces[0].read_bytes()
    pieces[0].write_bytes(pieces[1].read_bytes())
    with pytest.raises(ValueError, match=f"{pieces[0].name} is damaged"):
        resumed(folder)
    pieces[0].write_bytes(other)
    np.testing.assert_array_equal(resumed(folder).draws["x"], whole.draws["x"])


def test_no_byte_of_the_state_can_be_wrong_in_silence(run):
    """Each flipped byte gives an error, or changes nothing that is read."""
    _, folder = run
    path = folder / "state.npz"
    content, right = path.read_bytes(), checkpoints.read_arrays(path)
    for place in np.random.default_rng(0).choice(len(content), 300, replace=False):
        flipped = bytearray(content)
        flipped[place] ^= 1 << (place % 8)
        path.write_bytes(flipped)
        with contextlib.suppress(ValueError):
            found = checkpoints.read_arrays(path)
            assert found.keys() == right.keys()
            assert all(np.array_equal(found[k], right[k]) for k in right)


def test_draws_are_on_the_disk_before_the_commit_that_counts_on_them(tmp_path, monkeypatch):
    order = []
    sync, write = stored.sync, checkpoints.write_arrays
    monkeypatch.setattr(stored, "sync", lambda path: (order.append(path), sync(path)))
    monkeypatch.setattr(
        checkpoints, "write_arrays", lambda path, x: (order.append(path), write(path, x))
    )
    options = QUICK | {"num_samples": 4}
    srmc.sample(log_gamma, **options, checkpoint=tmp_path, checkpoint_seconds=1e-9)
    commits = [k for k, path in enumerate(order) if path.name == "state.npz"]
    assert len(commits) > 1
    for before, commit in zip([0, *commits], commits, strict=False):
        synced = order[before:commit]
        assert tmp_path / "draws.zarr/values/x/c.0.0.0" in synced
        assert tmp_path / "draws.zarr/values/x" in synced


def test_draws_without_a_record_of_their_run_are_refused(run):
    _, folder = run
    (folder / "run.json").unlink()
    for resume in (True, False):
        with pytest.raises(ValueError, match=r"run.json is missing.*warmup.npz, state.npz"):
            srmc.sample(log_gamma, **QUICK, checkpoint=folder, resume=resume)


def test_a_run_of_several_processes_is_not_one_of_one(run, tmp_path):
    _, folder = run
    shutil.move(folder, tmp_path / "several" / "process-0")
    with pytest.raises(ValueError, match="another number of processes than the 1 there are"):
        resumed(tmp_path / "several")


STEP = lambda x: jnp.where(x[0] > 2, -50.0, 0.0)


@pytest.mark.parametrize(
    "other",
    [
        lambda x: log_gamma(x) + STEP(x),
        lambda x: log_gamma(x) + 1000.0,
        lambda x: 1.001 * log_gamma(x),
        lambda x: log_gamma(x) - 1e-3 * jnp.sum(jnp.maximum(-x, 0.0)),
    ],
    ids=["beyond 2", "constant", "scaled", "one side"],
)
def test_another_model_is_told_apart(run, other):
    _, folder = run
    with pytest.raises(ValueError, match="another run: the model's log density was"):
        srmc.sample(other, **QUICK, checkpoint=folder, resume=True)


def test_a_large_constant_hides_no_difference():
    starts = np.random.default_rng(0).normal(size=(4, 2)).astype(np.float32)
    seen = lambda f: probe(lambda x: {"f": f(x)}, jnp.asarray(starts))
    raised = seen(lambda x: log_gamma(x) + 1e4)
    precision = float(np.finfo(np.float32).eps)
    assert not compare(raised, raised, precision)
    nearly = {"f": [v * (1 + precision) for v in raised["f"]]}
    assert not compare(raised, nearly, precision)
    for f in (lambda x: 1.01 * log_gamma(x) + 1e4, lambda x: log_gamma(x) + STEP(x) + 1e4):
        assert compare(raised, seen(f), precision)


def test_other_statistics_are_told_apart(tmp_path):
    """Both are 0 where the chains start."""
    first = {"statistics": lambda values: {"total": values["x"].sum()}}
    other = {"statistics": lambda values: {"total": (values["x"] ** 2).sum()}}
    srmc.sample(log_gamma, **QUICK, **first, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="another run: what is kept of total was"):
        resumed(tmp_path, **other)


@pytest.mark.parametrize("alpha", [0.0, "auto"])
def test_a_finished_run_can_be_extended(run, tmp_path, alpha):
    _, folder = run
    options = QUICK | {"alpha": alpha}
    if alpha == "auto":
        folder = tmp_path / "auto"
        srmc.sample(log_gamma, **options, checkpoint=folder)
    whole = srmc.sample(log_gamma, **options | {"num_samples": 250})
    for _ in range(2):
        longer = resumed(folder, alpha=alpha, num_samples=250)
        assert not longer.interrupted
        np.testing.assert_array_equal(longer.draws["x"], whole.draws["x"])
        np.testing.assert_array_equal(longer.base["x"], whole.base["x"])
        np.testing.assert_array_equal(longer.stats["gradients"], whole.stats["gradients"])
    with pytest.raises(ValueError, match="num_samples was 250 and is 100"):
        resumed(folder, alpha=alpha)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"alpha": 3.0}, "the loop that repels its draws is tuned for num_samples"),
        ({"keep": "moments"}, "the batches of its moments depend on num_samples"),
    ],
    ids=["repelled", "moments"],
)
def test_why_a_run_cannot_be_extended_is_said(tmp_path, options, why):
    options = QUICK | options | {"checkpoint": tmp_path}
    srmc.sample(log_gamma, **options)
    with pytest.raises(ValueError, match=f"num_samples was 100 and is 200; .*{why}"):
        srmc.sample(log_gamma, **options | {"num_samples": 200}, resume=True)


def test_a_process_that_is_a_commit_ahead_goes_back(tmp_path, monkeypatch):
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    record = {"settings": {"num_samples": 100, "double_precision": False}}
    record |= {"shapes": {}, "probe": {}, "versions": {}}
    store = checkpoints.Checkpoint(tmp_path, record, resume=False)
    carry = lambda n: {"state": np.full(3, n)}
    commit = lambda n: checkpoints.Commit(n, carry(n), {"sums": np.arange(n)})
    for n in (10, 20, 30):
        store.save(commit(n))
    assert list(store.commits(carry(0))) == [20, 30]
    store.go_back(20)
    store.save(commit(25))
    assert list(store.commits(carry(0))) == [20, 25]
    store.close()
    store = checkpoints.Checkpoint(tmp_path, record, resume=True)
    found = store.commits(carry(0))[20]
    np.testing.assert_array_equal(found.carry["state"], carry(20)["state"])
    np.testing.assert_array_equal(found.kept["sums"], np.arange(20))
    with pytest.raises(ValueError, match=r"state-before.npz does not hold the state of this run"):
        store.commits({"state": np.zeros(4)})


def test_a_checkpoint_of_another_version_is_refused(run):
    _, folder = run
    record = checkpoints.read_json(folder / "run.json")
    checkpoints.write_json(folder / "run.json", record | {"format": 2})
    with pytest.raises(ValueError, match="was made by another version of srmc"):
        resumed(folder)
