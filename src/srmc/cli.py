"""The command line: `srmc sample`, `srmc targets`, `srmc bench`."""

import contextlib
import importlib.util
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import blackjax
import jax
import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
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
from srmc.bench import noharm as bench_noharm
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
    alpha: Annotated[str, typer.Option(help="Strength of repellence: a number, or auto.")] = "auto",
    chains: Annotated[int, typer.Option(min=1)] = 4,
    warmup: Annotated[int, typer.Option(min=100, help="Steps of adaptation.")] = 1000,
    steps: Annotated[int, typer.Option(min=100, help="Draws a chain.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1)] = 0,
    step_size: Annotated[float | None, typer.Option(help="Else found in warm-up.")] = None,
    leapfrogs: Annotated[
        int | None, typer.Option(min=1, help="Leapfrog steps of HMC; 10 if not given.")
    ] = None,
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
                alpha=_number_or_auto(alpha),
                num_chains=chains,
                num_warmup=warmup,
                num_steps=steps,
                seed=seed,
                step_size=step_size,
                leapfrogs=leapfrogs,
                own_histories=own_histories,
                on_progress=show,
            )
    except (ValueError, TypeError) as error:
        with contextlib.suppress(OSError):
            out.rmdir()  # which takes an empty folder only
        _fail(error)
    except KeyboardInterrupt:
        complaints.print("Interrupted before there was anything to compare.")
        raise typer.Exit(130) from None
    base, repelled = comparison.base, comparison.repelled
    summaries = {"base": _report.summarize(base), "repelled": _report.summarize(repelled)}
    for side, seconds in comparison.seconds.items():
        summaries[side]["seconds"] = seconds
    _save(out, comparison, summaries, {"target": target, "x64": x64})
    with complaints.status("moments of the target"):
        truth = model.moments
    console.print(_report.table(summaries["base"], summaries["repelled"], truth))
    console.print(_report.cost_table(summaries["base"], summaries["repelled"], truth))
    title = f"{model.name}, {kernel}, alpha = {alpha}"
    _report.plot(base, repelled, truth, out / "plot.png", title)
    console.print(f"Draws, summary and plot are in [bold]{escape(str(out))}[/].", highlight=False)
    if 2 * summaries["repelled"]["non_finite_steps"] > repelled.stats["is_finite"].size:
        complaints.print(
            "[bold yellow]warning:[/] most steps of the repelled run were refused; "
            "its draws are those of the base kernel there."
        )
    if repelled.interrupted:
        complaints.print("Interrupted: both runs are cut to what the repelled one had drawn.")
        raise typer.Exit(130)


@bench.command()
def overhead(
    quick: Annotated[bool, typer.Option(help="Fewer and shorter repeats.")] = False,
    out: Annotated[Path | None, typer.Option(help="A JSON file for the rows.")] = None,
) -> None:
    """Time and compile time of repelled kernels beside BlackJAX's, on a logistic posterior."""
    if out is not None and not out.parent.is_dir():
        _fail(ValueError(f"out must be a file in an existing folder, got {out}"))
    with _progress() as show:
        size: dict[str, Any] = {"num_steps": 50, "repeats": 3} if quick else {}
        rows = bench_overhead.overhead(**size, on_progress=show)
    console.print(_report.overhead_table(rows))
    if out is not None:
        out.write_text(json.dumps(rows, indent=2) + "\n")


@bench.command()
def noharm(
    target: Annotated[list[str] | None, typer.Option(help="Some targets, not all.")] = None,
    kernel: Annotated[list[str] | None, typer.Option(help="Some kernels, not all.")] = None,
    chains: Annotated[int, typer.Option(min=1, help="Chains that share a history.")] = 1,
    alpha: Annotated[
        list[float] | None,
        typer.Option(min=0, help="Fixed strengths, dealt out to the replicates."),
    ] = None,
    replicates: Annotated[int, typer.Option(min=2)] = 64,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    quick: Annotated[bool, typer.Option(help="Two targets and kernels, short runs.")] = False,
    out: Annotated[Path | None, typer.Option(help="A JSON file for the rows.")] = None,
) -> None:
    """Errors of repelled over plain kernels, at equal cost, on many targets."""
    if out is not None and not out.parent.is_dir():
        _fail(ValueError(f"out must be a file in an existing folder, got {out}"))
    try:
        with _progress() as show:
            rows = bench_noharm.noharm(
                target,
                kernel,
                chains=chains,
                alpha=alpha or "auto",
                replicates=replicates,
                seed=seed,
                quick=quick,
                on_progress=show,
            )
    except ValueError as error:
        _fail(error)
    console.print(_report.noharm_table(rows))
    if out is not None:
        out.write_text(json.dumps(rows, indent=2) + "\n")


@bench.command()
def page(
    rows: Annotated[list[Path], typer.Argument(help="JSON files of `srmc bench noharm`.")],
    out: Annotated[Path, typer.Option(help="A Markdown file.")],
) -> None:
    """Tables of `srmc bench noharm` as a page."""
    found = []
    for path in rows:
        try:
            found += json.loads(path.read_text())
        except (OSError, ValueError) as error:
            _fail(ValueError(f"rows must be files of srmc bench noharm, got {path}: {error}"))
    head = (
        "# Errors of repelled over plain kernels\n\nMade by `srmc bench page`; see tuning.md.\n\n"
    )
    out.write_text(head + _report.noharm_page(found))


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
    sys.modules[spec.name] = module
    sys.path.insert(0, str(Path(file).parent))
    spec.loader.exec_module(module)
    found = getattr(module, attribute, None)
    if isinstance(found, Target):
        return found
    if not callable(found):
        raise ValueError(f"target {name!r}: {file} has no function or Target named {attribute!r}")
    if not hasattr(module, "initial_position"):
        raise ValueError(f"target {name!r}: {file} must also define initial_position")
    return Target(attribute, file, found, module.initial_position)


def _number_or_auto(alpha: str) -> float | str:
    try:
        return float(alpha)
    except ValueError:
        if alpha != "auto":
            raise ValueError(f"alpha must be a number or auto, got {alpha!r}") from None
        return alpha


def _writable(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe = out / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ValueError(f"out must be a folder that can be written, got {out}: {error}") from None


def _save(out: Path, comparison: Comparison, summaries: dict, call: dict[str, Any]) -> None:
    arrays: dict[str, Any] = {}
    for side, run in (("base", comparison.base), ("repelled", comparison.repelled)):
        for name, x in _report.leaves(run.draws).items():
            arrays[f"{side}/{name}"] = x
        for name, x in run.stats.items():
            arrays[f"{side}/stats/{name}"] = x
    versions = {"srmc": srmc.__version__, "jax": jax.__version__, "blackjax": blackjax.__version__}
    record = {"settings": comparison.settings | call, "versions": versions, **summaries}
    np.savez(out / "draws.npz", **arrays)
    (out / "summary.json").write_text(json.dumps(record, indent=2) + "\n")


def _fail(error: Exception) -> NoReturn:
    """Report what was wrong with the call; what no check of ours raised keeps its traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = Path(srmc.__file__).parent
    if frames and ours not in Path(frames[-1].filename).parents:
        text = "".join(traceback.format_exception(error))
        complaints.print(text, markup=False, highlight=False, soft_wrap=True)
    complaints.print(f"[bold red]error:[/] {escape(str(error))}", highlight=False)
    raise typer.Exit(2)
