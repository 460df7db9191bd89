"""`srmc bench`: the measurements behind the claims of the documentation."""

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from srmc.cli import console, ending_all, fail, progress_bar

# What identifies a row.
_ASKED = (
    "target",
    "kernel",
    "chains",
    "alpha",
    "seed",
    "dtype",
    "feature",
    "constant",
    "factor",
    "draws",
    "target_error",
    "case",
    "step",
)

bench = typer.Typer(no_args_is_help=True)


@bench.callback()
def study(context: typer.Context) -> None:
    """Compare with plain kernels and other libraries."""
    context.with_resource(ending_all())


@bench.command()
def overhead(
    quick: Annotated[bool, typer.Option(help="Fewer and shorter repeats.")] = False,
    out: Annotated[Path | None, typer.Option(help="A JSON file for the rows.")] = None,
) -> None:
    """Time and compile time of repelled kernels, compared with BlackJAX's and with plain ones."""
    from srmc_studies.bench import overhead as measurements
    from srmc_studies.bench import tables

    size: dict[str, Any] = {}
    if quick:
        size = {"num_steps": 50, "repeats": 3, "num_draws": 50, "dims": (10,)}
    run = functools.partial(measurements.overhead, **size)
    measure(run, tables.overhead_table, out)


@bench.command()
def summary(
    quick: Annotated[bool, typer.Option(help="Few rows of few draws.")] = False,
    out: Annotated[Path | None, typer.Option(help="A JSON file for the rows.")] = None,
) -> None:
    """Time of `result.summary()` for many rows, and of the second call."""
    from srmc_studies.bench import summary as measurements
    from srmc_studies.bench import tables

    size: dict[str, Any] = {"dims": (5,), "num_draws": 100, "repeats": 1} if quick else {}
    run = functools.partial(measurements.summary, **size)
    measure(run, tables.summary_table, out)


@bench.command()
def soak(
    case: Annotated[list[str] | None, typer.Option(help="Some cases, not all.")] = None,
    quick: Annotated[bool, typer.Option(help="Sizes that are 50 times smaller.")] = False,
    out: Annotated[Path | None, typer.Option(help="A JSON file for the rows.")] = None,
) -> None:
    """Time and memory of long and large runs, each in a process of its own."""
    from srmc_studies.bench import soak as measurements
    from srmc_studies.bench import tables

    measure(functools.partial(measurements.soak, case, quick), tables.soak_table, out)


@bench.command()
def noharm(
    target: Annotated[list[str] | None, typer.Option(help="Some targets, not all.")] = None,
    kernel: Annotated[list[str] | None, typer.Option(help="Some kernels, not all.")] = None,
    num_chains: Annotated[int, typer.Option(min=1, help="Chains that share a history.")] = 1,
    alpha: Annotated[
        list[float] | None,
        typer.Option(min=0, help="Fixed strengths, which the replicates take in turn."),
    ] = None,
    replicates: Annotated[int, typer.Option(min=2)] = 64,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    quick: Annotated[bool, typer.Option(help="One target, two kernels, short runs.")] = False,
    out: Annotated[Path | None, typer.Option(help="A JSON file for the rows.")] = None,
) -> None:
    """Errors of repelled kernels relative to plain ones, at equal cost, on many targets."""
    from srmc_studies.bench import noharm as measurements
    from srmc_studies.bench import noharm_tables as tables

    run = functools.partial(
        measurements.noharm,
        target,
        kernel,
        num_chains=num_chains,
        alpha=alpha or "auto",
        replicates=replicates,
        seed=seed,
        quick=quick,
    )
    measure(run, tables.noharm_table, out)


