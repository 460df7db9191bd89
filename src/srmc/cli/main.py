"""The `srmc` command and its subcommands."""

import functools
import os
from importlib.metadata import entry_points, version
from typing import Annotated

import typer

import srmc
from srmc._programs import keep_programs
from srmc.cli.sample import sample
from srmc.cli.show import improve, show, targets
from srmc.cli.terminal import fail

# Commands of the package srmc-studies, and what they do.
STUDIES = {
    "bench": "Compare with plain kernels and other libraries.",
    "reproduce": "Repeat an experiment of the paper.",
    "theory": "Predictions of the limit theorem, compared with simulation.",
    "train": "Train a network of the paper's experiments on images.",
}

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
for _command in (improve, sample, show, targets):
    app.command()(_command)


@functools.cache
def command() -> typer.Typer:
    """The command, with the commands that other packages declare, or hints at the studies."""
    found = {point.name: point for point in entry_points(group="srmc.commands")}
    for name, text in STUDIES.items():
        if name not in found:
            _add_hint(name, text)
    for name, point in found.items():
        loaded = point.load()
        if isinstance(loaded, typer.Typer):
            app.add_typer(loaded, name=name)
        else:
            app.command(name)(loaded)
    return app


def run() -> None:
    command()()


def _add_hint(name: str, text: str) -> None:
    @app.command(
        name,
        help=f"{text} Needs srmc-studies.",
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )
    def missing(context: typer.Context) -> None:
        fail(ModuleNotFoundError(f"srmc {name} needs srmc-studies: pip install srmc-studies"))


def _logs_programs() -> bool:
    """Whether JAX logs a page for each program from the cache, which only the environment stops.

    These lines are errors, and JAX itself sets the variable to 1.
    """
    logged = os.environ.get("TF_CPP_MIN_LOG_LEVEL", "1") in ("0", "1", "2")
    return logged and version("jaxlib").startswith("0.9.")


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"srmc {srmc.__version__}")
        raise typer.Exit


@app.callback()
def main(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Smaller errors from MCMC draws, finished or running."""
    keep_programs(unasked=not _logs_programs())
