"""Executors: this process, or worker processes; a killed worker loses only its own task."""

import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from typing import Any, TypeVar

from srmc.sample.stop import ending_all

T = TypeVar("T")


class Lost(BrokenExecutor):
    """The worker of this task alone was killed."""


class Here(Executor):
    """Runs tasks in this process, one after the other, as they are submitted."""

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
