"""One process has a checkpoint at a time; a folder that disappears does not take the run along."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap

import filelock
import numpy as np
import pytest

import srmc
from helpers import log_gamma
from srmc.sample import checkpoint as checkpoints
from srmc.sample.lock import Lock

QUICK = {"kernel": "mala", "num_warmup": 100, "num_samples": 100, "num_chains": 2}
QUICK |= {"initial_position": np.zeros(2, np.float32), "progress": False, "alpha": 0.0}
HOLDER = textwrap.dedent(
    """
    import sys, time
    from pathlib import Path
    from srmc.sample.lock import Lock

    lock = Lock(Path(sys.argv[1]))
    print("held", flush=True)
    time.sleep(60)
    """
)


@pytest.fixture
def other(tmp_path):
    """Another process that holds the lock on a folder."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def files(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_second_process_is_refused_by_name_and_touches_nothing(tmp_path, other):
    (tmp_path / ".state.npz.123.part.npz").write_text("being written")
    before = files(tmp_path)
    said = rf"in use by process {other.pid} on {os.uname().nodename}, since 20.*another folder"
    for resume in (True, False):
        with pytest.raises(ValueError, match=said):
            srmc.sample(log_gamma, **QUICK, checkpoint=tmp_path, resume=resume)
    assert files(tmp_path) == before


def test_the_lock_of_a_killed_process_is_free(tmp_path, other):
    os.kill(other.pid, signal.SIGKILL)
    other.wait()
    assert json.loads((tmp_path / "holder.json").read_text())["process"] == other.pid
    Lock(tmp_path).release()
    assert not (tmp_path / "holder.json").exists()
    Lock(tmp_path).release()


def test_a_run_holds_its_folder_to_its_end_only(tmp_path, monkeypatch):
    save, seen = checkpoints.Checkpoint.save, []

    def spied(store, commit):
        with pytest.raises(ValueError, match=f"in use by process {os.getpid()} on"):
            Lock(store.folder)
        seen.append(commit.done)
        save(store, commit)

    monkeypatch.setattr(checkpoints.Checkpoint, "save", spied)
    srmc.sample(log_gamma, **QUICK, checkpoint=tmp_path)
    assert seen
    Lock(tmp_path).release()
    with pytest.raises(ValueError, match="must be a new folder"):
        srmc.sample(log_gamma, **QUICK, checkpoint=tmp_path)
    Lock(tmp_path).release()


def test_what_locks_cannot_tell_is_said(tmp_path, monkeypatch):
    theirs = {"host": "elsewhere", "process": 7, "since": "noon"}
    (tmp_path / "holder.json").write_text(json.dumps(theirs))
    with pytest.warns(UserWarning, match="without an end by process 7 on elsewhere, since noon"):
        lock = Lock(tmp_path)
    theirs = {"host": "elsewhere", "process": 8, "since": "one"}
    (tmp_path / "holder.json").write_text(json.dumps(theirs))
    lock.release()
    assert json.loads((tmp_path / "holder.json").read_text())["process"] == 8

    def none(self, *args, **kwargs):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(filelock.FileLock, "acquire", none)
    with pytest.warns(UserWarning, match="on a file system without locks; make sure"):
        Lock(tmp_path).release()


@pytest.mark.parametrize("when", ["warm-up", "between", "writing"])
@pytest.mark.parametrize("keep", ["draws", "moments"])
def test_a_folder_that_disappears_leaves_the_draws_in_memory(tmp_path, monkeypatch, when, keep):
    whole = srmc.sample(log_gamma, **QUICK, keep=keep)
    folder = tmp_path / "run"
    write, save = checkpoints.write_arrays, checkpoints.Checkpoint.save
    calls = []

    def at_a_write(path, arrays):
        calls.append(path.name)
        if calls.count("warmup.npz" if when == "warm-up" else "state.npz") == 1:
            shutil.rmtree(folder, ignore_errors=True)
        write(path, arrays)

    def after_a_commit(store, commit):
        save(store, commit)
        shutil.rmtree(folder)

    if when == "between":
        monkeypatch.setattr(checkpoints.Checkpoint, "save", after_a_commit)
    else:
        monkeypatch.setattr(checkpoints, "write_arrays", at_a_write)
    options = QUICK | {"keep": keep, "checkpoint": folder, "checkpoint_seconds": 1e-9}
    with pytest.warns(UserWarning, match="disappeared during the run, which went on in memory"):
        result = srmc.sample(log_gamma, **options)
    assert any("cannot be resumed; save the result" in text for text in result.warnings)
    name = "draws" if keep == "draws" else "moments"
    found, right = (getattr(r, name)["x"] for r in (result, whole))
    if keep == "moments":
        found, right = found["mean"], right["mean"]
    np.testing.assert_array_equal(found, right)
    assert not result.interrupted


def test_a_folder_of_another_run_under_the_same_name_is_not_written_to(tmp_path, monkeypatch):
    folder, save = tmp_path / "run", checkpoints.Checkpoint.save

    def replaced(store, commit):
        save(store, commit)
        shutil.rmtree(folder)
        folder.mkdir()
        for name in ("run.json", "holder.json"):
            (folder / name).write_text(json.dumps({"process": -1}))

    monkeypatch.setattr(checkpoints.Checkpoint, "save", replaced)
    options = QUICK | {"checkpoint": folder, "checkpoint_seconds": 1e-9}
    with pytest.warns(UserWarning, match="disappeared during the run, which went on in memory"):
        result = srmc.sample(log_gamma, **options)
    assert len(result.draws["x"][0]) == QUICK["num_samples"]
    assert {path.name for path in folder.iterdir()} == {"run.json", "holder.json"}


def test_draws_too_large_for_memory_cannot_be_kept_and_it_is_said(tmp_path, monkeypatch):
    save = checkpoints.Checkpoint.save
    folder = tmp_path / "run"
    monkeypatch.setattr(sys.modules["srmc.sample.keep"], "IN_MEMORY", 1000)
    monkeypatch.setattr(
        checkpoints.Checkpoint, "save", lambda *a: (save(*a), shutil.rmtree(folder))
    )
    options = QUICK | {"checkpoint": folder, "checkpoint_seconds": 1e-9}
    with pytest.raises(OSError, match=r"has disappeared; the draws, .* too many to be kept"):
        srmc.sample(log_gamma, **options)


def test_a_resumed_run_whose_folder_disappears_has_the_earlier_draws(tmp_path, monkeypatch):
    longer = QUICK | {"num_samples": 200}
    whole = srmc.sample(log_gamma, **longer)
    folder = tmp_path / "run"
    srmc.sample(log_gamma, **QUICK, checkpoint=folder)
    monkeypatch.setattr(checkpoints.Checkpoint, "save", lambda *_: (shutil.rmtree(folder), 1 / 0))
    with pytest.warns(UserWarning, match="disappeared"):
        result = srmc.sample(log_gamma, **longer, checkpoint=folder, resume=True)
    np.testing.assert_array_equal(result.draws["x"], whole.draws["x"])
