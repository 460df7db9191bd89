"""The `srmc` command and its subcommands."""

from typing import Annotated

import typer

import srmc
from srmc._programs import keep_programs
from srmc.cli.bench import bench
from srmc.cli.compare import calibration, clock, gallery, multimodal, posteriors, streaming
from srmc.cli.reproduce import reproduce
from srmc.cli.sample import sample
from srmc.cli.show import show, targets
from srmc.cli.theory import theory
from srmc.cli.train import train

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.add_typer(bench, name="bench")
for comparison in (posteriors, multimodal, streaming, calibration, clock, gallery):
    bench.command()(comparison)
for command in (sample, show, targets, theory, reproduce, train):
    app.command()(command)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"srmc {srmc.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """MCMC samplers that remember where they have been."""
    keep_programs(unasked=True)
