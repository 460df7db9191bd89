"""Table, page and picture of `srmc bench posteriors`."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from rich.box import SIMPLE_HEAD
from rich.table import Table

from srmc.results.look import COLOURS, WIDTH, look, save
from srmc_studies.bench.cells import LEFT, cell, geometric_mean, markdown, ways
from srmc_studies.bench.measures import FUNCTIONALS
from srmc_studies.bench.panels import LEAST, LEFT_IS_BETTER, dots, key, name_lines, of_ratios

Row = dict[str, Any]
PICTURE = "posteriors.png"
RIVALS = ("plain", "control variates")
NEGLIGIBLE = 1e-10  # squared error, in variances, below which differences mean nothing


class Best(NamedTuple):
    """The best of some sides of all samplers on a posterior, and which it is.

    value
        Its error times its cost.
    noise
        The standard error of that over replicates, relative to it; NaN if rows do not have it.
    """

    value: float
    noise: float
    sampler: str
    side: str


def cost(row: Row, side: str, unit: str = "gradients") -> float:
    """Gradients of a run without its warm-up, or with it ("all gradients"); or its seconds."""
    share = row["rebalance"]["draws"] / row["draws"] if side == "rebalanced" else 1.0
    if unit == "seconds":  # the warm-up takes its part of the time by its part of the gradients
        tuning = row["tuning_gradients"] / (row["tuning_gradients"] + row["gradients"])
        after = {"plain": 0.0, "control variates": row["control_variates"]["seconds"]}
        return float(
            row["seconds"] * (tuning + (1 - tuning) * share)
            + after.get(side, row["rebalance"]["seconds"])
        )
    extra = row["rebalance"]["gradients"] if side == "rebalanced" else 0.0
    tuning = row["tuning_gradients"] if unit == "all gradients" else 0.0
    return float(share * row["gradients"] + extra + tuning)


def best(rows: list[Row], sides: tuple[str, ...], name: str, unit: str = "gradients") -> Best:
    """The side with the least error times cost, which is the least cost for a given error."""
    found = []
    for row in rows:
        for side in sides:
            if name in row["errors"][side]:
                error = row["errors"][side][name]
                average = max(error["average"], NEGLIGIBLE)
                noise = error.get("standard_error", np.nan) / average
                value = average * cost(row, side, unit)
                found.append(Best(value, noise, row["sampler"], side))
    return min(found, default=Best(np.nan, np.nan, "", ""))


def against_best(
    rows: list[Row], name: str, unit: str = "gradients", sides: tuple[str, ...] = RIVALS
) -> tuple[float, float]:
    """The best rebalanced sampler over the best of the other sides, and the error of that."""
    rival, ours = best(rows, sides, name, unit), best(rows, ("rebalanced",), name, unit)
    ratio = ours.value / rival.value
    return ratio, ratio * float(np.hypot(ours.noise, rival.noise))


def by_posterior(rows: list[Row]) -> dict[str, list[Row]]:
    """The rows of each posterior."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["posterior"], []).append(row)
    return found


def losing(rows: list[Row]) -> list[list[str]]:
    """Where rebalancing makes an error larger at equal gradients, by more than two errors."""
    return [
        [row["posterior"], row["sampler"], name, cell(found["ratio"], found["error"])]
        for row in rows
        for name, found in row["errors"]["rebalanced"].items()
        if found["ratio"] - 2 * found["error"] > 1.05
    ]


def posteriors_table(rows: list[Row]) -> Table:
    """The rows of `srmc bench posteriors`."""
    title = "Squared errors times gradients, best rebalanced sampler over best rival"
    out = Table(box=SIMPLE_HEAD, title=title, **LEFT)
    out.add_column("posterior", no_wrap=True, max_width=24)
    for column in FUNCTIONALS:
        out.add_column(column, justify="right", no_wrap=True)
    out.caption = "Rivals are all samplers, alone and with control variates."
    for line in _against_lines(rows, RIVALS)[1:]:
        out.add_row(line[0].split(",")[0], *line[2 : 2 + len(FUNCTIONALS)])
    return out


def short_table(rows: list[Row]) -> str:
    """Geometric means over posteriors as Markdown, for the README."""
    lines = [["rival", *(f"{name}s" for name in FUNCTIONALS)]]
    for label, sides in (("best sampler", ("plain",)), ("or with control variates", RIVALS)):
        *_, last = _against_lines(rows, sides)
        lines.append([label, *last[2 : 2 + len(FUNCTIONALS)]])
    return markdown(lines)


