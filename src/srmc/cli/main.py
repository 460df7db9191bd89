"""The `srmc` command and its subcommands."""

import typer

from srmc.cli.bench import bench
from srmc.cli.compare import multimodal, posteriors
from srmc.cli.reproduce import reproduce
from srmc.cli.sample import sample
from srmc.cli.show import show, targets
from srmc.cli.theory import theory
from srmc.cli.train import train

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.add_typer(bench, name="bench")
bench.command()(posteriors)
bench.command()(multimodal)
for command in (sample, show, targets, theory, reproduce, train):
    app.command()(command)


@app.callback()
def main() -> None:
    """MCMC samplers that remember where they have been."""
