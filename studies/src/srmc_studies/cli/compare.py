"""`srmc bench posteriors`, `multimodal`, `clock` and others: rows with a page of their own."""

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from srmc.cli import console, fail
from srmc_studies.cli.bench import measure


def posteriors(
    posterior: Annotated[list[str] | None, typer.Option(help="Some posteriors, not all.")] = None,
    sampler: Annotated[list[str] | None, typer.Option(help="Some samplers, not all.")] = None,
    data: Annotated[
        Path | None, typer.Option(help="A checkout of posteriordb, if not $SRMC_DATA/posteriordb.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    quick: Annotated[
        bool, typer.Option("--quick", help="One posterior, two samplers, short runs.")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="16 replicates instead of 4.")] = False,
    out: Annotated[Path | None, typer.Option(help="A JSON file for the rows.")] = None,
    page: Annotated[
        Path | None, typer.Option(help="A Markdown file; its picture goes beside it.")
    ] = None,
    rows: Annotated[
        list[Path] | None, typer.Option(help="Rows of earlier runs, to join or make a page of.")
    ] = None,
) -> None:
    """Errors, gradients and seconds of several samplers: alone, controlled, and rebalanced."""
    from srmc_studies.bench import posterior_tables as tables
    from srmc_studies.bench import side_by_side as measurements

    if quick and full:
        fail(ValueError("give --quick or --full, not both"))
    _check_page(page)
    size = "quick" if quick else "full" if full else "standard"
    if rows is not None:
        found = [row for file in rows for row in json.loads(file.read_text())]
        console.print(tables.posteriors_table(found))
        if out is not None:
            out.write_text(_one_per_line(found))
    else:
        run = functools.partial(
            measurements.posteriors,
            posterior,
            sampler,
            size=size,
            path=data,
            seed=seed,
            on_row=_appending(out),
        )
        found = measure(run, tables.posteriors_table, out)
    if page is not None:
        page.write_text(tables.posteriors_page(found))
        tables.draw_picture(found, page.parent)


def _one_per_line(rows: list[dict[str, Any]]) -> str:
    """The rows as JSON, with numbers of five digits."""
    shorter = lambda text: float(f"{float(text):.5g}")
    short = json.loads(json.dumps(rows), parse_float=shorter)
    return "[\n" + ",\n".join(json.dumps(row) for row in short) + "\n]\n"


def _appending(out: Path | None) -> Callable[[dict[str, Any]], None]:
    """Write the rows so far whenever there is one more, so that a long run can be stopped."""
    rows: list[dict[str, Any]] = []

    def write(row: dict[str, Any]) -> None:
        rows.append(row)
        if out is not None:
            out.write_text(json.dumps(rows, indent=2) + "\n")

    return write


def multimodal(
    budget: Annotated[int, typer.Option(min=1000, help="Gradients per chain.")] = 100_000,
    replicates: Annotated[int, typer.Option(min=2)] = 32,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    quick: Annotated[bool, typer.Option(help="One target, few and short runs.")] = False,
    out: Annotated[Path | None, typer.Option(help="A JSON file for the rows.")] = None,
    page: Annotated[Path | None, typer.Option(help="A Markdown file.")] = None,
) -> None:
    """Errors of the weights of isolated modes: plain, repelled and tempered NUTS."""
    from srmc_studies.bench import multimodal as measurements

    _check_page(page)
    run = functools.partial(
        measurements.multimodal,
        budget=budget,
        replicates=replicates,
        seed=seed,
        quick=quick,
        on_row=_appending(out),
    )
    found = measure(run, measurements.multimodal_table, out)
    if page is not None:
        page.write_text(measurements.multimodal_page(found))


