"""Table and page of `srmc bench gallery`."""

from typing import Any

import numpy as np
from rich.table import Table

from srmc_studies.bench.cells import cell, markdown, terminal
from srmc_studies.bench.gallery.compare import FUNCTIONALS, GROUPS
from srmc_studies.bench.gallery.models import MODELS

Row = dict[str, Any]
Lines = list[list[str]]
CALLS = {"srmc": "srmc.sample", "PyMC": "pm.sample", "NumPyro": "NumPyro", "nutpie": "nutpie"}
LOW, HIGH = 0.8, 1.25  # of root mean squares of z-scores that are as they should be
NOTHING = "–"


def z_lines(rows: list[Row], side: str) -> Lines:
    """A heading, and a line per model, with root mean squares of z-scores."""
    lines = [["model", *GROUPS]]
    for row in rows:
        found = row.get("sample", {}).get(side, {})
        lines.append([row["model"], *(_root(found.get(group)) for group in GROUPS)])
    return lines


def _root(found: dict[str, float] | None) -> str:
    """A root mean square, in bold if it is out of bounds by more than two standard errors."""
    if found is None:
        return NOTHING
    value, error = found["value"], found["error"]
    text = f"{value:.2f} ± {error:.2f}" if np.isfinite(error) else f"{value:.2f}"
    outside = value - 2 * error > HIGH or value + 2 * error < LOW
    text = f"**{text}**" if outside else text
    if found["long"] > 0.5:
        text += "*"
    return f"{text} ({found['without']:.0%} without)" if found["without"] > 0.005 else text


def ratio_lines(rows: list[Row], call: str) -> Lines:
    """A heading, and a line per model, with squared errors over those of the plain draws."""
    lines = [["model", *FUNCTIONALS]]
    for row in rows:
        found = row.get(call, {})
        found = found.get("ratios", {}) if call == "sample" else found
        lines.append([row["model"], *(_ratio(found.get(column)) for column in FUNCTIONALS)])
    return lines


def _ratio(found: dict[str, float] | None) -> str:
    if found is None or np.isnan(found["value"]):
        return NOTHING
    text = cell(found["value"], found["error"])
    return text if np.isfinite(found["error"]) else text.partition(" ±")[0]


def told_lines(rows: list[Row]) -> Lines:
    """A heading, and a line per model and text, with how many runs of how many said it."""
    lines = [["model", "call", "runs", "text"]]
    for row in rows:
        of = {"sample": row.get("runs", 0), "improve": row.get("traces", 0)}
        for told in row["told"]:
            text = " ".join(told["text"].split()).replace("|", "\\|")
            kind = "" if told["kind"] == "RunWarning" else f"{told['kind']}: "
            share = f"{told['count']} of {of.get(told['call'], 1)}"
            lines.append([row["model"], told["call"], share, kind + text])
    return lines


def worse_lines(rows: list[Row]) -> Lines:
    """A heading, and a line per variable and functional that got worse."""
    lines = [["model", "variable", "functional", "ratio"]]
    for row in rows:
        for found in row.get("sample", {}).get("worse", []):
            lines.append([row["model"], found["variable"], found["functional"], _ratio(found)])
    return lines


def second_lines(rows: list[Row]) -> Lines:
    """A heading, and a line per model, with the processor's seconds of first calls, and all."""
    lines = [["model", *CALLS.values()]]
    for row in rows:
        found = [row["first_call"].get(library, NOTHING) for library in CALLS]
        lines.append([row["model"], *map(_seconds, found)])
    return lines


def _seconds(took: Any) -> str:
    """With a star if an earlier version was measured; or why the call failed."""
    if isinstance(took, str):
        return took
    star = "" if "date" in took else "*"
    return f"{took['processor']:.0f} ({took['seconds']:.0f}){star}"


