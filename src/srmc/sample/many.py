"""`srmc.sample_many`: many models, by any executor."""

import dataclasses
import importlib
import os
import pickle
import queue
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from srmc._checks import as_seed, check_count, check_flag
from srmc._files import as_path
from srmc._programs import enable_cache
from srmc._progress import progress_bar
from srmc.models.model import Model
from srmc.results.result import Result
from srmc.results.trouble import RunWarning
from srmc.sample.front import sample
from srmc.sample.stop import ending_all

T = TypeVar("T")


class Lost(BrokenExecutor):
    """The worker of this task alone was killed."""


class Here(Executor):
    """An executor that runs each task in this process when it is submitted."""

    def submit(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> "Future[T]":
        """Run the task; Ctrl-C ends all."""
        future: Future[T] = Future()
        try:
            with ending_all():
                future.set_result(function(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class Processes(Executor):
    """A thread per worker, with a process of its own, which is replaced if it is killed.

    In a `ProcessPoolExecutor`, a worker that is killed ends all tasks.
    """

    def __init__(self, max_workers: int) -> None:
        self._max_workers = max_workers
        self._own = threading.local()
        self._pools: list[Executor] = []
        self._threads = ThreadPoolExecutor(max_workers)

    def submit(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> "Future[T]":
        """Run the task in the next process that is free."""
        return self._threads.submit(self._run, function, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes, when their tasks have ended."""
        self._threads.shutdown(wait, cancel_futures=cancel_futures)
        for pool in self._pools:
            pool.shutdown(wait)

    def _run(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        pool = getattr(self._own, "pool", None)
        if pool is None:
            pool = self._own.pool = _new_process()
            self._pools.append(pool)
        try:
            return pool.submit(function, *args, **kwargs).result()
        except BrokenExecutor as error:
            self._own.pool = None
            raise Lost("its worker was killed, by a lack of memory for example") from error


def _new_process() -> Executor:
    import multiprocessing  # which leaves something to be done at the exit of Python
    from concurrent.futures import ProcessPoolExecutor

    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))


@dataclasses.dataclass(frozen=True)
class Run:
    """A model of `srmc.sample_many`: its result, or the error that it ended with."""

    name: str
    result: Result | None = None
    error: BaseException | None = None


def sample_many(
    models: Any,
    executor: Executor | int | None = None,
    *,
    programs: str | os.PathLike[str] | None = None,
    progress: bool = True,
    **keywords: Any,
) -> "Runs":
    """Sample many models, each by a call of `srmc.sample`.

    A model that fails is a failed run, and the others continue. Models that are lost with a killed
    worker run once more: after a broken pool in separate processes, and with Dask one by one.

    Parameters
    ----------
    models
        A list of models, or a dictionary of them by name; the names of a list are "0", "1", and so
        on. A model is one of `srmc.sample`, or the import path of one, "package.module:name". What
        is sent to another process is pickled: models must be import paths, functions of a module,
        `jax.tree_util.Partial(function, data=...)` of these, or a `srmc.Model` of such. Models
        that differ in the numbers of their data alone share a compiled program in each worker.
    executor
        Any `concurrent.futures.Executor`, for example from Dask or MPI; its processes must not be
        forked. A number n starts n processes. By default the models run in this process.
    programs
        A folder for compiled programs that all workers share; see `srmc.enable_cache`.
    progress
        Whether to show how many models are done.
    **keywords
        Those of `srmc.sample`. The n-th model has the seed `seed + n`, and in a `checkpoint` a
        folder of its own with its name.

    Returns
    -------
    The runs by name, in order; each is waited for when it is looked up. `runs.finished()` yields
    them as they end.
    """
    check_flag("progress", progress)
    if isinstance(models, str) or not isinstance(models, Iterable):
        raise TypeError(f"models must be a list or a dictionary of models, got {models!r}")
    named = models if isinstance(models, Mapping) else {str(n): m for n, m in enumerate(models)}
    for name in named:
        if not isinstance(name, str) or not name or Path(name).name != name:
            raise ValueError(f"names of models must be text without slashes, got {name!r}")
    workers = _executor(executor)
    folder = keywords.pop("checkpoint", None)
    folder = None if folder is None else as_path("checkpoint", folder)
    seed = as_seed("seed", keywords.pop("seed", 0))
    jobs = {}
    for n, (name, model) in enumerate(named.items()):
        own = keywords | {"seed": (seed + n) % 2**64, "progress": False}
        own |= {} if folder is None else {"checkpoint": folder / name}
        jobs[name] = _Job(model, own, programs)
        if not isinstance(workers, Here):
            jobs[name].check(name)
    return Runs(jobs, workers, progress)


def _executor(given: Any) -> Executor:
    if given is None:
        return Here()
    if isinstance(given, type) or not hasattr(given, "submit"):
        check_count("executor", given)
        return Processes(int(given))
    return given


@dataclasses.dataclass(frozen=True)
class _Job:
    """A call of `srmc.sample` in a worker."""

    model: Any
    keywords: dict[str, Any]
    programs: Any

    def check(self, name: str) -> None:
        """Raise if another process cannot be given this job."""
        try:
            pickle.dumps(self)
        except Exception as error:  # of many kinds
            raise TypeError(
                f"models must be import paths, 'package.module:name', or functions of a module, "
                f"which can be pickled; model {name} and its keywords cannot: {error}"
            ) from None

    def __call__(self) -> Result:
        if self.programs is not None:
            enable_cache(self.programs)
        model = self.model
        if isinstance(model, Model) and isinstance(model.model, str):
            model = dataclasses.replace(model, model=_imported(model.model))
        elif isinstance(model, str):
            model = _imported(model)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RunWarning)  # which are in the result
            return sample(model, **self.keywords)


def _imported(path: str) -> Any:
    module, colon, name = path.partition(":")
    if not colon or not module or not name:
        raise ValueError(f"model must be an import path, 'package.module:name', got {path!r}")
    return getattr(importlib.import_module(module), name)


class Runs(Mapping[str, Run]):
    """The runs of `srmc.sample_many` by name, in order; looking one up waits for it."""

    def __init__(self, jobs: dict[str, _Job], executor: Executor, progress: bool) -> None:
        self._jobs, self._progress = jobs, progress
        self._done: dict[str, Run] = {}
        self._ended: queue.SimpleQueue[tuple[str, Future[Result]]] = queue.SimpleQueue()
        self._futures: dict[str, Future[Result]] = {}
        self._own = executor if isinstance(executor, Processes) else None
        self._executor, self._running = executor, set[str]()
        self._alone: dict[str, bool] = {}  # to be run again by themselves, and whether they have
        self._workers = getattr(executor, "_max_workers", 1)
        for name in jobs:
            self._submit(name, executor)

    def finished(self) -> Iterator[Run]:
        """The runs as they end, those first that have ended."""
        given: set[str] = set()
        while len(given) < len(self):
            self._wait(lambda: len(self._done) > len(given))
            for name in [name for name in self._done if name not in given]:
                given.add(name)
                yield self._done[name]

    @property
    def failed(self) -> dict[str, BaseException]:
        """The errors of the models that failed, by name; waits for all."""
        return {name: run.error for name, run in self.items() if run.error is not None}

    def __getitem__(self, name: str) -> Run:
        if name not in self._jobs:
            raise KeyError(name)
        self._wait(lambda: name in self._done)
        return self._done[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._jobs)

    def __len__(self) -> int:
        return len(self._jobs)

    def __repr__(self) -> str:
        failed = sum(run.error is not None for run in self._done.values())
        return f"<srmc.Runs: {len(self)} models, {len(self._done)} done, {failed} failed>"

    def _submit(self, name: str, executor: Executor) -> None:
        try:
            future = executor.submit(self._jobs[name])
        except BrokenExecutor:  # by a job before
            future = self._processes().submit(self._jobs[name])
        self._futures[name] = future
        self._running.add(name)
        future.add_done_callback(lambda future: self._ended.put((name, future)))

    def _processes(self) -> Processes:
        """The processes for what a broken pool has lost."""
        self._own = self._own or Processes(self._workers)
        return self._own

    def _wait(self, until: Callable[[], bool]) -> None:
        """Collect runs that have ended until these are enough; Ctrl-C cancels the others."""
        if until():
            return
        try:
            with progress_bar(self._progress and sys.stderr.isatty()) as show:
                while not until():
                    self._take(*self._ended.get())
                    failed = sum(run.error is not None for run in self._done.values())
                    remark = f"{failed} failed" if failed else ""
                    show("models", len(self._done), len(self), remark)
        except KeyboardInterrupt:
            for future in self._futures.values():
                future.cancel()
            raise

    def _take(self, name: str, future: "Future[Result]") -> None:
        """Note how a run ended, or let it run again if it may be another that killed its worker."""
        error = InterruptedError("it was cancelled") if future.cancelled() else future.exception()
        self._running.discard(name)
        if isinstance(error, BrokenExecutor) and not isinstance(error, Lost):
            self._submit(name, self._processes())
        elif type(error).__name__ == "KilledWorker" and name not in self._alone:  # of Dask
            self._alone[name] = False
        else:
            self._done[name] = Run(name, None if error else future.result(), error)
        if self._running:
            return
        if waiting := [name for name, began in self._alone.items() if not began]:
            self._alone[waiting[0]] = True
            self._submit(waiting[0], self._executor)
        elif self._own is not None:
            self._own.shutdown(wait=False)
