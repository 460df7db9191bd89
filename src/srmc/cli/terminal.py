"""Where the command line prints, and how it reports errors."""

import sysconfig
import traceback
from pathlib import Path
from typing import NoReturn

import typer
from rich.console import Console
from rich.markup import escape

import srmc
from srmc._checks import printable

OURS = Path(srmc.__file__).parent
console = Console()
complaints = Console(stderr=True)


def caution(told: list[str]) -> None:
    """Print warnings."""
    for text in told:
        complaints.print(f"[bold yellow]warning:[/] {escape(printable(text))}", highlight=False)


def fail(error: Exception, code: int = 2) -> NoReturn:
    """Report an error and exit; with the lines of the user's own code that led to it, if any did.

    An error that was raised neither there nor in srmc is shown with its whole traceback.
    """
    frames = traceback.extract_tb(error.__traceback__)
    if frames and not _is_in(frames[-1], OURS):
        own = _of_the_user(frames)
        text = traceback.format_list(own) if own else traceback.format_exception(error)
        if isinstance(error, SyntaxError):
            text = traceback.format_exception_only(error)
        complaints.print("".join(text), end="", markup=False, highlight=False, soft_wrap=True)
    what = (
        "" if isinstance(error, ValueError | TypeError | OSError) else type(error).__name__ + ": "
    )
    said = escape(printable(str(error)))  # which may quote a file
    complaints.print(f"[bold red]error:[/] {what}{said}", highlight=False)
    raise typer.Exit(code)


def _of_the_user(frames: traceback.StackSummary) -> list[traceback.FrameSummary]:
    """The frames of what srmc called that are in no library."""
    first = next((n for n, frame in enumerate(frames) if _is_in(frame, OURS)), len(frames))
    libraries = [Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib")]
    return [
        frame
        for frame in frames[first:]
        if not frame.filename.startswith("<") and not _is_in(frame, OURS, *libraries)
    ]


def _is_in(frame: traceback.FrameSummary, *folders: Path) -> bool:
    return any(folder in Path(frame.filename).parents for folder in folders)
