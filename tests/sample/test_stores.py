"""Checkpoints and results on a store of fsspec: one in memory, or that of SRMC_TEST_STORE."""

import builtins
import itertools
import json
import os
import pickle
import secrets

import fsspec
import numpy as np
import pytest

import srmc
from helpers import log_gamma
from srmc._files import Remote
from srmc.sample import stored

START = np.zeros(2, np.float32)
RUN = {
    "kernel": "mala",
    "num_warmup": 100,
    "num_samples": 100,
    "num_chains": 2,
    "initial_position": START,
    "progress": False,
}


@pytest.fixture
def url():
    """A folder of its own, since the store in memory is one for all."""
    url = f"{os.environ.get('SRMC_TEST_STORE', 'memory://runs')}/{secrets.token_hex(4)}"
    yield url
    fs, path = fsspec.core.url_to_fs(url)
    if fs.exists(path):
        fs.rm(path, recursive=True)


@pytest.mark.parametrize("keep", ["draws", "covariance"])
def test_a_run_resumes(url, keep, monkeypatch):
    monkeypatch.setattr(stored, "PIECE", 2000)
    run = RUN | {"alpha": 0.0, "keep": keep, "checkpoint_seconds": 1e-6}  # a commit per draw
    whole = srmc.sample(log_gamma, **run)

    class Stopped(Exception):
        pass

    def put(path, file, put=Remote.put, commits=itertools.count()):  # noqa: B008
        if path.name == "state.npz" and next(commits) == 2:
            raise Stopped
        put(path, file)

    with monkeypatch.context() as patch:
        patch.setattr(Remote, "put", put)
        with pytest.raises(Stopped):
            srmc.sample(log_gamma, **run, checkpoint=url)
    assert "state.npz" in {place.name for place in Remote(url).glob("*.npz")}
    again = srmc.sample(log_gamma, **run, checkpoint=url, resume=True)
    assert not again.interrupted
    if keep == "draws":
        np.testing.assert_array_equal(again.draws["x"], whole.draws["x"])
    else:
        np.testing.assert_array_equal(again.covariance, whole.covariance)
    with pytest.raises(ValueError, match=f"new folder, but {url} holds a run"):
        srmc.sample(log_gamma, **run, checkpoint=url)
    with pytest.raises(ValueError, match=f"{url} belongs to another run"):
        srmc.sample(log_gamma, **run | {"seed": 1}, checkpoint=url, resume=True)


def test_chains_merge_and_results_load(url):
    whole = srmc.sample(log_gamma, **RUN, chains=range(2))
    for chain in range(2):
        srmc.sample(log_gamma, **RUN, chains=[chain], checkpoint=url)
    found = srmc.merge(url, log_gamma, initial_position=START)
    np.testing.assert_array_equal(found.draws["x"], whole.draws["x"])
    assert srmc.merge(url, draws=False).covariance.shape == (2, 2)
    for name in ("result.nc", "page.html", "plot.png"):
        {"nc": found.save, "html": found.report, "png": found.plot}[name.split(".")[1]](
            f"{url}/{name}"
        )
        assert len(Remote(f"{url}/{name}").read_bytes()) > 1000
    loaded = srmc.load(f"{url}/result.nc")
    np.testing.assert_array_equal(loaded.draws["x"], found.draws["x"])
    with fsspec.open(f"{url}/result.nc", "rb") as file:
        content = bytearray(file.read())
    content[len(content) // 2] ^= 1
    with fsspec.open(f"{url}/result.nc", "wb") as file:
        file.write(content)
    with pytest.raises(ValueError, match=f"{url}/result.nc is damaged"):
        srmc.load(f"{url}/result.nc")
    with pytest.raises(ValueError, match="path must be a file"):
        srmc.load(f"{url}/nothing.nc")


def test_models_have_folders_of_their_own_on_a_store(url):
    again = pickle.loads(pickle.dumps(Remote(url)))
    assert again == Remote(url)
    assert str(again) == url
    runs = srmc.sample_many([log_gamma], checkpoint=url, **RUN | {"num_samples": 4})
    assert not runs.failed
    assert Remote(f"{url}/0/run.json").exists()


def test_who_may_be_using_a_store_is_named(url):
    holder = {"host": "elsewhere", "process": 3, "since": "yesterday"}
    with fsspec.open(f"{url}/holder.json", "w") as file:
        json.dump(holder, file)
    with pytest.warns(UserWarning, match="in use, or was left .* by process 3 on elsewhere"):
        srmc.sample(log_gamma, **RUN | {"num_samples": 4}, checkpoint=url)
    assert not Remote(f"{url}/holder.json").exists()


def test_what_is_missing_is_named(url, monkeypatch):
    with pytest.raises(ValueError, match=r"checkpoint must be a path, got no-store://run"):
        srmc.sample(log_gamma, **RUN, checkpoint="no-store://run")
    usual = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("fsspec"):
            raise ModuleNotFoundError("no fsspec", name="fsspec")
        return usual(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ModuleNotFoundError, match=r"needs fsspec: pip install 'srmc\[stores\]'"):
        srmc.load(f"{url}/result.nc")
