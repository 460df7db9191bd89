"""Progress on the terminal: how far, how fast, how long still, and how the chains do."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Console
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

Show = Callable[..., None]


@contextlib.contextmanager
def progress_bar(shown: bool = True) -> Iterator[Show]:
    """One bar per phase: `show(what, done, total, remark)` moves the bar of `what`.

    A phase whose total is None pulses until it is told to be done.
    """
    columns: tuple[Any, ...] = (
        SpinnerColumn(),
        TextColumn("{task.description:9}"),
        BarColumn(bar_width=30),
        TaskProgressColumn(show_speed=True),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[remark]}"),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not shown, refresh_per_second=5) as progress:
        tasks: dict[str, TaskID] = {}

        def show(what: str, done: int, total: int | None, remark: str = "") -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(what, total=total, remark="")
            progress.update(tasks[what], completed=done, total=total, remark=remark)

        yield show