@bench.command()
def discrete(
    target: Annotated[list[str] | None, typer.Option(help="Some targets, not all.")] = None,
    kernel: Annotated[list[str] | None, typer.Option(help="Some kernels, not all.")] = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    quick: Annotated[bool, typer.Option(help="One target, short runs.")] = False,
    out: Annotated[Path | None, typer.Option(help="A JSON file for the rows.")] = None,
) -> None:
    """Errors of discrete kernels, plain and repelled, per evaluation and per second."""
    from srmc_studies.bench import discrete as measurements
    from srmc_studies.bench import tables

    run = functools.partial(measurements.discrete, target, kernel, seed=seed, quick=quick)
    measure(run, tables.discrete_table, out)


@bench.command()
def discs(
    target: Annotated[list[str] | None, typer.Option(help="Some targets, not all.")] = None,
    kernel: Annotated[list[str] | None, typer.Option(help="Some kernels, not all.")] = None,
    chains: Annotated[int, typer.Option(min=2)] = 32,
    warmup: Annotated[int, typer.Option(min=100)] = 2000,
    steps: Annotated[int, typer.Option(min=100)] = 4000,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    quick: Annotated[bool, typer.Option(help="A small target, short runs.")] = False,
    out: Annotated[Path | None, typer.Option(help="A JSON file for the rows.")] = None,
) -> None:
    """Discrete samplers as the DISCS benchmark measures them, plain and repelled."""
    from srmc_studies.bench import discs as measurements

    run = functools.partial(
        measurements.discs,
        target,
        kernel,
        chains=chains,
        warmup=warmup,
        steps=steps,
        seed=seed,
        quick=quick,
    )
    measure(run, measurements.discs_table, out)


@bench.command()
def coverage(
    target: Annotated[list[str] | None, typer.Option(help="Some targets, not all.")] = None,
    kernel: Annotated[list[str] | None, typer.Option(help="Kernels other than nuts.")] = None,
    replicates: Annotated[int, typer.Option(min=2)] = 500,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    quick: Annotated[bool, typer.Option(help="One target, few and short runs.")] = False,
    out: Annotated[Path | None, typer.Option(help="A JSON file for the rows.")] = None,
) -> None:
    """How often the 95% intervals of plain and rebalanced runs contain the truth."""
    from srmc_studies.bench import coverage as measurements
    from srmc_studies.bench import tables

    run = functools.partial(
        measurements.coverage,
        target,
        kernel,
        replicates=replicates,
        seed=seed,
        quick=quick,
    )
    measure(run, tables.coverage_table, out)


@bench.command()
def stopping(
    target: Annotated[
        list[str] | None, typer.Option(help="Targets other than eight-schools.")
    ] = None,
    target_error: Annotated[float, typer.Option(help="In standard deviations.")] = 0.02,
    replicates: Annotated[int, typer.Option(min=2)] = 100,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    quick: Annotated[bool, typer.Option(help="Three runs.")] = False,
    out: Annotated[Path | None, typer.Option(help="A JSON file for the rows.")] = None,
) -> None:
    """How often intervals contain the truth if a run ends when its errors are small enough."""
    from srmc_studies.bench import stopping as measurements
    from srmc_studies.bench import tables

    run = functools.partial(
        measurements.stopping,
        target,
        target_error=target_error,
        replicates=replicates,
        seed=seed,
        quick=quick,
    )
    measure(run, tables.stopping_table, out)


