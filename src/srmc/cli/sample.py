"""`srmc sample`: from a target to a result, its page, and the settings that repeat the run."""

import contextlib
import itertools
import json
import shlex
import tempfile
import tomllib
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import jax
import typer
from jax.extend.backend import clear_backends
from rich.markup import escape

import srmc
from srmc._attempt import attempt
from srmc._files import SEAL, check_seal, check_writable, seal, write_whole
from srmc.cli.show import print_result
from srmc.cli.terminal import caution, complaints, console, fail, find_model, truth_of
from srmc.results import tables
from srmc.sample.tune.kernels import KERNELS

SEALED = "# The last line is a checksum.\n"  # first line of a file that ends with a checksum
# Options that are left out of the file that repeats a run.
LEFT_OUT = ("context", "config", "as_json", "checkpoint", "resume")
if TYPE_CHECKING:
    KernelName = str
else:
    KernelName = Literal[tuple(KERNELS)]


def _from_config(context: typer.Context, file: Path | None) -> Path | None:
    """Take the settings in a file as defaults, which the command line overrides."""
    if file is None:
        return None
    try:
        check_seal(file, "if it was edited, remove its last line")
        text = file.read_text()
        if text.startswith(SEALED) and not text[-len(SEAL) - 65 :].startswith(SEAL.decode()):
            raise ValueError("its end is missing; if it was edited, remove its first line, too")
        settings = tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"{file} is damaged or not a TOML file: {error}") from None
    known = {p.name for p in context.command.params}
    wrong = [key for key in settings if key not in known - {"config"}]
    if wrong:
        raise typer.BadParameter(f"{file} has {', '.join(wrong)}, which srmc sample has not")
    context.default_map = settings
    return file


def sample(
    context: typer.Context,
    target: Annotated[str, typer.Argument(help="A built-in target, or file.py:name.")],
    kernel: Annotated[
        KernelName | None, typer.Option(help="The base kernel: nuts, or gwg on a discrete space.")
    ] = None,
    alpha: Annotated[str, typer.Option(help="Strength of repellence: a number, or auto.")] = "auto",
    num_chains: Annotated[int, typer.Option(min=1, help="Number of chains.")] = 4,
    num_warmup: Annotated[
        int, typer.Option(min=100, help="Number of warm-up steps per chain.")
    ] = 1000,
    num_samples: Annotated[
        int, typer.Option(min=1, help="Number of sampling steps per chain.")
    ] = 1000,
    target_error: Annotated[
        float | None,
        typer.Option(
            help="Stop when standard errors of means are this small, in standard deviations."
        ),
    ] = None,
    max_samples: Annotated[
        int | None,
        typer.Option(min=1, help="With a target error, the largest number of steps per chain."),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, help="Random seed of the whole run.")
    ] = 0,
    step_size: Annotated[float | None, typer.Option(help="Found in warm-up if not given.")] = None,
    num_integration_steps: Annotated[
        int | None, typer.Option(min=1, help="Leapfrog steps of HMC; 10 if not given.")
    ] = None,
    target_acceptance: Annotated[
        float | None, typer.Option(help="The acceptance rate that sets the step size.")
    ] = None,
    max_tree_depth: Annotated[
        int | None, typer.Option(min=1, help="The largest tree depth of NUTS; 10 if not given.")
    ] = None,
    metric: Annotated[
        Literal["diag", "dense", "low_rank"], typer.Option(help="The metric of HMC and NUTS.")
    ] = "diag",
    shared_history: Annotated[
        bool, typer.Option(help="One history for all chains, or one per chain.")
    ] = True,
    thin: Annotated[int, typer.Option(min=1, help="Keep every thin-th draw.")] = 1,
    keep: Annotated[
        Literal["draws", "moments", "covariance"], typer.Option(help="What to keep.")
    ] = "draws",
    base: Annotated[bool, typer.Option(help="Also keep the draws of the plain kernel.")] = True,
    checkpoint: Annotated[
        Path | None, typer.Option(help="A folder from which the run can be resumed.")
    ] = None,
    resume: Annotated[bool, typer.Option(help="Continue the run in the checkpoint.")] = False,
    out: Annotated[
        Path,
        typer.Option(
            help="Folder for result, page, plot and settings. The default name gets a number if "
            "that folder has a result."
        ),
    ] = Path("srmc-output"),
    x64: Annotated[bool, typer.Option(help="Double precision.")] = False,
    distributed: Annotated[
        bool, typer.Option(help="Run as one of several processes, with jax.distributed.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print only the summary, as JSON.")
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(callback=_from_config, is_eager=True, help="A TOML file of these options."),
    ] = None,
) -> None:
    """Sample a target; write the result, its page, a plot, and settings that repeat the run."""
    given = {k: v for k, v in locals().items() if k not in LEFT_OUT}
    source = context.get_parameter_source("out")
    if not resume and (source is None or source.name != "COMMANDLINE"):
        out = given["out"] = _free(out)
    try:
        model, result = _sampled(given, checkpoint, resume, progress=not as_json)
    except OSError as error:
        fail(error, code=1)
    except KeyboardInterrupt:
        _remove_if_empty(out)
        complaints.print("Interrupted before there was a draw: nothing was saved.")
        raise typer.Exit(130) from None
    except Exception as error:  # of the user's own code, too
        _remove_if_empty(out)
        fail(error)
    if jax.process_index() > 0:
        return
    given["x64"] = bool(result.about["double_precision"])
    result.about["command"] = _command(given)
    out = _saved(result, out, given)
    if not as_json:
        console.print(f"Result, page, plot and settings are in [bold]{escape(str(out))}[/].")
    told: list[str] = []
    attempt(
        "printing the result",
        lambda: print_result(result, truth_of(model), as_json),
        None,
        f"it can be read with srmc.load from {out / 'result.nc'}",
        told,
    )
    caution(told)
    if result.interrupted:
        made = f"{result.about['num_draws']} of {num_samples // thin}"
        again = "" if checkpoint is None else "; --resume goes on with the run"
        complaints.print(
            f"Interrupted: {made} draws per chain were saved in {out}{again}.",
            markup=False,
            highlight=False,
        )
        raise typer.Exit(130)


