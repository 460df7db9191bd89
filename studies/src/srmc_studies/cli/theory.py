"""`srmc theory`: the limit theorem compared with simulation."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from srmc.cli import check_writable, console, fail, find_model, progress_bar, write_whole
from srmc.targets import Target


def theory(
    target: Annotated[str, typer.Argument(help="A built-in continuous target.")],
    replicates: Annotated[int, typer.Option(min=2)] = 128,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    quick: Annotated[bool, typer.Option(help="Two alphas, few and short runs.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for numbers and picture.")] = Path(
        "srmc-output"
    ),
) -> None:
    """Predictions of the limit theorem for MALA on a target, compared with simulation."""
    from srmc.results.look import look, save
    from srmc_studies.bench import tables
    from srmc_studies.bench.theory import laws, plot

    try:
        found = find_model(target)[0].model
        if not isinstance(found, Target) or found.space is not None:
            raise ValueError(f"target must be a built-in continuous one, got {target!r}")
        check_writable("out", out)
        with progress_bar() as show_progress:
            record = laws(
                found, replicates=replicates, seed=seed, quick=quick, on_progress=show_progress
            )
    except (ValueError, OSError) as error:
        fail(error)
    with look():
        figure = plot(record)
    (out / "theory.json").write_text(json.dumps(record, indent=2) + "\n")
    write_whole(out / "theory.png", lambda p: save(figure, p))
    console.print(tables.theory_table(record))
    console.print(f"Numbers and picture are in [bold]{escape(str(out))}[/].")