def gallery_table(rows: list[Row]) -> Table:
    """z-scores, gains, warnings and seconds in one table for the terminal."""
    z, ratios = z_lines(rows, "z_rebalanced"), ratio_lines(rows, "sample")
    head = ["model", *(f"z, {group}" for group in GROUPS), *FUNCTIONALS, "warnings", "s"]
    lines = [head]
    for row, roots, gains, seconds in zip(
        rows, z[1:], ratios[1:], second_lines(rows)[1:], strict=True
    ):
        cells = [text.replace("*", "") for text in roots[1:]] + gains[1:]
        said = str(sum(told["count"] for told in row["told"]))
        lines.append([row["model"], *cells, said, seconds[1]])
    return terminal("Models of the galleries, at the defaults of srmc.sample", lines)


def _about_lines(rows: list[Row]) -> Lines:
    lines = [
        ["model", "", "library", "coordinates", "compared", "runs", "long runs", "map", "date"]
    ]
    for row in rows:
        forms = "; ".join(f"{form} ({n})" for form, n in row.get("forms", {}).items())
        longer = f"{row['longer']}×" if "longer" in row else NOTHING
        counts = [str(row.get(key, NOTHING)) for key in ("coordinates", "compared", "runs")]
        date = row.get("date", NOTHING)
        lines.append([row["model"], row["about"], row["library"], *counts, longer, forms, date])
    return lines


def gallery_page(rows: list[Row]) -> str:
    """The same as Markdown."""
    warmup, samples, chains = rows[0]["size"]
    table = lambda lines: markdown(lines) if len(lines) > 1 else "None."
    absent = [name for name in MODELS if name not in {row["model"] for row in rows}]
    heavy = [f"{', '.join(row['heavy'])} ({row['model']})" for row in rows if row.get("heavy")]
    parts = [
        "# Models of the galleries",
        "Made by `srmc bench gallery`.",
        "These models are in the galleries of PyMC and NumPyro. Ours are written anew, with small "
        "published or simulated data. Each is sampled by `srmc.sample` at its defaults, "
        f"{chains} chains of {warmup:,} + {samples:,} steps, with a seed per run. The reference is "
        "the mean of plain long runs in double precision, together as many times longer as the "
        "table says. PyMC's models run in double precision, NumPyro's in single precision. Where "
        "there was a single run, root mean squares and ratios have no standard error.",
        "Coordinates that are constant, or equal to another one, are not compared."
        + (
            f" Without a variance, and compared by quantiles alone: {'; '.join(heavy)}."
            * bool(heavy)
        ),
        table(_about_lines(rows)),
        f"Not run: {', '.join(absent)}." if absent else "All models of the gallery were run.",
        "Rows without a date, and seconds with a star, were measured with an earlier version.",
        "## Are the errors right?",
        "Root mean squares of z-scores over coordinates and seeds: the estimate minus that of the "
        "long runs, over the standard error of the difference. They should be 1. Values in bold "
        f"are outside {LOW} to {HIGH} by more than two of their standard errors. A star marks "
        "values in which the long runs have more than half of the squared error. Estimates "
        "without a standard error are not counted; their share is given. Rebalanced draws:",
        table(z_lines(rows, "z_rebalanced")),
        "Plain draws of the same runs:",
        table(z_lines(rows, "z_plain")),
        "## How much is gained?",
        "Mean squared errors over those of the plain draws of the same run. Those of the long runs "
        "are subtracted, and are part of the standard errors. `srmc.sample`:",
        table(ratio_lines(rows, "sample")),
        "`srmc.improve`, with traces of all libraries that take the model:",
        table(ratio_lines(rows, "improve")),
        "Variables with a functional that got worse, by more than three standard errors:",
        table(worse_lines(rows)),
        "## Warnings",
        "All warnings and failures of `srmc.sample`, `summary()` and `srmc.improve`, word for "
        "word. Texts that differ in numbers count as one, and the first is shown. PyTensor's "
        "warning that it found no BLAS is left out.",
        table(told_lines(rows)),
        "## Seconds of the first call",
        "Seconds of the processor, and in brackets on the wall. Other programs shared the cores, "
        "which lengthens the latter. Each call is the first of a new process without compiled "
        "programs; imports are not included. NumPyro runs its chains vectorised, and PyMC's models "
        "through `pm.sample`.",
        table(second_lines(rows)),
    ]
    return "\n\n".join(parts) + "\n"
