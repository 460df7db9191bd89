"""`srmc reproduce NAME`: run experiments of the paper, and build the report."""

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from srmc.cli import check_writable, console, ending_all, fail, progress_bar


def reproduce(
    name: Annotated[
        str, typer.Argument(help="Experiment name; `all`; or `ledger` to rebuild only the report.")
    ],
    quick: Annotated[
        bool, typer.Option("--quick/--full", help="Minutes for all, or hours of one core.")
    ] = True,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the report; docs/reproduction if full, else in srmc-output."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1)] = 0,
) -> None:
    """Repeat an experiment of the paper; write numbers, pictures, the ledger and a page."""
    # Importing the experiments takes longer than most commands do.
    from srmc_studies.paper import EXPERIMENTS, _claims, _report

    if name not in ("all", "ledger", *EXPERIMENTS):
        fail(ValueError(f"NAME must be all, ledger, {', '.join(EXPERIMENTS)}, got {name!r}"))
    size = "quick" if quick else "full"
    out = out or Path("srmc-output/reproduction" if quick else "docs/reproduction")
    try:
        check_writable("out", out)
    except ValueError as error:
        fail(error)
    chosen = {"all": list(EXPERIMENTS), "ledger": []}.get(name, [name])
    with ending_all(), progress_bar() as show:
        for each in chosen:
            began = time.perf_counter()
            try:
                outcome = EXPERIMENTS[each](size, seed, show)
            except ModuleNotFoundError as error:
                fail(ValueError(f"{each} needs more packages ({error}): pip install srmc-studies"))
            _report.write(out, each, outcome, size, seed, time.perf_counter() - began)
            _report.build(out, list(EXPERIMENTS))
    try:
        rows = _report.build(out, list(EXPERIMENTS))
    except FileNotFoundError as error:
        fail(error)
    table = Table("claim", "verdict", "readings", box=SIMPLE_HEAD)
    for claim in _claims.claims(rows):
        table.add_row(escape(claim.text), claim.verdict, escape(claim.readings))
    console.print(table)
    console.print(f"The report is [bold]{out / 'index.html'}[/].")
