"""The pictures of the pages of evidence, and the table of the README, from committed rows."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from srmc.results.look import COLOURS, WIDTH, look, save
from srmc_studies.bench import calibration_tables, clock_tables, posterior_tables
from srmc_studies.bench.coordinates import FUNCTIONALS
from srmc_studies.bench.coordinates_tables import over_best
from srmc_studies.bench.panels import (
    LEAST,
    LEFT_IS_BETTER,
    OURS,
    REPELLED,
    RIVAL,
    dots,
    key,
    name_lines,
    of_ratios,
)
from srmc_studies.bench.rebalance_tables import of_nuts, short_table
from srmc_studies.bench.tables import COVERED

Row = dict[str, Any]
NAMES = {"mean": "means", "covariance": "covariances", "quantile": "quantiles", "tail": "tails"}
TABLE = re.compile(r"(?<=<!-- rebalance -->\n).*?(?=<!-- end -->)", re.DOTALL)


def evidence(docs: Path) -> list[Path]:
    """Draw the pictures from the rows in `docs/data` into `docs/evidence`."""
    made = []
    for name, draw in PICTURES.items():
        names = (name,) if isinstance(name, str) else name
        rows = [json.loads((docs / "data" / f"{file}.json").read_text()) for file in names]
        path = docs / "evidence" / f"{draw.__name__}.png"
        with look():
            save(draw(*rows), path)
        made.append(path)
    for name, draw in OTHER_PAGES.items():
        draw(json.loads((docs / "data" / f"{name}.json").read_text()), docs / "evidence")
        made.append(docs / "evidence" / f"{name}.png")
    return made


def fill_readme(readme: Path, docs: Path) -> None:
    """Put the table of `srmc bench rebalance` between its two marks."""
    rows = json.loads((docs / "data" / "rebalance.json").read_text())
    readme.write_text(TABLE.sub(lambda _: short_table(rows), readme.read_text(), count=1))


def _panels(count: int, lines: float) -> tuple[Figure, Any]:
    figure = Figure(figsize=(WIDTH, 1.1 + 0.25 * lines), layout="constrained")
    return figure, figure.subplots(1, count, sharey=True, squeeze=False)[0]


def rebalanced(rows: list[Row]) -> Figure:
    """Errors of rebalanced draws, and of control variates, over those of the plain draws."""
    mine = of_nuts(rows)
    figure, panels = _panels(4, len(mine))
    for axes, (name, title) in zip(panels, NAMES.items(), strict=True):
        for side, style, lower in (("rebalanced", OURS, -0.15), ("control variates", RIVAL, 0.15)):
            found = [row["errors"][side].get(name, {}) for row in mine]
            values, errors = ([one.get(k, np.nan) for one in found] for k in ("ratio", "error"))
            dots(axes, values, errors, lower, LEAST, label=side, **style)
        name_lines(axes, [row["target"] for row in mine], title, same=1.0)
        of_ratios(axes, 0.5 * LEAST, 12)
    key(figure, panels[0], f"{LEFT_IS_BETTER}      squared error over that of the plain draws")
    return figure


def learned(rows: list[Row]) -> Figure:
    """Errors in learned coordinates over those of the best other sampler, at equal cost."""
    found = {per: over_best(rows, per) for per in ("gradients", "seconds")}
    targets = list(found["gradients"])
    figure, panels = _panels(2, 2 * len(targets))
    colour = COLOURS["rebalanced"]
    for axes, (per, by_target) in zip(panels, found.items(), strict=True):
        for n, (name, marker) in enumerate(zip(FUNCTIONALS, "os^D", strict=True)):
            values, errors = zip(*(by_target[t][n] for t in targets), strict=True)
            style = {"color": colour, "marker": marker}
            style["markerfacecolor"] = colour if n < 2 else "none"
            dots(axes, values, errors, 0.2 * (n - 1.5), LEAST, label=f"{name}s", **style)
        unit = "gradients" if per == "gradients" else "processor time"
        name_lines(axes, targets, f"at equal {unit}", same=1.0)
        of_ratios(axes, 0.5 * LEAST, 40)
    key(figure, panels[0], f"{LEFT_IS_BETTER}      squared error over the best other sampler's")
    return figure


def coverage(rows: list[Row]) -> Figure:
    """How often 95% intervals contain the truth."""
    figure, panels = _panels(len(COVERED), 1 + len(rows))
    for axes, what in zip(panels, COVERED, strict=True):
        for side, lower in (("plain", 0.12), ("rebalanced", -0.12)):
            found = [row[f"{side}, {what}"] for row in rows]
            shares, errors = ([100 * one[k] for one in found] for k in ("coverage", "error"))
            look = {"color": COLOURS[side], "marker": "o", "label": side}
            dots(axes, shares, errors, lower, least=82.0, **look)
        title = what.replace("sds", "standard deviations")
        name_lines(axes, [row["target"] for row in rows], title, same=95.0)
        axes.set(xlim=(81, 101), xticks=[85, 90, 95, 100])
    key(figure, panels[0], "95% intervals that contain the truth, in percent")
    return figure


def repelled(continuous: list[Row], discrete: list[Row]) -> Figure:
    """Errors of means of repelled kernels over those of plain ones, at equal cost."""
    kernels: dict[str, list[float]] = {}
    for row in continuous:
        if (row["chains"], row["alpha"]) == (1, "auto") and "repelled" in row["errors"]:
            ratio = row["errors"]["repelled"]["mean"]["ratio"]
            kernels.setdefault(row["kernel"], []).append(ratio)
    for row in discrete:
        ratio = row["errors"]["mean"]["at_equal_evaluations"]
        kernels.setdefault(f"{row['kernel']}, discrete", []).append(ratio)
    figure, (axes,) = _panels(1, len(kernels))
    for n, values in enumerate(kernels.values()):
        y = n + 0.08 * (np.arange(len(values)) % 3 - 1)
        axes.plot(np.sort(values), y, linestyle="none", ms=4.5, **REPELLED)
        middle = float(np.exp(np.mean(np.log(values))))
        axes.vlines(middle, n - 0.35, n + 0.35, color="0.2", lw=2)
    lines = [name.replace("_", " ") for name in kernels]
    name_lines(axes, lines, "a dot per target, and the geometric mean of each kernel", same=1.0)
    of_ratios(axes, 0.008, 3)
    key(figure, axes, f"{LEFT_IS_BETTER}      squared error of means over that of the plain kernel")
    return figure


PICTURES: dict[Any, Any] = {
    "rebalance": rebalanced,
    "coordinates": learned,
    "coverage": coverage,
    ("noharm", "discrete"): repelled,
}
OTHER_PAGES = {
    "posteriors": posterior_tables.draw_picture,
    "calibration": calibration_tables.draw_picture,
    "clock": clock_tables.draw_clock,
}
