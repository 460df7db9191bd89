"""Panels of ratios: a line per target, a dot per measurement, and smaller errors on the left."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from srmc.results.look import COLOURS, OTHERS

LEAST = 1e-4  # smaller ratios are drawn here, as triangles that point to the left
LEFT_IS_BETTER = "← smaller errors"
RIVAL = {"color": OTHERS[0], "marker": "D", "markerfacecolor": "none"}
OURS = {"color": COLOURS["rebalanced"], "marker": "o"}
REPELLED = {"color": COLOURS["repelled"], "marker": "o"}
TICKS = {1e-4: "10⁻⁴", 1e-2: "10⁻²", 0.1: "0.1", 1.0: "1", 10.0: "10"}


def dots(
    axes: Axes,
    values: Sequence[float],
    errors: Sequence[float],
    lower: float = 0.0,
    least: float = -np.inf,
    **look: Any,
) -> None:
    """Draw values with 95% intervals, one per line, `lower` by a part of a line.

    Values below `least` are drawn there, and what is not finite is left out.
    """
    x, half = np.asarray(values, float), 1.96 * np.asarray(errors, float)
    y, style = np.arange(len(x)) + lower, {"linestyle": "none", "ms": 4.5, **look}
    inside, below = x >= least, x < least
    ends = np.maximum(x - half, least)[inside], (x + half)[inside]
    axes.hlines(y[inside], *ends, color=look["color"], lw=1)
    axes.plot(x[inside], y[inside], **style)
    style |= {"marker": "<", "label": None}
    axes.plot(np.full(np.sum(below), least), y[below], **style)


def name_lines(axes: Axes, lines: Sequence[str], title: str, same: float) -> None:
    """Name the lines, and mark the value `same`."""
    axes.axvline(same, color="0.3", linewidth=1, zorder=0)
    axes.set_yticks(range(len(lines)), lines)
    axes.set_ylim(len(lines) - 0.4, -0.6)
    axes.grid(axis="y", color="0.92")
    axes.tick_params(axis="y", length=0)
    axes.set_axisbelow(True)
    axes.set_title(title, loc="left")


def of_ratios(axes: Axes, low: float, high: float) -> None:
    """A logarithmic axis with few ticks."""
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    found = [tick for tick in TICKS if low <= tick <= high]
    found = [tick for tick in found if tick != 0.1 or low > 1e-3]
    axes.set_xticks(found, [TICKS[tick] for tick in found])
    axes.set_xticks([], minor=True)


def key(figure: Figure, axes: Axes, label: str) -> None:
    """Explain the markers above the panels, and the horizontal axis below them."""
    figure.supxlabel(label, fontsize=10)
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
