"""The pictures of figure 2: one per target, with a column per sampler and a row per family."""

import textwrap
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from srmc_studies.paper._families import ALPHAS, Curve, Curves
from srmc_studies.paper._problems import Block, title
from srmc_studies.paper._style import ALPHA_COLOURS, WIDTH, band, new_figure

LABELS = {
    "steps": "steps since burn-in",
    "gradients": "gradients since burn-in",
    "processor time": "processor seconds since burn-in",
}
COLOURS = dict(zip(ALPHAS, ALPHA_COLOURS[1:], strict=True))
# Colour, line and marker of the curves beside the self-tuned one, and their labels.
TUNED: dict[str, tuple[str, str, str | None, str]] = {
    "plain, control variates": ("0.25", ":", "o", "plain, control variates"),
    "well-tuned": ("C0", "-", None, "plain, tuned step"),
    "control variates": ("C0", ":", "o", "tuned step, control variates"),
    "self-tuned": ("C3", "-", None, "self-tuned"),
}


def pictures(found: dict[Block, Curves], view: str) -> dict[str, Figure]:
    """A picture for each target, against steps, gradients or processor time."""
    targets = dict.fromkeys(name for name, _ in found)
    return {
        f"{view.split()[-1]}-{target}": _picture(
            {block: curves for block, curves in found.items() if block[0] == target}, view
        )
        for target in targets
    }


def _picture(found: dict[Block, Curves], view: str) -> Figure:
    """Draw errors of one target with 95% intervals, narrow enough to be read on a page.

    A row for each derivative rule, and one for the self-tuned samplers. On the Gaussian all rules
    are the same. Diverging curves are named in the panel.
    """
    first = next(iter(found.values()))
    rules = list(dict.fromkeys(key[0] for key in first if isinstance(key, tuple)))
    if next(iter(found))[0] == "gaussian":
        rules = rules[:1]
    down = 1 + len(rules)
    figure = new_figure(WIDTH, 2.3 * down + 0.9)
    axes = figure.subplots(down, len(found), sharex="col", sharey="col", squeeze=False)
    for column, (block, curves) in zip(axes.T, found.items(), strict=True):
        _draw_row(column, rules, curves, view)
        column[0].set_title(title(block))
        column[-1].set_xlabel(LABELS[view])
    names = ["any rule"] if len(rules) == 1 else [_short(rule) for rule in rules]
    for axis, name in zip(axes[:, 0], (*names, "self-tuned"), strict=True):
        axis.set_ylabel(f"{name}\nsquared error")
    entries: dict[str, Artist] = {}
    for axis in axes[[0, -1]].flat:
        entries |= dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    handles = list(entries.values())
    figure.legend(handles, list(entries), fontsize=9, loc="outside lower center", ncols=3)
    return figure


def _short(rule: str) -> str:
    """The name of a derivative rule above a panel.

    >>> _short("finite difference, epsilon = alpha")
    'difference, ε = α'
    """
    return rule.replace("finite ", "").replace("epsilon", "ε").replace("alpha", "α")


def _draw_row(row: np.ndarray, rules: list[str], curves: Curves, view: str) -> None:
    """Draw the panels of one problem."""
    for axis in row:
        _draw(axis, curves["plain"], view, "0.25", label="plain, printed step", lw=1.8)
        axis.set(xscale="log", yscale="log")
        axis.xaxis.set_minor_formatter(NullFormatter())
    for axis, rule in zip(row, rules, strict=False):
        for a in ALPHAS:
            _draw(axis, curves[rule, a], view, COLOURS[a], label=f"α = {a:g}")
        _note(axis, [f"α = {a:g}" for a in ALPHAS if _is_lost(curves[rule, a])])
    for name, (colour, style, marker, label) in TUNED.items():
        if name in curves:
            look = {"ls": style, "marker": marker, "ms": 3, "label": label}
            _draw(row[-1], curves[name], view, colour, **look)
    shown = [c.errors.mean(axis=0) for c in curves.values() if not _is_lost(c)]
    values = np.concatenate([v for v in shown if v[-1] > 1e-9])
    row[0].set_ylim(values.min() / 3, 3 * values.max())
    exact = any("control" in k and c.last.mean() < 1e-9 for k, c in curves.items())
    _note(row[-1], [k for k, c in curves.items() if isinstance(k, str) and _is_lost(c)], exact)


def _is_lost(curve: Curve) -> bool:
    """Whether the mean error is so large that the curve is named instead of drawn."""
    with np.errstate(over="ignore"):
        return not np.max(curve.errors.mean(axis=0)) < 300


def _note(axis: Axes, lost: list[str], exact: bool = False) -> None:
    """Name the curves that are not drawn."""
    notes = ["diverged: " + ", ".join(lost)] if lost else []
    notes += ["exact to rounding: control variates"] if exact else []
    text = textwrap.fill("; ".join(notes), 40)
    axis.text(0.02, 0.03, text, transform=axis.transAxes, fontsize=8)


def _draw(axis: Axes, curve: Curve, view: str, colour: str, **line: Any) -> None:
    if not _is_lost(curve):
        band(axis, curve.cost(view), curve.errors, colour, **{"lw": 1.2} | line)
