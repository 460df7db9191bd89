"""The picture of figure 2: a row a target and sampler, a column a family."""

import textwrap
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from srmc.paper._families import ADAPTIVE, ALPHAS
from srmc.paper._style import ALPHA_COLOURS, band, new_figure

LABELS = {"gradients": "gradients since burn-in", "seconds": "processor seconds since burn-in"}


def picture(found, axis_name: str) -> Figure:
    """Errors against gradients or seconds, with 95% bands; diverging curves leave at the top."""
    figure = new_figure(12, 3.1 * len(found) + 0.6)
    axes = figure.subplots(len(found), 3, sharey="row", squeeze=False)
    colours = dict(zip(ALPHAS, ALPHA_COLOURS[1:], strict=True))
    for row, (block, curves) in zip(axes, found.items(), strict=True):
        printed, adaptive, tuned = row
        for axis in row:
            _draw(axis, curves["plain"], axis_name, "0.25", label="plain, printed step", lw=1.8)
        for a in ALPHAS:
            _draw(printed, curves["fixed", a], axis_name, colours[a], label=f"α = {a:g}")
        for rule, style in (("capped", "-"), ("guarded", "--")):
            for a in ADAPTIVE:
                label = f"{rule}, {a:g}"
                _draw(adaptive, curves[rule, a], axis_name, colours[a], ls=style, label=label)
        beside = {
            "plain, control variates": ("0.25", ":", "o"),
            "well-tuned": ("C0", "-", None),
            "control variates": ("C0", ":", "o"),
            "self-tuned": ("C3", "-", None),
        }
        for name, (colour, style, marker) in beside.items():
            if name in curves:
                look = {"ls": style, "marker": marker, "ms": 3, "label": _label(name)}
                _draw(tuned, curves[name], axis_name, colour, **look)
        controls = [c for k, c in curves.items() if "control" in k]
        exact = [c for c in controls if c.last.mean() < 1e-9]
        shown = [c.errors.mean(axis=0) for c in curves.values() if not _is_lost(c)]
        values = np.concatenate([v for v in shown if v[-1] > 1e-9])
        row[0].set_ylim(values.min() / 3, 3 * values.max())
        lost = [f"{k[0]} {k[1]:g}" for k, c in curves.items() if _is_lost(c)]
        _note(printed, [name for name in lost if "fixed" in name], "diverged")
        _note(adaptive, [name for name in lost if "fixed" not in name], "diverged")
        _note(tuned, ["control variates"] if exact else [], "exact to rounding")
        row[0].set_ylabel(f"{block[0]}, {block[1].upper()}\nsquared error of the mean")
        for axis in row:
            axis.set(xscale="log", yscale="log", xlabel=LABELS[axis_name])
            axis.xaxis.set_minor_formatter(NullFormatter())
    for axis, title in zip(axes[0], ("as printed", "adaptive rules", "self-tuned"), strict=True):
        axis.set_title(title)
    for n, column in enumerate(axes.T):
        entries: dict[str, Any] = {}
        for axis in column:
            entries |= dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
        place: Any = {"loc": f"outside lower {('left', 'center', 'right')[n]}", "ncols": 2}
        figure.legend(list(entries.values()), list(entries), fontsize=8, **place)
    return figure


def _is_lost(curve) -> bool:
    """Whether the mean error is so large that the curve is better named than drawn."""
    with np.errstate(over="ignore"):
        return not curve.errors.mean(axis=0).max() < 300


def _note(axis, names: list[str], what: str) -> None:
    if names:
        text = f"{what}: " + ", ".join(names)
        axis.text(0.02, 0.03, textwrap.fill(text, 34), transform=axis.transAxes, fontsize=8)


def _label(name: str) -> str:
    names = {"well-tuned": "plain, tuned step", "control variates": "the same, control variates"}
    return names.get(name, name)


def _draw(axis, curve, axis_name, colour, **line):
    x = getattr(curve, axis_name)
    if x is not None and not _is_lost(curve):
        band(axis, x, curve.errors, colour, **{"lw": 1.2} | line)
