"""The command line: `srmc sample`, `srmc targets`, `srmc bench`."""

import contextlib
import importlib.util
import json
import os
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import blackjax
import jax
import numpy as np
import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

import srmc
from srmc import _report
from srmc._compare import Comparison, compare
from srmc.bench import overhead as bench_overhead
from srmc.targets import BUILT_IN, Target

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
bench = typer.Typer(no_args_is_help=True, help="Compare with other libraries.")
app.add_typer(bench, name="bench")
console = Console()
complaints = Console(stderr=True)

KernelName = Literal["mh", "ula", "uld", "mala", "hmc", "nuts"]


@app.callback()
def main() -> None:
    """MCMC samplers that remember where they have been."""


@app.command()
def targets() -> None:
    """List the built-in targets."""
    for name, build in BUILT_IN.items():
        console.print(f"[bold]{name:14}[/] {build().about}", highlight=False)


@app.command()
def sample(
    target: Annotated[str, typer.Argument(help="A built-in target, or file.py:name.")],
    kernel: Annotated[KernelName, typer.Option(help="The base kernel.")] = "nuts",
    alpha: Annotated[float, typer.Option(help="Strength of repellence.")] = 3.0,
    chains: Annotated[int, typer.Option(min=1)] = 4,
    warmup: Annotated[int, typer.Option(min=100, help="Steps of adaptation.")] = 1000,
    steps: Annotated[int, typer.Option(min=100, help="Draws a chain.")] = 1000,
    seed: Annotated[int, typer.Option()] = 0,
    step_size: Annotated[float | None, typer.Option(help="Else found in warm-up.")] = None,
    leapfrogs: Annotated[int, typer.Option(min=1, help="Leapfrog steps of HMC.")] = 10,
    surrogate: Annotated[Literal["shift", "tilt"], typer.Option()] = "shift",
    frame: Annotated[
        Literal["moving", "fixed"] | None, typer.Option(help="Moving, unless the target tilts.")
    ] = None,
    history_every: Annotated[int, typer.Option(min=1)] = 1,
    own_histories: Annotated[bool, typer.Option(help="One history a chain.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for draws, summary and plot.")] = Path(
        "srmc-output"
    ),
    x64: Annotated[bool, typer.Option(help="Double precision.")] = False,
) -> None:
    """Run a kernel plain and repelled on a target, and compare them."""
    if x64:
        jax.config.update("jax_enable_x64", True)
    try:
        model = _find_target(target)
        _writable(out)
        with _progress() as show:
            comparison = compare(
                model,
                kernel=kernel,
                alpha=alpha,
                num_chains=chains,
                num_warmup=warmup,
                num_steps=steps,
                seed=seed,
                step_size=step_size,
                leapfrogs=leapfrogs,
                surrogate=surrogate,
                frame=frame,
                history_every=history_every,
                own_histories=own_histories,
                on_progress=show,
            )
    except (ValueError, TypeError) as error:
        _fail(error)
    with complaints.status("moments of the target"):
        truth = model.moments
    base, repelled = comparison.base, comparison.repelled
    summaries = {"base": _report.summarize(base), "repelled": _report.summarize(repelled)}
    for side, seconds in comparison.seconds.items():
        summaries[side]["seconds"] = seconds
    console.print(_report.table(summaries["base"], summaries["repelled"], truth))
    console.print(_report.cost_table(summaries["base"], summaries["repelled"], truth))
    _save(out, comparison, summaries)
    title = f"{model.name}, {kernel}, alpha = {alpha:g}"
    _report.plot(base, repelled, truth, out / "plot.png", title)
    console.print(f"Draws, summary and plot are in [bold]{out}[/].", highlight=False)


@bench.command()
def overhead(
    quick: Annotated[bool, typer.Option(help="Fewer and shorter repeats.")] = False,
    out: Annotated[Path | None, typer.Option(help="A JSON file for the rows.")] = None,
) -> None:
    """Time and compile time of repelled kernels beside BlackJAX's, on a logistic posterior."""
    with _progress() as show:
        size: dict[str, Any] = {"num_steps": 50, "repeats": 3} if quick else {}
        rows = bench_overhead.overhead(**size, on_progress=show)
    console.print(_report.overhead_table(rows))
    if out is not None:
        out.write_text(json.dumps(rows, indent=2) + "\n")


@contextlib.contextmanager
def _progress():
    """A progress bar, as a function of what runs, how far it is, and a remark."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description:9}"),
        BarColumn(),
        TaskProgressColumn(show_speed=True),
        TimeRemainingColumn(elapsed_when_finished=True),
        TextColumn("{task.fields[remark]}"),
    )
    with Progress(*columns, console=complaints) as progress:
        tasks: dict[str, TaskID] = {}

        def show(what: str, done: int, total: int, remark: str = "") -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(what, total=total, remark="")
            progress.update(tasks[what], completed=done, remark=remark)

        yield show


def _find_target(name: str) -> Target:
    if name in BUILT_IN:
        return BUILT_IN[name]()
    file, colon, attribute = name.rpartition(":")
    if not colon or not Path(file).is_file():
        raise ValueError(
            f"target must be one of {', '.join(BUILT_IN)}, or file.py:name, got {name!r}"
        )
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    if spec is None or spec.loader is None:
        raise ValueError(f"target {name!r}: {file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = getattr(module, attribute, None)
    if isinstance(found, Target):
        return found
    if not callable(found):
        raise ValueError(f"target {name!r}: {file} has no function or Target named {attribute!r}")
    if not hasattr(module, "initial_position"):
        raise ValueError(f"target {name!r}: {file} must also define initial_position")
    return Target(attribute, file, found, module.initial_position, lambda: None)  # type: ignore


def _writable(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe = out / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ValueError(f"out must be a folder that can be written, got {out}: {error}") from None


def _save(out: Path, comparison: Comparison, summaries: dict) -> None:
    arrays: dict[str, Any] = {}
    for side, run in (("base", comparison.base), ("repelled", comparison.repelled)):
        for name, x in _report.coordinates(run.draws, 2).items():
            arrays[f"{side}/{name}"] = x
        for name, x in run.stats.items():
            arrays[f"{side}/stats/{name}"] = x
    versions = {"srmc": srmc.__version__, "jax": jax.__version__, "blackjax": blackjax.__version__}
    record = {"settings": comparison.settings, "versions": versions, **summaries}
    np.savez(out / "draws.npz", **arrays)
    (out / "summary.json").write_text(json.dumps(record, indent=2) + "\n")


def _fail(error: Exception) -> NoReturn:
    complaints.print(f"[bold red]error:[/] {error}", highlight=False)
    raise typer.Exit(2)
