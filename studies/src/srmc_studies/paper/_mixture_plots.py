"""The picture of the mixture of images."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from srmc_studies.paper._coverage import Case, Coverage
from srmc_studies.paper._mixture_rows import EXACT, SCALES, pixels
from srmc_studies.paper._style import new_figure

# Colour and width; ULA is drawn wide, since SR-ULA lies on it.
LOOK: dict[str | float, tuple[str, float]] = {
    "ULA": ("0.7", 5.0),
    "SR-ULA": ("C3", 1.2),
    EXACT: ("C0", 1.2),
}


def picture(found: Mapping[Case, Sequence[Coverage]], count: int) -> Figure:
    """Modes found against steps, one panel per pixel scale, and against alpha and epsilon."""
    figure = new_figure(10, 6.8)
    top, bottom = figure.subfigures(2, 1, squeeze=False)[:, 0]
    for axis, scale in zip(top.subplots(1, 3, sharey=True), SCALES, strict=True):
        _draw_target(axis, {k.value: c for k, c in found.items() if k.group == pixels(scale)})
        axis.axhline(count, color="0.6", lw=0.8, ls=":")
        axis.set(title=pixels(scale), ylim=(0, 1.05 * count))
    first = figure.axes[0]
    top.legend(*first.get_legend_handles_labels(), fontsize=9, ncols=3, loc="outside upper center")
    for axis, name in zip(bottom.subplots(1, 2, sharey=True), ("alpha", "epsilon"), strict=True):
        runs = {case.value: c for case, c in found.items() if case.group == name}
        values = np.array([[float(c.found[-1]) for c in each] for each in runs.values()])
        half = 1.96 * values.std(axis=1, ddof=1) / np.sqrt(values.shape[1])
        at = np.arange(len(values))
        axis.errorbar(at, values.mean(axis=1), half, fmt="o-", color="C3", capsize=3)
        axis.set_xticks(at, [f"{v:g}" for v in runs], fontsize=8)
        steps = len(next(iter(runs.values()))[0].found)
        symbol = "α" if name == "alpha" else "ε, with α = 0.15"
        axis.set(xlabel=symbol, ylabel=f"modes found in {steps} steps", ylim=(0, 1.05 * count))
    return figure


def _draw_target(axis: Axes, runs: Mapping[str | float, Sequence[Coverage]]) -> None:
    for name, each in runs.items():
        at = np.unique(np.geomspace(1, len(each[0].found), 80).astype(int))
        for n, c in enumerate(each):
            label = str(name) if n == 0 else None
            look: dict[str, Any] = {
                "color": LOOK[name][0],
                "lw": LOOK[name][1],
            }
            axis.plot(at, c.found[at - 1], label=label, **look)
    axis.set(xscale="log", xlabel="steps of all chains", ylabel="modes found")
