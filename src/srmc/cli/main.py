"""The command line: `srmc sample`, `show`, `targets`, `theory`, `bench`, `reproduce`."""

import contextlib
import importlib.util
import json
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import jax
import typer
from jax.extend.backend import clear_backends
from rich.markup import escape

import srmc
from srmc._progress import progress_bar
from srmc.bench import _tables
from srmc.bench import theory as bench_theory
from srmc.cli.bench import bench
from srmc.cli.reproduce import reproduce
from srmc.cli.terminal import complaints, console, fail
from srmc.results import tables as _report
from srmc.store.files import check_writable, write_whole
from srmc.targets import BUILT_IN, Moments, Target

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.add_typer(bench, name="bench")
app.command()(reproduce)

# What does not belong into the file that repeats a run.
LEFT_OUT = ("config", "as_json", "checkpoint", "resume")
KernelName = Literal[
    "mh",
    "ula",
    "uld",
    "mala",
    "hmc",
    "jittered_hmc",
    "nuts",
    "gwg",
    "dlp",
    "gibbs",
    "flip_mh",
    "locally_balanced",
]


@app.callback()
def main() -> None:
    """MCMC samplers that remember where they have been."""


@app.command()
def targets() -> None:
    """List the built-in targets."""
    for name, build in BUILT_IN.items():
        console.print(f"[bold]{name:14}[/] {build().about}", highlight=False)


def _from_config(context: typer.Context, file: Path | None) -> Path | None:
    """Take a file's settings as defaults; those on the command line come first."""
    if file is None:
        return None
    try:
        settings = tomllib.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"{file} is not a TOML file: {error}") from None
    known = {p.name for p in context.command.params}
    wrong = [key for key in settings if key not in known - {"config"}]
    if wrong:
        raise typer.BadParameter(f"{file} has {', '.join(wrong)}, which srmc sample has not")
    context.default_map = settings
    return file


