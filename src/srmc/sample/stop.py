"""Ctrl-C and SIGTERM end a run in order, in all processes at once."""

import atexit
import contextlib
import contextvars
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

import jax

from srmc.sample.devices import of_all
from srmc.types import PyTree

SECONDS_AT_EXIT = 1.0  # time for which the exit of Python waits for an abandoned program


class Stop:
    """Whether a signal has asked the run to stop.

    at_once
        Whether the next signal raises KeyboardInterrupt wherever the program is; otherwise the
        first one is a request, and the second one raises.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self.at_once = False

    def ask(self, number: int, frame: FrameType | None = None) -> None:
        """Take note of a signal."""
        again, self.signal = self.signal is not None, number
        if again or self.at_once:
            raise KeyboardInterrupt

    def agree(self, *flags: bool) -> list[bool]:
        """Which flags are set in some process; a signal to one process is a signal to all."""
        asked, *answers = of_all([self.signal is not None, *flags]).T
        if asked.any() and self.signal is None:
            self.signal = signal.SIGTERM
        return [bool(answer.any()) for answer in answers]

    def show(self, *_: Any) -> None:
        """In place of showing progress, raise KeyboardInterrupt."""
        raise KeyboardInterrupt("the run was stopped")

    def wait_for(self, tree: PyTree[jax.Array]) -> None:
        """Wait until arrays are computed; raise KeyboardInterrupt in all processes if one is asked.

        While Python waits inside of JAX, it does not notice signals. Several processes agree when
        their devices are free; a second signal does not wait for that.
        """
        leaves: list[Any] = [x for x in jax.tree.leaves(tree) if isinstance(x, jax.Array)]
        alone, pause = jax.process_count() == 1, 0.001
        try:
            while not ((self.signal and alone) or all(x.is_ready() for x in leaves)):
                time.sleep(pause)
                pause = min(2 * pause, 0.1)
            if of_all(self.signal is not None).any():
                raise KeyboardInterrupt
        except KeyboardInterrupt:
            self.signal = self.signal or signal.SIGTERM
            if not _left:
                atexit.register(_leave)
            _left.append((self.signal, leaves))
            raise


@contextlib.contextmanager
def stops() -> Iterator[Stop]:
    """Turn Ctrl-C and SIGTERM into requests to stop, in the main thread."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {n: signal.signal(n, stop.ask) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            # A handler that was not set from Python, such as JAX's for SIGTERM, is not known.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
    if stop.signal is not None and _ends_all.get():
        raise KeyboardInterrupt


_ends_all = contextvars.ContextVar("ends_all", default=False)


@contextlib.contextmanager
def ending_all() -> Iterator[None]:
    """Inside, a signal that stops a run also ends the study that the run is part of."""
    token = _ends_all.set(True)
    try:
        yield
    finally:
        _ends_all.reset(token)


_left: list[tuple[int, list[Any]]] = []  # signals, and what was then being computed


def _leave() -> None:
    """End the process with the signal it received if an abandoned program is still running.

    A program of XLA cannot be interrupted, and the exit of Python would wait for its end.
    """
    end = time.monotonic() + SECONDS_AT_EXIT
    running = [(n, x) for n, leaves in _left for x in leaves if not x.is_deleted()]
    while any(not x.is_ready() for _, x in running):
        if time.monotonic() > end:
            sys.stdout.flush()
            sys.stderr.flush()
            if jax.process_count() > 1:
                jax.distributed.shutdown()
            number = running[0][0]
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        time.sleep(0.05)
