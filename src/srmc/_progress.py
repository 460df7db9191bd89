"""Progress bars on the terminal, with speed, remaining time and a remark on the chains."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

Show = Callable[..., None]


@contextlib.contextmanager
def progress_bar(shown: bool = True) -> Iterator[Show]:
    """One bar per phase: `show(what, done, total, remark)` moves the bar of `what`.

    The bar of a phase whose total is None pulses until the total is given.
    """
    if not shown:
        yield quiet
        return
    from rich.console import Console  # which takes a while, and is not needed without a bar
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
    console = Console(stderr=True)
    with Progress(*columns, console=console, refresh_per_second=5) as progress:
        tasks: dict[str, TaskID] = {}

        def show(what: str, done: int, total: int | None, remark: str = "") -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(what, total=total, remark="")
            progress.update(tasks[what], completed=done, total=total, remark=remark)

        yield show


def quiet(what: str, done: int, total: int | None, remark: str = "") -> None:
    """Show nothing."""