def _older(rows: list[Row]) -> list[str]:
    """Which rows are of earlier versions, if any."""
    found = [
        f"{row['sampler']} on {row['posterior']}"
        for row in rows
        if "standard_error" not in row["errors"]["plain"]["mean"]
    ]
    if not found:
        return []
    return [
        f"These rows are from a still earlier version and have no standard errors of ratios "
        f"between samplers: {', '.join(found)}."
    ]


def posteriors_page(rows: list[Row]) -> str:
    """The same as Markdown, with what each sampler does and costs."""
    first = rows[0]
    samplers = list(dict.fromkeys(row["sampler"] for row in rows))
    parts = [
        "# Samplers on posteriors, side by side",
        f"Made by `srmc bench posteriors`, size {first['size']}, on one core, where it took "
        f"{_hours(rows):.1f} hours without the runs for the truth: {first['replicates']} "
        f"replicates of one chain for each sampler and posterior{_others(rows)}, in double "
        "precision, started from draws of the posterior. Errors are squared, in units of the "
        "posterior's variances, and averaged over the unconstrained coordinates. Rebalanced runs "
        "have fewer draws than plain ones, so that both take about the same number of gradients.",
        *_older(rows),
        f"![Ratios of both tables below, at equal gradients]({PICTURE})",
        "## Against the best rival",
        "The least error times gradients of any sampler followed by `srmc.rebalance`, divided by "
        "the least of any sampler alone, in the first table, and of any sampler alone or with "
        "control variates (cv), in the second. For a given error, this is the ratio of the "
        f"gradients. Squared errors below {NEGLIGIBLE:.0e} variances count as that on all sides. "
        "Standard errors are those over replicates, of both sides; they do not count that the best "
        "of several was chosen. The rival named is the best for means; the last columns count the "
        "warm-up too, or seconds without compilation instead of gradients, which are rough where "
        "other programs ran on the machine.",
        markdown(_against_lines(rows, ("plain",))),
        markdown(_against_lines(rows, RIVALS)),
        "## Where rebalancing loses",
        "Rows with an error more than 1.05 times that of the same sampler at equal gradients, by "
        "more than two standard errors.",
        markdown([["posterior", "sampler", "error of", "ratio"], *losing(rows)])
        if losing(rows)
        else "None.",
    ]
    parts += _not_run(rows, samplers)
    for sampler in samplers:
        mine = [row for row in rows if row["sampler"] == sampler]
        parts += [f"## {sampler}", markdown(_ratio_lines(mine)), markdown(_cost_lines(mine))]
    parts += [
        "The first table of each sampler has the squared errors over those of its plain draws, "
        "with the jackknife standard error over replicates and the ratio for the worst coordinate "
        "in brackets. In the second, gradients to an error of 0.01 and 0.001 are those of the "
        "means, plain → rebalanced, warm-up included, if errors fall as one over the gradients.",
        "## The truth",
        "Its own squared errors, estimated from two halves, over the smallest error that is "
        "measured with it.",
        markdown(_truth_lines(rows)),
    ]
    return "\n\n".join(parts) + "\n"


def _others(rows: list[Row]) -> str:
    """Posteriors with another number of replicates than the first."""
    counts = {name: mine[0]["replicates"] for name, mine in by_posterior(rows).items()}
    usual = rows[0]["replicates"]
    other = [f"{count} on {name}" for name, count in counts.items() if count != usual]
    return f" ({', '.join(other)})" if other else ""


def _not_run(rows: list[Row], samplers: list[str]) -> list[str]:
    missing = [
        f"{sampler} on {name}"
        for name, mine in by_posterior(rows).items()
        for sampler in samplers
        if sampler not in [row["sampler"] for row in mine]
    ]
    return [f"Not run: {', '.join(missing)}."] if missing else []


def _hours(rows: list[Row]) -> float:
    """The time of all runs, compilation included."""
    once = lambda row: (
        row["seconds"] + row["control_variates"]["seconds"] + row["rebalance"]["seconds"]
    )
    return float(sum(row["replicates"] * once(row) + row["compile_seconds"] for row in rows)) / 3600