def _free(out: Path) -> Path:
    """The first of out, out-2, out-3, ... without a result, which is never overwritten unasked."""
    names = itertools.chain([out], (out.with_name(f"{out.name}-{i}") for i in itertools.count(2)))
    return next(name for name in names if not (name / "result.nc").exists())


def _remove_if_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()  # which refuses if there is anything in it


def _sampled(
    given: dict[str, Any], checkpoint: Path | None, resume: bool, progress: bool
) -> tuple[srmc.Model, srmc.Result]:
    """The model that the options name, and the result of the run that they ask for."""
    options = dict(given)
    if options.pop("x64"):
        jax.config.update("jax_enable_x64", True)
    if options.pop("distributed"):
        clear_backends()  # BlackJAX starts one when it is imported
        jax.distributed.initialize()
    model, initial_position = find_model(options.pop("target"))
    check_writable("out", options.pop("out"))
    keep = srmc.Keep(
        keep=options.pop("keep"),
        thin=options.pop("thin"),
        base=options.pop("base") and model.own_space is None,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", srmc.RunWarning)  # the result has them
        result = srmc.sample(
            model,
            **options | {"alpha": _number_or_auto(options["alpha"])},
            initial_position=initial_position,
            keep=keep,
            checkpoint=checkpoint,
            resume=resume,
            progress=progress,
        )
    return model, result


def _saved(result: srmc.Result, out: Path, given: dict[str, Any]) -> Path:
    """Save the result in `out`, or in a temporary folder if that fails; return the folder."""
    try:
        _save(result, out, given)
    except OSError as error:
        elsewhere = Path(tempfile.mkdtemp(prefix="srmc-"))
        caution([str(error)])
        complaints.print(f"{out} cannot take the result; it goes to {elsewhere}.", highlight=False)
        try:
            _save(result, elsewhere, given)
        except OSError as again:
            complaints.print(tables.estimates(result))
            fail(again, code=1)
        return elsewhere
    return out


def _save(result: srmc.Result, out: Path, given: dict[str, Any]) -> None:
    result.save(out / "result.nc")

    def write_settings(path: Path) -> None:
        path.write_text(SEALED + _toml(given))
        seal(path)

    write_whole(out / "run.toml", write_settings)
    told: list[str] = []
    pictures = {
        "the plot": lambda: write_whole(out / "plot.png", lambda p: result.plot(p)),
        "the page": lambda: result.report(out / "run.html"),
    }
    for what, write in pictures.items():
        attempt(what, write, None, "it is missing from the output", told)
    caution(told)


def _number_or_auto(alpha: str) -> float | str:
    try:
        return float(alpha)
    except ValueError:
        if alpha != "auto":
            raise ValueError(f"alpha must be a number or auto, got {alpha!r}") from None
        return alpha


def _command(given: dict[str, Any]) -> str:
    """The command that repeats a run, without options that were not given."""
    words = ["srmc", "sample", given["target"]]
    for name, value in given.items():
        option = name.replace("_", "-")
        if name == "target" or value is None:
            continue
        if isinstance(value, bool):
            words.append(f"--{option}" if value else f"--no-{option}")
        else:
            words += [f"--{option}", str(value)]
    return shlex.join(words)


def _toml(settings: dict[str, Any]) -> str:
    """Settings as TOML, whose strings, numbers and booleans are written as in JSON."""
    plain = {k: str(v) if isinstance(v, Path) else v for k, v in settings.items() if v is not None}
    return "".join(f"{k} = {json.dumps(v)}\n" for k, v in plain.items())
