"""Progress: bars on a terminal, one line that changes in a notebook, words everywhere else."""

import contextlib
import importlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from rich.console import Console

Show = Callable[..., None]
SECONDS = 5.0  # between two lines about one phase, where there is no terminal


@contextlib.contextmanager
def progress_bar(shown: bool = True) -> Iterator[Show]:
    """Show progress by `show(what, done, total, remark)`; each phase `what` has a bar or a line.

    The bar of a phase whose total is None pulses until the total is given.
    """
    if not shown:
        yield quiet
        return
    try:
        from rich.console import Console  # which takes a while, and is not needed without progress
    except ModuleNotFoundError:
        yield _Words()
        return
    console = Console(stderr=True)
    if console.is_jupyter:
        yield _Notebook()
    elif console.is_terminal:
        with _bars(console) as show:
            yield show
    else:
        yield _Words()


@contextlib.contextmanager
def _bars(console: "Console") -> Iterator[Show]:
    from rich.progress import (
        BarColumn,
        Progress,
        SpinnerColumn,
        TaskID,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns: tuple[Any, ...] = (
        SpinnerColumn(),
        TextColumn("{task.description:9}"),
        BarColumn(bar_width=30),
        TaskProgressColumn(show_speed=True),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[remark]}"),
    )
    with Progress(*columns, console=console, refresh_per_second=5) as progress:
        tasks: dict[str, TaskID] = {}

        def show(what: str, done: int, total: int | None, remark: str = "") -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(what, total=total, remark="")
            progress.update(tasks[what], completed=done, total=total, remark=remark)

        yield show


class _Words:
    """A line on stderr when a phase begins, when it ends, and every few seconds."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], float] = {}

    def __call__(self, what: str, done: int, total: int | None, remark: str = "") -> None:
        now, about = time.monotonic(), (what, remark if total is None else "")
        if done != total and now - self._last.get(about, -np.inf) < SECONDS:
            return
        self._last[about] = now
        sys.stderr.write(in_words(what, done, total, remark) + "\n")
        sys.stderr.flush()


class _Notebook:
    """One line below the cell, with what each phase has done; it needs IPython alone."""

    def __init__(self) -> None:
        display = importlib.import_module("IPython.display").display
        self._lines: dict[str, str] = {}
        self._handle: Any = display({"text/plain": ""}, raw=True, display_id=True)

    def __call__(self, what: str, done: int, total: int | None, remark: str = "") -> None:
        self._lines[what] = in_words(what, done, total, remark)
        self._handle.update({"text/plain": "; ".join(self._lines.values())}, raw=True)


def in_words(what: str, done: int, total: int | None, remark: str = "") -> str:
    """The progress of a phase as a line.

    >>> in_words("warm-up", 0, None, "compiling"), in_words("sampling", 250, 1000)
    ('warm-up, compiling', 'sampling 250/1000')
    """
    count = "" if total is None else f" {done}/{total}"
    return f"{what}{count}{', ' if remark else ''}{remark}"


def quiet(what: str, done: int, total: int | None, remark: str = "") -> None:
    """Show nothing."""