@bench.command()
def rebalance(
    target: Annotated[list[str] | None, typer.Option(help="Some targets, not all.")] = None,
    kernel: Annotated[list[str] | None, typer.Option(help="Kernels other than nuts.")] = None,
    num_chains: Annotated[int, typer.Option(min=1, help="Chains under one map.")] = 1,
    num_samples: Annotated[int, typer.Option(min=20, help="Draws per chain.")] = 1000,
    replicates: Annotated[int, typer.Option(min=2)] = 48,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    quick: Annotated[bool, typer.Option(help="One target, few and short runs.")] = False,
    keep: Annotated[
        Path | None, typer.Option(help="A folder for truths and plain runs, to be used again.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="A JSON file for the rows.")] = None,
) -> None:
    """Errors of rebalanced, reweighted and controlled draws over those of the same plain draws."""
    from srmc_studies.bench import rebalance as measurements
    from srmc_studies.bench import rebalance_tables as tables

    run = functools.partial(
        measurements.rebalance,
        target,
        kernel,
        num_chains=num_chains,
        num_samples=num_samples,
        replicates=replicates,
        seed=seed,
        quick=quick,
        keep=keep,
    )
    measure(run, tables.rebalance_table, out)


@bench.command()
def rule(
    constant: Annotated[list[str] | None, typer.Option(help="Some constants, not all.")] = None,
    replicates: Annotated[int, typer.Option(min=2)] = 48,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    quick: Annotated[bool, typer.Option(help="One constant, few and short runs.")] = False,
    out: Annotated[Path | None, typer.Option(help="A JSON file for the rows.")] = None,
) -> None:
    """Errors with a constant of the tuning or of rebalancing halved, kept, and doubled."""
    from srmc_studies.bench import rebalance_tables as tables
    from srmc_studies.bench import rule as measurements

    run = functools.partial(
        measurements.rule, constant, replicates=replicates, seed=seed, quick=quick
    )
    measure(run, tables.rule_table, out)


def measure(
    run: Callable[..., list[dict[str, Any]]],
    table: Callable[[list[dict[str, Any]]], Any],
    out: Path | None,
) -> list[dict[str, Any]]:
    """Run a benchmark, print its table, write its rows, and return them."""
    if out is not None and not out.parent.is_dir():
        fail(ValueError(f"out must be a file in an existing folder, got {out}"))
    try:
        with progress_bar() as show:
            rows = run(on_progress=show)
    except (ValueError, FileNotFoundError) as error:
        fail(error)
    console.print(table(rows))
    if out is not None:
        out.write_text(json.dumps(rows, indent=2) + "\n")
    return rows


@bench.command()
def evidence(
    docs: Annotated[Path, typer.Option(help="A folder with data/ and evidence/.")] = Path("docs"),
    readme: Annotated[Path | None, typer.Option(help="A README with a place for a table.")] = None,
) -> None:
    """Draw the pictures of the page of evidence, and fill the table of the README."""
    from srmc_studies.bench import evidence as pictures

    try:
        for path in pictures.evidence(docs):
            console.print(str(path))
        if readme is not None:
            pictures.fill_readme(readme, docs)
    except (OSError, ValueError) as error:
        fail(error)


@bench.command()
def page(
    rows: Annotated[list[Path], typer.Argument(help="JSON files of one kind of benchmark.")],
    out: Annotated[Path, typer.Option(help="A Markdown file.")],
    joined: Annotated[Path | None, typer.Option(help="A JSON file for the rows of all.")] = None,
) -> None:
    """Tables of `srmc bench noharm`, `rebalance`, `discrete`, `discs`, `coverage`, `stopping`,
    `rule` or `soak` as a page.

    A row of a later file replaces an earlier row with the same target, kernel and settings.
    """
    from srmc_studies.bench import tables

    found: dict[str, dict[str, Any]] = {}
    for path in rows:
        try:
            for row in json.loads(path.read_text()):
                found[json.dumps([row.get(name) for name in _ASKED])] = row
        except (OSError, ValueError, AttributeError, TypeError) as error:
            fail(ValueError(f"rows must be files of srmc bench, got {path}: {error}"))
    if not found:
        fail(ValueError("rows must be files of srmc bench, and hold at least one row"))
    try:
        title, text = tables.page(list(found.values()))
    except (KeyError, TypeError) as error:
        fail(ValueError(f"rows must be files of one kind of srmc bench; a row lacks {error}"))
    for path in (out, joined or out):
        if not path.parent.is_dir():
            fail(ValueError(f"out and joined must be files in existing folders, got {path}"))
    out.write_text(f"# {title}\n\nMade by `srmc bench page`.\n\n{text}")
    if joined is not None:
        lines = [json.dumps(row) for row in found.values()]
        joined.write_text("[\n" + ",\n".join(lines) + "\n]\n")
