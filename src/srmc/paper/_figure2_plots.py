"""The picture of figure 2: one row per target and sampler, one column per family."""

import textwrap
from typing import Any, Literal, TypeAlias

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from srmc.paper._families import ADAPTIVE, ALPHAS, Curve, Curves, key_name
from srmc.paper._problems import Block, title
from srmc.paper._style import ALPHA_COLOURS, band, new_figure

LABELS = {"gradients": "gradients since burn-in", "seconds": "processor seconds since burn-in"}
Place: TypeAlias = Literal["outside lower left", "outside lower center", "outside lower right"]
PLACES: tuple[Place, ...] = ("outside lower left", "outside lower center", "outside lower right")
COLOURS = dict(zip(ALPHAS, ALPHA_COLOURS[1:], strict=True))
# Colour, line and marker of the curves beside the self-tuned one, and their labels.
TUNED: dict[str, tuple[str, str, str | None, str]] = {
    "plain, control variates": ("0.25", ":", "o", "plain, control variates"),
    "well-tuned": ("C0", "-", None, "plain, tuned step"),
    "control variates": ("C0", ":", "o", "tuned step, control variates"),
    "self-tuned": ("C3", "-", None, "self-tuned"),
}


def picture(found: dict[Block, Curves], cost: str) -> Figure:
    """Draw errors against `cost`, "gradients" or "seconds", with 95% intervals.

    Diverging curves leave the panel at its top.
    """
    figure = new_figure(12, 3.1 * len(found) + 0.6)
    axes = figure.subplots(len(found), 3, sharey="row", squeeze=False)
    for row, (block, curves) in zip(axes, found.items(), strict=True):
        _draw_row(row, curves, cost)
        row[0].set_ylabel(f"{title(block)}\nsquared error of the mean")
    for axis, name in zip(axes[0], ("as printed", "adaptive rules", "self-tuned"), strict=True):
        axis.set_title(name)
    for place, column in zip(PLACES, axes.T, strict=True):
        entries: dict[str, Artist] = {}
        for axis in column:
            entries |= dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
        figure.legend(list(entries.values()), list(entries), fontsize=8, loc=place, ncols=2)
    return figure


def _draw_row(row: np.ndarray, curves: Curves, cost: str) -> None:
    """Draw the three panels of one problem."""
    printed, adaptive, tuned = row
    for axis in row:
        _draw(axis, curves["plain"], cost, "0.25", label="plain, printed step", lw=1.8)
    for a in ALPHAS:
        _draw(printed, curves["fixed", a], cost, COLOURS[a], label=f"α = {a:g}")
    for rule, style in (("capped", "-"), ("guarded", "--")):
        for a in ADAPTIVE:
            label = f"{rule}, {a:g}"
            _draw(adaptive, curves[rule, a], cost, COLOURS[a], ls=style, label=label)
    for name, (colour, style, marker, label) in TUNED.items():
        if name in curves:
            look = {"ls": style, "marker": marker, "ms": 3, "label": label}
            _draw(tuned, curves[name], cost, colour, **look)
    shown = [c.errors.mean(axis=0) for c in curves.values() if not _is_lost(c)]
    values = np.concatenate([v for v in shown if v[-1] > 1e-9])
    row[0].set_ylim(values.min() / 3, 3 * values.max())
    lost = [k for k, c in curves.items() if _is_lost(c)]
    exact = any("control" in k and c.last.mean() < 1e-9 for k, c in curves.items())
    _note(printed, [key_name(k) for k in lost if k[0] == "fixed"])
    _note(adaptive, [key_name(k) for k in lost if k[0] in ("capped", "guarded")])
    _note(tuned, [k for k in lost if isinstance(k, str)], exact)
    for axis in row:
        axis.set(xscale="log", yscale="log", xlabel=LABELS[cost])
        axis.xaxis.set_minor_formatter(NullFormatter())


def _is_lost(curve: Curve) -> bool:
    """Whether the mean error is so large that the curve is named instead of drawn."""
    with np.errstate(over="ignore"):
        return not np.max(curve.errors.mean(axis=0)) < 300


def _note(axis: Axes, lost: list[str], exact: bool = False) -> None:
    """Name the curves that are not drawn."""
    notes = ["diverged: " + ", ".join(lost)] if lost else []
    notes += ["exact to rounding: control variates"] if exact else []
    text = textwrap.fill("; ".join(notes), 34)
    axis.text(0.02, 0.03, text, transform=axis.transAxes, fontsize=8)


def _draw(axis: Axes, curve: Curve, cost: str, colour: str, **line: Any) -> None:
    x = curve.gradients if cost == "gradients" else curve.seconds
    if x is not None and not _is_lost(curve):
        band(axis, x, curve.errors, colour, **{"lw": 1.2} | line)
