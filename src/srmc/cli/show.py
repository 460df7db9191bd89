"""`srmc show` and `srmc targets`: what was saved, and what is built in."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

import srmc
from srmc._files import write_whole
from srmc.cli.terminal import console, fail
from srmc.results import tables
from srmc.targets import BUILT_IN, Moments


def targets() -> None:
    """List the built-in targets."""
    for name, build in BUILT_IN.items():
        try:
            about = build().about
        except ImportError as error:  # data that another package has
            about = str(error)
        console.print(f"[bold]{name:14}[/] {escape(about)}", highlight=False)


def show(
    result: Annotated[Path, typer.Argument(help="A result.nc, or a folder with one.")],
    plot: Annotated[Path | None, typer.Option(help="Write a plot to this PNG file.")] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write the page of the run to this HTML file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show a saved result."""
    try:
        found = srmc.load(result / "result.nc" if result.is_dir() else result)
        if plot is not None:
            write_whole(plot, lambda p: found.plot(p))
        if report is not None:
            found.report(report)
    except (ValueError, OSError) as error:
        fail(error)
    print_result(found, None, as_json)


def print_result(result: srmc.Result, truth: Moments | None, as_json: bool) -> None:
    """Print estimates and facts, as tables or as JSON."""
    if as_json:
        typer.echo(tables.as_json(result, truth))
        return
    for text in result.warnings:
        console.print(f"[bold yellow]warning:[/] {escape(text)}", highlight=False)
    console.print(tables.estimates(result, truth))
    console.print(tables.facts_table(tables.facts(result, truth)))
    if result.is_rebalanced:
        said = tables.gain_in_words(srmc.summary(result, kind="short"))
        console.print(f"{said}\n", highlight=False)