@app.command()
def sample(
    target: Annotated[str, typer.Argument(help="A built-in target, or file.py:name.")],
    kernel: Annotated[
        KernelName | None, typer.Option(help="The base kernel: nuts, or gwg on a discrete space.")
    ] = None,
    alpha: Annotated[str, typer.Option(help="Strength of repellence: a number, or auto.")] = "auto",
    chains: Annotated[int, typer.Option(min=1)] = 4,
    warmup: Annotated[int, typer.Option(min=100, help="Steps of warm-up.")] = 1000,
    steps: Annotated[int, typer.Option(min=1, help="Steps a chain.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1)] = 0,
    step_size: Annotated[float | None, typer.Option(help="Else found in warm-up.")] = None,
    leapfrogs: Annotated[
        int | None, typer.Option(min=1, help="Leapfrog steps of HMC; 10 if not given.")
    ] = None,
    own_histories: Annotated[bool, typer.Option(help="One history a chain.")] = False,
    thin: Annotated[int, typer.Option(min=1, help="Keep every so many-th draw.")] = 1,
    keep: Annotated[
        Literal["draws", "moments", "covariance"], typer.Option(help="What to keep of the run.")
    ] = "draws",
    base: Annotated[bool, typer.Option(help="Keep the plain kernel's draws beside.")] = True,
    checkpoint: Annotated[
        Path | None, typer.Option(help="A folder that the run can be resumed from.")
    ] = None,
    resume: Annotated[bool, typer.Option(help="Go on with the run in the checkpoint.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for result, plot and settings.")] = Path(
        "srmc-output"
    ),
    x64: Annotated[bool, typer.Option(help="Double precision.")] = False,
    distributed: Annotated[
        bool, typer.Option(help="One of several processes, as jax.distributed finds them.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the summary as JSON, and nothing else.")
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(callback=_from_config, is_eager=True, help="A TOML file of these options."),
    ] = None,
) -> None:
    """Sample from a target; leave draws, a summary, a plot, and the settings that repeat it."""
    given = {k: v for k, v in locals().items() if k not in LEFT_OUT}
    if x64:
        jax.config.update("jax_enable_x64", True)
    try:
        if distributed:
            clear_backends()  # BlackJAX starts one when it is imported
            jax.distributed.initialize()
        found = _find_target(target)
        check_writable("out", out)
        result = srmc.sample(
            **found,
            kernel=kernel,
            alpha=_number_or_auto(alpha),
            num_chains=chains,
            num_warmup=warmup,
            num_samples=steps,
            seed=seed,
            step_size=step_size,
            num_integration_steps=leapfrogs,
            shared_history=not own_histories,
            thin=thin,
            keep=keep,
            base=base and _is_continuous(found),
            checkpoint=checkpoint,
            resume=resume,
            progress=not as_json,
        )
    except (ValueError, TypeError, ImportError) as error:
        with contextlib.suppress(OSError):
            out.rmdir()  # which takes an empty folder only
        fail(error)
    except OSError as error:
        fail(error, code=1)
    except KeyboardInterrupt:
        complaints.print("Interrupted before there was anything to keep.")
        raise typer.Exit(130) from None
    if jax.process_index() > 0:
        return
    try:
        _save(result, out, given)
    except OSError as error:
        elsewhere = Path(tempfile.mkdtemp(prefix="srmc-"))
        complaints.print(f"[bold yellow]warning:[/] {escape(str(error))}", highlight=False)
        complaints.print(f"{out} cannot take the result; it goes to {elsewhere}.", highlight=False)
        out = elsewhere
        try:
            _save(result, out, given)
        except OSError as again:
            complaints.print(_report.estimates(result))
            fail(again, code=1)
    _show(result, _truth(found["model"]), as_json)
    if not as_json:
        console.print(f"Result, plot and settings are in [bold]{escape(str(out))}[/].")
    if result.interrupted:
        complaints.print("Interrupted: the result holds what was drawn by then.")
        raise typer.Exit(130)


def _is_continuous(found: dict[str, Any]) -> bool:
    return getattr(found["model"], "space", found.get("space")) is None


@app.command()
def show(
    result: Annotated[Path, typer.Argument(help="A result.nc, or a folder with one.")],
    plot: Annotated[Path | None, typer.Option(help="A PNG file to plot to.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show a result that was saved."""
    try:
        found = srmc.load(result / "result.nc" if result.is_dir() else result)
        if plot is not None:
            write_whole(plot, lambda p: found.plot(p))
    except (ValueError, OSError) as error:
        fail(error)
    _show(found, None, as_json)


@app.command()
def theory(
    target: Annotated[str, typer.Argument(help="A built-in continuous target.")],
    replicates: Annotated[int, typer.Option(min=2)] = 128,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    quick: Annotated[bool, typer.Option(help="Two alphas, few and short runs.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for numbers and picture.")] = Path(
        "srmc-output"
    ),
) -> None:
    """What the limit theorem predicts for MALA on a target, beside simulation."""
    try:
        found = _find_target(target)["model"]
        if not isinstance(found, Target) or found.space is not None:
            raise ValueError(f"target must be a built-in continuous one, got {target!r}")
        check_writable("out", out)
        with progress_bar() as show_progress:
            record = bench_theory.laws(
                found, replicates=replicates, seed=seed, quick=quick, on_progress=show_progress
            )
    except (ValueError, OSError) as error:
        fail(error)
    figure = bench_theory.plot(record)
    (out / "theory.json").write_text(json.dumps(record, indent=2) + "\n")
    write_whole(out / "theory.png", lambda p: figure.savefig(p, dpi=110))
    console.print(_tables.theory_table(record))
    console.print(f"Numbers and picture are in [bold]{escape(str(out))}[/].")


def _save(result: srmc.Result, out: Path, given: dict[str, Any]) -> None:
    result.save(out / "result.nc")
    write_whole(out / "run.toml", lambda p: p.write_text(_toml(given)))
    write_whole(out / "plot.png", lambda p: result.plot(p))


def _show(result: srmc.Result, truth: Moments | None, as_json: bool) -> None:
    if as_json:
        typer.echo(_report.as_json(result, truth))
        return
    console.print(_report.estimates(result, truth))
    console.print(_report.facts_table(_report.facts(result, truth)))


def _find_target(name: str) -> dict[str, Any]:
    """The keywords of `srmc.sample` that say what to sample."""
    if name in BUILT_IN:
        return {"model": BUILT_IN[name]()}
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
    if not hasattr(module, attribute):
        raise ValueError(f"target {name!r}: {file} has nothing named {attribute!r}")
    named = ("initial_position", "data", "space", "differences")
    options = {k: getattr(module, k) for k in named if hasattr(module, k)}
    return {"model": getattr(module, attribute), **options}


def _truth(model: Any) -> Moments | None:
    if not isinstance(model, Target):
        return None
    with complaints.status("moments of the target"):
        return model.moments


def _number_or_auto(alpha: str) -> float | str:
    try:
        return float(alpha)
    except ValueError:
        if alpha != "auto":
            raise ValueError(f"alpha must be a number or auto, got {alpha!r}") from None
        return alpha


def _toml(settings: dict[str, Any]) -> str:
    """Settings as TOML, whose strings, numbers and booleans are those of JSON."""
    plain = {k: str(v) if isinstance(v, Path) else v for k, v in settings.items() if v is not None}
    return "".join(f"{k} = {json.dumps(v)}\n" for k, v in plain.items())
