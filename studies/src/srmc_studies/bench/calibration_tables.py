"""Table, page and picture of `srmc bench calibration`."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

from srmc.results.look import COLOURS, WIDTH, look, save
from srmc_studies.bench.calibration import BINS
from srmc_studies.bench.cells import markdown, terminal, ways
from srmc_studies.bench.panels import key

Row = dict[str, Any]
PICTURE = "calibration.png"
SIDES = ("plain", "rebalanced")


def calibration_table(rows: list[Row]) -> Table:
    """The rows of `srmc bench calibration`."""
    zs, caption = _all_z(rows), None
    if zs:
        square = np.sqrt(np.mean(np.square(zs)))
        caption = f"z-scores of reference means: root mean square {square:.2f}."
    title = "Ranks of true parameters: p-values of uniformity"
    return terminal(title, _rank_lines(rows), caption)


def calibration_page(rows: list[Row]) -> str:
    """The same as Markdown, with the z-scores of each posterior."""
    ranked = [row for row in rows if "sides" in row]
    parts = [
        "# Calibration",
        "Made by `srmc bench calibration`. A model draws its parameters from the prior and data "
        f"from the parameters; the rank of a true parameter among {BINS * 5 - 1} draws of its "
        "posterior, thinned from 2,000, must then be uniform. The table has p-values of "
        f"chi-squared tests with {BINS} bins, the smallest over parameters, which is multiplied by "
        "their number (Bonferroni).",
        markdown(_rank_lines(ranked)),
        f"![Distribution functions of ranks, minus the uniform one]({PICTURE})",
    ]
    referenced = [row for row in rows if "z" in row]
    if referenced:
        zs = _all_z(rows)
        outside = np.mean(np.abs(zs) > 1.96)
        parts += [
            "## Reference means",
            "Means of `srmc.sample` at its defaults minus those of posteriordb's reference draws, "
            "divided by the standard error of their difference, in unconstrained coordinates. "
            f"Over all {len(zs)} coordinates the root mean square is "
            f"{np.sqrt(np.mean(np.square(zs))):.2f}, and {100 * outside:.1f}% are beyond 1.96. "
            "Coordinates of one posterior are not independent. Where our errors are far below "
            "those of the reference draws, this is a test of the latter; reference draws that "
            "are correlated make z-scores larger.",
            markdown(_z_lines(referenced)),
        ]
    return "\n\n".join(parts) + "\n"


def draw_picture(rows: list[Row], folder: Path) -> None:
    """Empirical distribution functions of ranks minus the uniform one, with 95% bands."""
    ranked = [row for row in rows if "sides" in row]
    edges = np.arange(BINS + 1) / BINS
    with look():
        figure = Figure(figsize=(WIDTH, 2.7), layout="constrained")
        panels = figure.subplots(1, len(ranked), sharex=True, sharey=True, squeeze=False)[0]
        for row, axes in zip(ranked, panels, strict=True):
            for side in SIDES:
                for n, counts in enumerate(row["sides"][side]["counts"]):
                    share = np.concatenate([[0], np.cumsum(counts) / np.sum(counts)])
                    label = side if n == 0 else None
                    axes.plot(edges, share - edges, color=COLOURS[side], lw=1, label=label)
            band = 1.358 / np.sqrt(row["data_sets"])  # of Kolmogorov, for one parameter
            axes.fill_between([0, 1], -band, band, color="0.93", zorder=0)
            axes.set(title=row["model"], xticks=[0, 0.5, 1])
        panels[0].set_ylabel("share of ranks below\nminus the uniform share")
        key(figure, panels[0], "rank of the true parameter, a line per parameter; 95% bands")
        save(figure, folder / PICTURE)


def _rank_lines(rows: list[Row]) -> list[list[str]]:
    lines = [["model", "data sets", "plain", "rebalanced", "draws"]]
    for row in rows:
        if "sides" not in row:
            continue
        least = [min(1.0, min(row["sides"][side]["p"]) * row["dim"]) for side in SIDES]
        name = f"{row['model']}, d = {row['dim']}"
        lines.append([name, str(row["data_sets"]), *(f"{p:.2g}" for p in least), ways(row)])
    return lines


def _z_lines(rows: list[Row]) -> list[list[str]]:
    lines = [
        [
            "posterior",
            "d",
            "draws",
            "root mean square z",
            "largest absolute z",
            "error over sd",
        ]
    ]
    for row in rows:
        z = np.array(row["z"])
        square, most = np.sqrt(np.mean(z**2)), np.max(np.abs(z))
        cells = [f"{square:.2f}", f"{most:.2f}", f"{row['error_over_sd']:.2g}"]
        lines.append([row["posterior"], str(row["dim"]), row["form"], *cells])
    return lines


def _all_z(rows: list[Row]) -> list[float]:
    return [z for row in rows for z in row.get("z", ())]