def calibration(
    model: Annotated[list[str] | None, typer.Option(help="Some models, not all.")] = None,
    data_sets: Annotated[int, typer.Option(min=20, help="Data sets of each model.")] = 500,
    data: Annotated[
        Path | None, typer.Option(help="A checkout of posteriordb, if not $SRMC_DATA/posteriordb.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    quick: Annotated[bool, typer.Option(help="One model, few data sets.")] = False,
    out: Annotated[Path | None, typer.Option(help="A JSON file for the rows.")] = None,
    page: Annotated[
        Path | None, typer.Option(help="A Markdown file; its picture goes beside it.")
    ] = None,
) -> None:
    """Simulation-based calibration of rebalanced draws, and z-scores of reference means."""
    from srmc_studies.bench import calibration as measurements
    from srmc_studies.bench import calibration_tables as tables

    _check_page(page)
    run = functools.partial(
        measurements.calibration,
        model,
        data_sets=data_sets,
        path=data,
        seed=seed,
        quick=quick,
        on_row=_appending(out),
    )
    found = measure(run, tables.calibration_table, out)
    if page is not None:
        page.write_text(tables.calibration_page(found))
        tables.draw_picture(found, page.parent)


def streaming(
    dim: Annotated[list[int] | None, typer.Option(min=1, help="Numbers of dimensions.")] = None,
    num_samples: Annotated[int, typer.Option(min=100)] = 1000,
    replicates: Annotated[int, typer.Option(min=1)] = 3,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    quick: Annotated[bool, typer.Option(help="Few dimensions, short runs.")] = False,
    out: Annotated[Path | None, typer.Option(help="A JSON file for the rows.")] = None,
    page: Annotated[Path | None, typer.Option(help="A Markdown file.")] = None,
) -> None:
    """Errors of moments over many dimensions: plain, control variates, online repellence."""
    from srmc_studies.bench import streaming as measurements

    _check_page(page)
    run = functools.partial(
        measurements.streaming,
        dim,
        num_samples=num_samples,
        replicates=replicates,
        seed=seed,
        quick=quick,
        on_row=_appending(out),
    )
    found = measure(run, measurements.streaming_table, out)
    if page is not None:
        page.write_text(measurements.streaming_page(found))


def growth(
    part: Annotated[
        list[str] | None,
        typer.Option(help="Not all, but draws, chains, dimensions, rows, simulation or devices."),
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Runs of which the fastest counts.")] = 3,
    quick: Annotated[bool, typer.Option(help="Small sizes, in this process.")] = False,
    out: Annotated[Path | None, typer.Option(help="A JSON file for the rows.")] = None,
    page: Annotated[Path | None, typer.Option(help="A Markdown file.")] = None,
    rows: Annotated[
        list[Path] | None, typer.Option(help="Rows of earlier runs, to join or make a page of.")
    ] = None,
) -> None:
    """Seconds per draw, chain, dimension and row of data, with slopes; bytes between devices."""
    from srmc_studies.bench import growth as measurements
    from srmc_studies.bench import growth_tables as tables

    _check_page(page)
    if rows is not None:
        found = _joined(rows, tables.growth_table, out)
    else:
        run = functools.partial(
            measurements.growth, part, repeats=repeats, quick=quick, on_row=_appending(out)
        )
        found = measure(run, tables.growth_table, out)
    if page is not None:
        page.write_text(tables.growth_page(found))


def _joined(files: list[Path], table: Callable[..., Any], out: Path | None) -> list[dict[str, Any]]:
    """The rows of earlier runs, shown, and written to one file."""
    found = [row for file in files for row in json.loads(file.read_text())]
    console.print(table(found))
    if out is not None:
        out.write_text(json.dumps(found, indent=2) + "\n")
    return found


def _check_page(page: Path | None) -> None:
    if page is not None and not page.parent.is_dir():
        fail(ValueError(f"page must be a file in an existing folder, got {page}"))


def clock(
    model: Annotated[list[str] | None, typer.Option(help="Some models, not all.")] = None,
    part: Annotated[
        list[str] | None,
        typer.Option(help="Not all, but calls, steps, builders, memory or import."),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Turns of the libraries.")] = 1,
    quick: Annotated[bool, typer.Option(help="One model, short runs in this process.")] = False,
    out: Annotated[Path | None, typer.Option(help="A JSON file for the rows.")] = None,
    page: Annotated[
        Path | None, typer.Option(help="A Markdown file; its picture goes beside it.")
    ] = None,
    rows: Annotated[
        list[Path] | None, typer.Option(help="Rows of earlier runs, to join or make a page of.")
    ] = None,
) -> None:
    """Seconds of first and second calls, of steps, and memory, compared with other libraries."""
    from srmc_studies.bench import clock as measurements
    from srmc_studies.bench import clock_tables as tables

    _check_page(page)
    if rows is not None:
        found = _joined(rows, tables.clock_table, out)
    else:
        run = functools.partial(
            measurements.clock,
            model,
            parts=part,
            rounds=rounds,
            quick=quick,
            on_row=_appending(out),
        )
        found = measure(run, tables.clock_table, out)
    if page is not None:
        page.write_text(tables.clock_page(found))
        tables.draw_clock(found, page.parent)


def gallery(
    model: Annotated[list[str] | None, typer.Option(help="Run only these models.")] = None,
    runs: Annotated[int, typer.Option(min=2, help="Largest number of runs per model.")] = 12,
    traces: Annotated[int, typer.Option(min=1, help="Traces to improve per model.")] = 3,
    seconds: Annotated[
        float, typer.Option(min=1, help="Processor time per model after which no run begins.")
    ] = 150.0,
    quick: Annotated[bool, typer.Option(help="One model, short runs in this process.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="A folder with a file per model; models in it are not rerun."),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(help="A folder for long runs and traces; those in it are not made again."),
    ] = None,
    page: Annotated[Path | None, typer.Option(help="A Markdown file.")] = None,
) -> None:
    """Models of the galleries at the defaults: z-scores, gains, warnings and seconds."""
    from srmc_studies.bench.gallery import run as measurements
    from srmc_studies.bench.gallery.study import Limits
    from srmc_studies.bench.gallery.table import gallery_page, gallery_table

    _check_page(page)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)

    def save(row: dict[str, Any]) -> None:
        if out is not None:
            (out / f"{row['model']}.json").write_text(json.dumps(row, indent=2) + "\n")

    run = functools.partial(
        measurements.gallery,
        model,
        limits=Limits(runs=runs, seconds=seconds),
        traces=traces,
        quick=quick,
        keep=keep,
        done=[json.loads(file.read_text()) for file in sorted(out.glob("*.json"))] if out else [],
        on_row=save,
    )
    found = measure(run, gallery_table, None)
    if page is not None:
        page.write_text(gallery_page(found))


def coordinates(
    target: Annotated[list[str] | None, typer.Option(help="Some targets, not all.")] = None,
    replicates: Annotated[int, typer.Option(min=2)] = 32,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="One target, short runs.")] = False,
    out: Annotated[Path | None, typer.Option(help="A JSON file for the rows.")] = None,
    page: Annotated[Path | None, typer.Option(help="A Markdown file.")] = None,
    rows: Annotated[
        list[Path] | None, typer.Option(help="Rows of earlier runs, to join or make a page of.")
    ] = None,
) -> None:
    """Errors in learned coordinates, in plain ones, and of other samplers, at equal cost."""
    from srmc_studies.bench import coordinates as measurements
    from srmc_studies.bench import coordinates_tables as tables

    _check_page(page)
    if rows is not None:
        found = [row for file in rows for row in json.loads(file.read_text())]
        console.print(tables.coordinates_table(found))
        if out is not None:
            out.write_text(_one_per_line(found))
    else:
        run = functools.partial(
            measurements.coordinates,
            target,
            size=measurements.Size(replicates=replicates, seed=seed),
            quick=quick,
            on_row=_appending(out),
        )
        found = measure(run, tables.coordinates_table, out)
    if page is not None:
        page.write_text(tables.coordinates_page(found))


def centred(
    data_sets: Annotated[int, typer.Option(min=20)] = 500,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Few data sets, short runs.")] = False,
    out: Annotated[Path | None, typer.Option(help="A JSON file for the rows.")] = None,
    page: Annotated[Path | None, typer.Option(help="A Markdown file.")] = None,
) -> None:
    """Simulation-based calibration of a centred hierarchy, in its own and learned coordinates."""
    from srmc_studies.bench import centred as measurements

    _check_page(page)
    size = measurements.Size(data_sets)
    run = functools.partial(measurements.centred, size, seed=seed, quick=quick)
    found = measure(run, measurements.centred_table, out)
    if page is not None:
        page.write_text(measurements.centred_page(found))


def divergences(
    replicates: Annotated[int, typer.Option(min=2)] = 20,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Two targets, few replicates.")] = False,
    out: Annotated[Path | None, typer.Option(help="A JSON file for the rows.")] = None,
    page: Annotated[Path | None, typer.Option(help="A Markdown file.")] = None,
) -> None:
    """Divergences from a Gaussian of known posteriors, before and after learning coordinates."""
    from srmc_studies.bench import divergences as measurements

    _check_page(page)
    run = functools.partial(measurements.divergences, replicates, seed=seed, quick=quick)
    found = measure(run, measurements.divergences_table, out)
    if page is not None:
        page.write_text(measurements.divergences_page(found))


def looped(
    seed: Annotated[int, typer.Option(min=0)] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="One target, short runs.")] = False,
    out: Annotated[Path | None, typer.Option(help="A JSON file for the rows.")] = None,
    page: Annotated[Path | None, typer.Option(help="A Markdown file.")] = None,
) -> None:
    """Repelled MALA and HMC in plain and in learned coordinates."""
    from srmc_studies.bench import looped as measurements

    _check_page(page)
    size = measurements.Size(seed=seed)
    run = functools.partial(measurements.looped, size, quick=quick)
    found = measure(run, measurements.looped_table, out)
    if page is not None:
        page.write_text(measurements.looped_page(found))