def draw_picture(rows: list[Row], folder: Path) -> None:
    """The ratios of both tables at equal gradients, one line per posterior."""
    found, colour = by_posterior(rows), COLOURS["rebalanced"]
    last = [name.rpartition("-")[2] for name in found]
    names = [a if last.count(a) == 1 else name for a, name in zip(last, found, strict=True)]
    with look():
        figure = Figure(figsize=(WIDTH, 1.2 + 0.36 * len(found)), layout="constrained")
        panels = figure.subplots(1, 2, sharey=True, squeeze=False)[0]
        titles = {"alone": ("plain",), "alone or with control variates": RIVALS}
        for axes, (title, sides) in zip(panels, titles.items(), strict=True):
            for n, (name, marker) in enumerate(zip(FUNCTIONALS, "os^Dv", strict=True)):
                pairs = [against_best(mine, name, "gradients", sides) for mine in found.values()]
                style = {"marker": marker, "markerfacecolor": colour if n < 3 else "none"}
                values, errors = ([pair[k] for pair in pairs] for k in (0, 1))
                errors = [e if np.isfinite(e) else 0.0 for e in errors]
                place = 0.15 * (n - 2)
                dots(axes, values, errors, place, LEAST, color=colour, label=f"{name}s", **style)
            name_lines(axes, [name.replace("_", " ") for name in names], title, same=1.0)
            of_ratios(axes, 0.5 * LEAST, 12)
        label = f"{LEFT_IS_BETTER}      best rebalanced sampler over the best other sampler"
        key(figure, panels[0], label)
        save(figure, folder / PICTURE)


def _against_lines(rows: list[Row], sides: tuple[str, ...]) -> list[list[str]]:
    head = ["posterior", "best rival", *FUNCTIONALS, "mean, all gradients", "mean, seconds"]
    units = [*((name, "gradients") for name in FUNCTIONALS)]
    units += [("mean", "all gradients"), ("mean", "seconds")]
    lines, columns = [head], []
    for posterior, mine in by_posterior(rows).items():
        rival = best(mine, sides, "mean")
        ratios = [against_best(mine, name, unit, sides) for name, unit in units]
        columns.append([ratio for ratio, _ in ratios])
        label = rival.sampler + (", cv" if rival.side == "control variates" else "")
        lines.append([f"{posterior}, d = {mine[0]['dim']}", label, *map(_ratio, ratios)])
    means = [geometric_mean([r for r in column if r == r]) for column in zip(*columns, strict=True)]
    return [*lines, ["geometric mean", "", *means]]


def _ratio(found: tuple[float, float]) -> str:
    ratio, error = found
    return f"{ratio:.3g}" + (f" ± {error:.1g}" if np.isfinite(error) else "")


def _ratio_lines(rows: list[Row]) -> list[list[str]]:
    lines = [["posterior", "", *FUNCTIONALS]]
    for row in rows:
        for side in ("rebalanced", "control variates"):
            found = row["errors"][side]
            cells = [
                f"{cell(found[n]['ratio'], found[n]['error'])} ({found[n]['worst_ratio']:.2g})"
                if n in found
                else "–"
                for n in FUNCTIONALS
            ]
            order = "" if side == "rebalanced" else _order(row["control_variates"])
            lines.append([row["posterior"], side + order, *cells])
    return lines


def _order(control: dict[str, Any]) -> str:
    refused = f", {control['refused']} refused" if control["refused"] else ""
    return f", order {control['order']}{refused}"


def _cost_lines(rows: list[Row]) -> list[list[str]]:
    head = ["posterior", "draws", "gradients per draw", "of warm-up", "compile, s", "run, s"]
    head += [
        "rebalance, s",
        "its gradients per draw",
        "draws",
        "gradients to 0.01",
        "to 0.001",
    ]
    lines = [head]
    for row in rows:
        again = row["rebalance"]
        errors = [
            (side, row["errors"][side]["mean"]["average"]) for side in ("plain", "rebalanced")
        ]
        to = [
            " → ".join(
                f"{row['tuning_gradients'] + e / goal * cost(row, side):.2g}" for side, e in errors
            )
            for goal in (0.01, 0.001)
        ]
        lines.append(
            [
                row["posterior"],
                str(row["draws"]),
                f"{row['gradients'] / row['draws']:.1f}",
                f"{row['tuning_gradients']:.3g}",
                f"{row['compile_seconds']:.1f}",
                f"{row['seconds']:.2f}",
                f"{again['seconds']:.2f}",
                f"{again['gradients'] / again['draws']:.1f}",
                ways(again),
                *to,
            ]
        )
    return lines


def _truth_lines(rows: list[Row]) -> list[list[str]]:
    lines = [["posterior", "source", *FUNCTIONALS]]
    for posterior, mine in by_posterior(rows).items():
        truth = mine[0]["truth"]
        cells = []
        for name in FUNCTIONALS:
            found = [
                s[name]["average"] for row in mine for s in row["errors"].values() if name in s
            ]
            cells.append(f"{truth['errors'][name] / min(found):.2g}" if found else "–")
        lines.append([posterior, truth["source"], *cells])
    return lines
