"""`srmc train NAME`: train a network of the paper's experiments on images."""

from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from srmc.cli import check_writable, console, fail, progress_bar


def train(
    name: Annotated[str, typer.Argument(help="mnist-ebm, mnist-classifier, cifar-ebm, ...")],
    iterations: Annotated[int | None, typer.Option(min=1, help="Fewer or more than usual.")] = None,
    resume: Annotated[bool, typer.Option(help="Go on from the checkpoint in the folder.")] = False,
    out: Annotated[Path, typer.Option(help="Folder of weights, card and checkpoint.")] = Path(
        "srmc-output/weights"
    ),
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1)] = 0,
) -> None:
    """Train an energy-based model or a classifier; write its weights and a card of its quality.

    The quality is compared with that on the card of the shipped weights.
    """
    try:
        from srmc_studies.paper.ebm import networks, recipes, training
    except ModuleNotFoundError as error:
        fail(ValueError(f"{name} needs more packages ({error}): pip install srmc-studies"))
    try:
        check_writable("out", out)
        with progress_bar() as show:
            task, length = recipes.recipe(name, iterations, seed, show)
            model, card = training.train(
                name, task, length, out, seed=seed, resume=resume, on_progress=show
            )
    except (ValueError, OSError) as error:
        fail(error)
    networks.save(out, name, model, card)
    console.print_json(data=card)
    table = Table(name, "this run", "shipped", box=SIMPLE_HEAD)
    for row in networks.beside_shipped(name, model, card):
        table.add_row(*row)
    console.print(table)
    console.print(f"Weights and card are in [bold]{escape(str(out))}[/].")
