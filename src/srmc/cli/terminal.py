"""Where the command line prints, and how it reports errors."""

import traceback
from pathlib import Path
from typing import NoReturn

import typer
from rich.console import Console
from rich.markup import escape

import srmc

console = Console()
complaints = Console(stderr=True)


def fail(error: Exception, code: int = 2) -> NoReturn:
    """Report an error and exit; errors raised outside of srmc are shown with their traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = Path(srmc.__file__).parent
    if frames and ours not in Path(frames[-1].filename).parents:
        text = "".join(traceback.format_exception(error))
        complaints.print(text, markup=False, highlight=False, soft_wrap=True)
    complaints.print(f"[bold red]error:[/] {escape(str(error))}", highlight=False)
    raise typer.Exit(code)
