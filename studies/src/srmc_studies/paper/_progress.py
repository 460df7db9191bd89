"""How an experiment reports its progress."""

from collections.abc import Callable
from typing import Protocol, TypeAlias

OnBlock: TypeAlias = Callable[[int], None]  # is told how many blocks are done


class Progress(Protocol):
    """Receives the name of what is running, the amount done, the total, and a remark."""

    def __call__(self, what: str, done: int, total: int | None, remark: str = "", /) -> None: ...


def silent(what: str, done: int, total: int | None, remark: str = "", /) -> None:
    """Report nothing."""


def no_report(num_blocks: int) -> None:
    """Report nothing after a block."""


def counter(
    on_progress: Progress, what: str, total: int, *, done: int = 0, remark: str = ""
) -> OnBlock:
    """Count the blocks of one part of an experiment, which begins when `done` of `total` are done.

    >>> counter(print, "rho", 40, done=20, remark="hmc")(1)
    rho 21 40 hmc
    """

    def on_block(num_blocks: int) -> None:
        on_progress(what, done + num_blocks, total, remark)

    return on_block


def later(on_block: OnBlock, done: int) -> OnBlock:
    """Continue a count of which `done` blocks are done."""

    def on_later_block(num_blocks: int) -> None:
        on_block(done + num_blocks)

    return on_later_block
