"""`srmc show`, `srmc targets` and `srmc improve`: what was saved, and what is built in."""

import inspect
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

import srmc
from srmc._files import check_netcdf, seal_netcdf, write_whole
from srmc.cli.terminal import caution, console, fail, load_file
from srmc.results import tables
from srmc.targets import BUILT_IN, Moments


def targets() -> None:
    """List the built-in targets."""
    for name, build in BUILT_IN.items():
        try:
            about = build().about
        except ImportError as error:  # data that another package has
            about = str(error)
        console.print(f"[bold]{name:14}[/] {escape(about)}", highlight=False)


def show(
    result: Annotated[Path, typer.Argument(help="A result.nc, or a folder with one.")],
    plot: Annotated[Path | None, typer.Option(help="Write a plot to this PNG file.")] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write the page of the run to this HTML file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show a saved result."""
    try:
        found = srmc.load(result / "result.nc" if result.is_dir() else result)
        if plot is not None:
            write_whole(plot, lambda p: found.plot(p))
        if report is not None:
            found.report(report)
    except (ValueError, OSError) as error:
        fail(error)
    print_result(found, None, as_json)


def print_result(result: srmc.Result, truth: Moments | None, as_json: bool) -> None:
    """Print estimates and facts, as tables or as JSON."""
    if as_json:
        typer.echo(tables.as_json(result, truth))
        return
    for text in result.warnings:
        console.print(f"[bold yellow]warning:[/] {escape(text)}", highlight=False)
    console.print(tables.estimates(result, truth))
    console.print(tables.facts_table(tables.facts(result, truth)))
    if result.is_rebalanced:
        said = tables.gain_in_words(srmc.summary(result, kind="short"))
        console.print(f"{said}\n", highlight=False)


def improve(
    trace: Annotated[Path, typer.Argument(help="A NetCDF file of ArviZ, xarray or PyMC.")],
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE.PY:NAME]",
            help="The PyMC or NumPyro model, or JAX log density. The file may define `data` (the "
            "arguments of a NumPyro model), or `unconstrain` and `constrain` for a log density. "
            "A trace with stored gradients needs no model.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("better.nc"),
    most: Annotated[int, typer.Option(min=1, help="Number of rows to print.")] = 20,
) -> None:
    """Reduce the errors of a finished run; write the trace with the improved draws."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            if out.resolve() == trace.resolve():
                raise ValueError(f"--out must be another file than the trace, got {out}")
            better, report = srmc.improve(_read(trace), report=True, **_model(model))
            write_whole(out, lambda aside: _write(better, aside))
            found = srmc.summary(better, kind="short")
        except Exception as error:  # of the user's own code, too
            fail(error)
    caution([str(w.message) for w in caught if issubclass(w.category, UserWarning)])
    console.print(tables.short(found, most))
    if report.method == "none":
        said = f"The draws are unchanged: {report.reason}."
    elif report.method == "reweight":
        said = f"The draws were reweighted; their effective share is {report.effective:.0%}."
    else:
        said = tables.gain_in_words(found)
    console.print(escape(said), highlight=False)
    console.print(f"The trace is in [bold]{escape(str(out))}[/].")


def _write(trace: Any, path: Path) -> None:
    trace.to_netcdf(path, engine="h5netcdf")
    seal_netcdf(path)


def _read(path: Path) -> Any:
    """The groups in a file, or the dataset if it has none."""
    import xarray

    if not path.is_file():
        raise ValueError(f"trace must be a file, got {path}")
    check_netcdf(path, "put back a copy of it")
    try:
        with xarray.open_datatree(path, engine="h5netcdf") as found:
            tree = found.load()
    except (OSError, ValueError) as error:
        raise ValueError(f"trace must be a NetCDF 4 file, but {path} is none: {error}") from None
    return tree if tree.children else tree.to_dataset()


def _model(name: str | None) -> dict[str, Any]:
    """The arguments of `srmc.improve` that the user's file has."""
    if name is None:
        return {}
    module, attribute = load_file("model", name)
    model = getattr(module, attribute)
    found = {k: getattr(module, k) for k in ("unconstrain", "constrain") if hasattr(module, k)}
    is_density = bool(found) or hasattr(module, "initial_position")  # which reads data itself
    if inspect.isfunction(model) and not is_density and hasattr(module, "data"):
        found["data"] = module.data
    return {"model": model} | found
