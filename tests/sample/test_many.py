"""Many models by any executor: a model that fails, or kills its worker, takes no other along."""

import multiprocessing
import os
import pickle
import textwrap
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest

import srmc
from helpers import log_gamma
from srmc.sample import many
from srmc.sample.many import Here, Processes

MODULE = textwrap.dedent(
    """
    import os
    import signal

    import jax.numpy as jnp


    def normal(x, at=0.0):
        return -0.5 * jnp.sum((x - at) ** 2)


    def fails(x):
        raise ArithmeticError("no such density")


    def kills(x):
        if os.getpid() != int(os.environ["PARENT"]):
            os.kill(os.getpid(), signal.SIGKILL)
        return normal(x)
    """
)
RUN = {
    "kernel": "mala",
    "alpha": 0.0,
    "num_warmup": 100,
    "num_samples": 20,
    "num_chains": 2,
    "initial_position": np.zeros(2, np.float32),
    "progress": False,
}


@pytest.fixture
def models(tmp_path, monkeypatch):
    """Models of a module that workers can import, one that fails and one that kills its worker."""
    (tmp_path / "models_of_many.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setenv("PARENT", str(os.getpid()))
    import models_of_many

    return {
        "first": "models_of_many:normal",
        "fails": "models_of_many:fails",
        "kills": "models_of_many:kills",
        "far": partial(models_of_many.normal, at=5.0),
        "whole": srmc.Model("models_of_many:normal"),
    }


def check(runs, models):
    """All but two models have the draws that they have in this process."""
    assert {*runs.failed} == {"fails", "kills"}
    assert isinstance(runs["fails"].error, ArithmeticError)
    assert [*runs] == [*models]
    safe = {name: model for name, model in models.items() if name != "kills"}
    here = srmc.sample_many(safe, seed=7, **RUN)
    for n, name in enumerate(models):
        if name not in runs.failed:
            found = runs[name].result
            assert found.about["settings"]["seed"] == 7 + n
            assert np.all(np.isfinite(found.draws["x"]))
    np.testing.assert_array_equal(runs["first"].result.draws["x"], here["first"].result.draws["x"])


def test_a_pool_of_processes(models, tmp_path):
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=spawn) as pool:
        runs = srmc.sample_many(models, pool, seed=7, programs=tmp_path / "programs", **RUN)
        assert {run.name for run in runs.finished()} == {*models}
    check(runs, models)
    assert "killed" in str(runs["kills"].error)


def test_a_cluster_of_dask(models):
    distributed = pytest.importorskip("distributed")
    import dask

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        dask.config.set({"distributed.scheduler.worker-saturation": 1.0}),
        distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        runs = srmc.sample_many(models, client.get_executor(), seed=7, **RUN)
        check(runs, models)


def test_models_of_a_checkpoint_resume(tmp_path):
    run = RUN | {"checkpoint": tmp_path}
    first = srmc.sample_many([log_gamma, log_gamma], **run)
    assert {place.name for place in tmp_path.iterdir()} == {"0", "1"}
    longer = srmc.sample_many([log_gamma, log_gamma], **run | {"num_samples": 30}, resume=True)
    for name in ("0", "1"):
        old, new = (runs[name].result.draws["x"] for runs in (first, longer))
        np.testing.assert_array_equal(new[:, :20], old)
    assert not np.array_equal(longer["0"].result.draws["x"], longer["1"].result.draws["x"])
    assert repr(longer) == "<srmc.Runs: 2 models, 2 done, 0 failed>"


def test_what_cannot_be_sent_is_said():
    with pytest.raises(TypeError, match=r"models must be import paths.*model b and its keywords"):
        srmc.sample_many({"a": "module:name", "b": lambda x: -jnp.sum(x**2)}, 2, **RUN)
    with pytest.raises(ValueError, match="names of models must be text without slashes"):
        srmc.sample_many({"a/b": log_gamma}, **RUN)
    with pytest.raises(TypeError, match="executor must be a whole number"):
        srmc.sample_many([log_gamma], "processes", **RUN)
    for path in ("module", "no_such_module:name"):
        assert srmc.sample_many([path], **RUN).failed
    for models in ("module:name", log_gamma):
        with pytest.raises(TypeError, match="models must be a list or a dictionary"):
            srmc.sample_many(models, **RUN)
    with pytest.raises(KeyError):
        srmc.sample_many([log_gamma], **RUN)["1"]


def test_a_pool_that_is_broken_already(monkeypatch):
    class Broken(Here):
        def submit(self, *_):
            raise BrokenExecutor

    class Whole(Here):
        def __init__(self, workers):
            self.workers = workers

    monkeypatch.setattr(many, "Processes", Whole)
    runs = srmc.sample_many([srmc.targets.gaussian()], Broken(), **RUN | {"initial_position": None})
    assert not runs.failed


def test_a_model_lost_with_a_worker_runs_again_where_equal_calls_are_one():
    class KilledWorker(Exception):
        """As that of Dask, which counts a model that waits on the worker as its victim."""

    class Remembers(Here):
        def __init__(self):
            self.failed = {}

        def submit(self, job):
            key = pickle.dumps(job)
            if len(self.failed) < 2 and key not in self.failed:
                self.failed[key] = Future()
                self.failed[key].set_exception(KilledWorker())
            return self.failed.get(key) or super().submit(job)

    runs = srmc.sample_many([log_gamma, log_gamma], Remembers(), **RUN)
    assert not runs.failed


def test_a_process_that_is_killed_is_replaced():
    pool = Processes(1)
    tasks = [pool.submit(os._exit, 1), pool.submit(abs, -2)]
    assert "killed" in str(tasks[0].exception())
    assert tasks[1].result() == 2
    pool.shutdown()
