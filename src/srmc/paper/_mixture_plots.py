"""The picture of the mixture of images."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from srmc.paper._coverage import Case, Coverage
from srmc.paper._style import new_figure

COLOURS: dict[str | float, str] = {"ULA": "0.25", "SR-ULA": "C3", "SR-ULA, gain ≥ 0.5": "C0"}


def picture(found: Mapping[Case, Coverage], count: int) -> Figure:
    """Modes found against steps, one panel per target, and against alpha and epsilon."""
    targets = list(dict.fromkeys(c.group for c in found if c.group.startswith("pixels")))
    figure = new_figure(12, 6.6)
    axes = figure.subplots(2, 3).flat
    for axis, target in zip(axes, targets, strict=False):
        _draw_target(axis, {k: c for k, c in found.items() if k.group == target}, count)
        axis.set(title=target)
    axes[0].legend(fontsize=8, loc="upper left")
    for axis, name in zip((axes[4], axes[5]), ("alpha", "epsilon"), strict=True):
        runs = {case.value: c for case, c in found.items() if case.group == name}
        values = [float(c.found[-1]) for c in runs.values()]
        axis.plot(range(len(values)), values, "o-", color="C3")
        axis.set_xticks(range(len(values)), [f"{v:g}" for v in runs], fontsize=8)
        steps = len(next(iter(runs.values())).found)
        symbol = "α" if name == "alpha" else "ε, with α = 0.15"
        axis.set(xlabel=symbol, ylabel=f"modes found in {steps} steps", ylim=(0, 1.05 * count))
    return figure


def _draw_target(axis: Axes, runs: Mapping[Case, Coverage], count: int) -> None:
    seen: set[str | float] = set()
    for case, c in runs.items():
        at = np.unique(np.geomspace(1, len(c.found), 80).astype(int))
        label = None if case.value in seen else case.value
        seen.add(case.value)
        axis.plot(at, c.found[at - 1], color=COLOURS[case.value], lw=1.2, alpha=0.8, label=label)
    axis.set(xscale="log", xlabel="steps", ylabel="modes found", ylim=(0, 1.05 * count))
    axis.axhline(count, color="0.6", lw=0.8, ls=":")
