"""`srmc reproduce NAME`: run experiments of the paper, and build the report."""

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from srmc._progress import progress_bar
from srmc.cli.terminal import console, fail
from srmc.store.files import check_writable


def reproduce(
    name: Annotated[str, typer.Argument(help="An experiment, or all.")],
    quick: Annotated[
        bool, typer.Option("--quick/--full", help="Minutes for all, or an hour of one core.")
    ] = True,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the report; docs/reproduction if full, else in srmc-output."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1)] = 0,
) -> None:
    """Repeat an experiment of the paper; write numbers, pictures, the ledger and a page."""
    # Importing the experiments takes longer than most commands do.
    from srmc.paper import EXPERIMENTS, _report

    if name != "all" and name not in EXPERIMENTS:
        fail(ValueError(f"NAME must be all, {', '.join(EXPERIMENTS)}, got {name!r}"))
    size = "quick" if quick else "full"
    out = out or Path("srmc-output/reproduction" if quick else "docs/reproduction")
    try:
        check_writable("out", out)
    except ValueError as error:
        fail(error)
    with progress_bar() as show:
        for each in EXPERIMENTS if name == "all" else [name]:
            began = time.perf_counter()
            try:
                outcome = EXPERIMENTS[each](size, seed, show)
            except ModuleNotFoundError as error:
                fail(
                    ValueError(f"{each} needs more packages ({error}): pip install 'srmc[images]'")
                )
            _report.write(out, each, outcome, size, seed, time.perf_counter() - began)
            rows = _report.build(out, list(EXPERIMENTS))
    table = Table("experiment", "claim", "verdict", box=SIMPLE_HEAD)
    for row in rows:
        table.add_row(row["experiment"], row["claim"], row["verdict"])
    console.print(table)
    console.print(f"The report is [bold]{out / 'index.html'}[/].")
