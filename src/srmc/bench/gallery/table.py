"""Table and page of `srmc bench gallery`."""

from typing import Any

from rich.table import Table

from srmc.bench.cells import cell, markdown, terminal
from srmc.bench.gallery.compare import FUNCTIONALS

Row = dict[str, Any]
LIBRARIES = ("srmc", "PyMC", "NumPyro", "nutpie")
LOW, HIGH = 0.8, 1.25  # of root mean squares of z-scores that are as they should be


def gain_lines(rows: list[Row], call: str) -> list[list[str]]:
    """A heading, and a line per model, with squared errors over those of the plain draws."""
    lines = [["model", "d", *FUNCTIONALS]]
    for row in rows:
        found = row[call]
        cells = [
            cell(*_pair(found[what]["ratio"])) if what in found else "–" for what in FUNCTIONALS
        ]
        lines.append([row["model"], str(row["coordinates"]), *cells])
    return lines


def z_lines(rows: list[Row]) -> list[list[str]]:
    """A heading, and a line per model, with root mean squares of z-scores."""
    sides = ("plain", "rebalanced")
    lines = [["model", *(f"{what}, {side}" for side in sides for what in FUNCTIONALS)]]
    for row in rows:
        found = row["sample"]
        cells = [
            _root(found[what][f"z_{side}"]) if what in found else "–"
            for side in sides
            for what in FUNCTIONALS
        ]
        lines.append([row["model"], *cells])
    return lines


def _root(found: dict[str, float]) -> str:
    """A root mean square, in bold if it is out of bounds by more than two standard errors."""
    value, error = _pair(found)
    text = f"{value:.2f} ± {error:.2f}"
    outside = value - 2 * error > HIGH or value + 2 * error < LOW
    return f"**{text}**" if outside else text


def _pair(found: dict[str, float]) -> tuple[float, float]:
    return found["value"], found["error"]


def told_lines(rows: list[Row]) -> list[list[str]]:
    """A heading, and a line per model and text, with how many runs of how many said it."""
    lines = [["model", "call", "runs", "what it said"]]
    for row in rows:
        of = {"sample": row["replicates"], "improve": row["traces"]}
        for told in row["told"]:
            text = " ".join(told["text"].split()).replace("|", "\\|")
            kind = "" if told["kind"] == "RunWarning" else f"{told['kind']}: "
            share = f"{told['count']} of {of[told['call']]}"
            lines.append([row["model"], told["call"], share, kind + text])
    return lines


def second_lines(rows: list[Row]) -> list[list[str]]:
    """A heading, and a line per model, with the seconds of first calls."""
    lines = [["model", "srmc.sample", "pm.sample", "NumPyro", "nutpie"]]
    for row in rows:
        seconds = row.get("first_call", {})
        cells = [
            "" if name not in seconds else "failed" if (s := seconds[name]) is None else f"{s:.1f}"
            for name in LIBRARIES
        ]
        lines.append([row["model"], *cells])
    return lines


def gallery_table(rows: list[Row]) -> Table:
    """Gains, z-scores, warnings and seconds in one table for the terminal."""
    lines = [["model", *(f"{what}, z" for what in FUNCTIONALS), *FUNCTIONALS, "told", "seconds"]]
    z, gain = z_lines(rows)[1:], gain_lines(rows, "sample")[1:]
    for row, roots, gains in zip(rows, z, gain, strict=True):
        told = str(sum(one["count"] for one in row["told"]))
        cells = [text.strip("*") for text in roots[4:]] + gains[2:]
        lines.append([row["model"], *cells, told, f"{row['seconds']:.0f}"])
    return terminal("Models of the galleries, at the defaults of srmc.sample", lines)


def gallery_page(rows: list[Row]) -> str:
    """The same as Markdown."""
    size = rows[0]["size"]
    counts = {k: "/".join(map(str, sorted({r[k] for r in rows}))) for k in ("replicates", "traces")}
    longer = "/".join(map(str, sorted({row["longer"] for row in rows})))
    about = [["model", "", "library", "coordinates", "compared", "map"]]
    about += [
        [row["model"], row["about"], row["library"], str(row["coordinates"])]
        + [str(row["compared"]), "; ".join(f"{k} ({n})" for k, n in row["forms"].items())]
        for row in rows
    ]
    told = told_lines(rows)
    parts = [
        "# Models of the galleries",
        "Made by `srmc bench gallery`.",
        "These models are in the galleries of PyMC and NumPyro; ours are written anew, with small "
        "published or simulated data. Each is run at the defaults of `srmc.sample`, "
        f"{size[2]} chains of {size[0]:,} + {size[1]:,} steps, with {counts['replicates']} seeds. "
        f"The truth is a plain run {longer} times as long, in double precision. PyMC's models run "
        "in double precision, since PyTensor sets it; NumPyro's in single.",
        "Coordinates that are constant or equal to another one are not compared.",
        _heavy(rows),
        markdown(about),
        "## Are the errors right?",
        "Root mean squares of z-scores: estimates minus those of the long run, over the standard "
        "errors of both. They should be 1. Bold ones are outside of "
        f"{LOW} to {HIGH} by more than two of their standard errors. Quantiles are those at 5, 50 "
        "and 95%.",
        markdown(z_lines(rows)),
        "## How much is gained?",
        "Mean squared errors over those of the plain draws of the same run, without the error of "
        "the long run; below 0 where that error is all that is left. `srmc.sample`:",
        markdown(gain_lines(rows, "sample")),
        f"`srmc.improve`, of {counts['traces']} traces of the model's own library:",
        markdown(gain_lines(rows, "improve")),
        "## What was said",
        "All warnings and failures of `srmc.sample`, `summary()` and `srmc.improve`. Texts that "
        "differ in numbers count as one, and the first is shown.",
        markdown(told) if len(told) > 1 else "None.",
        "## Seconds of the first call",
        "In a new process without compiled programs, imports not included. NumPyro runs its chains "
        "in one program, and PyMC's models by way of `pm.sample`. An empty cell is a library that "
        "is not installed or does not take the model.",
        markdown(second_lines(rows)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _heavy(rows: list[Row]) -> str:
    names = [f"{', '.join(row['heavy'])} ({row['model']})" for row in rows if row["heavy"]]
    if not names:
        return ""
    return f"Without a variance, and compared by quantiles alone: {'; '.join(names)}."
