"""Pictures of the mixture of images."""

import numpy as np
from matplotlib.figure import Figure

from srmc.paper._style import new_figure

COLOURS = {"ULA": "0.25", "SR-ULA": "C3", "SR-ULA, gain ≥ 0.5": "C0"}


def picture(found, count: int) -> Figure:
    """Modes found against steps, a panel a target; and where one chain goes."""
    targets = list(dict.fromkeys(key[0] for key in found if key[0].startswith("pixels")))
    figure = new_figure(12, 6.6)
    axes = figure.subplots(2, 3).flat
    for axis, target in zip(axes, targets, strict=False):
        seen = set()
        for key, c in found.items():
            if key[0] != target:
                continue
            at = np.unique(np.geomspace(1, len(c.found), 80).astype(int))
            label = None if key[1] in seen else key[1]
            seen.add(key[1])
            axis.plot(at, c.found[at - 1], color=COLOURS[key[1]], lw=1.2, alpha=0.8, label=label)
        axis.set(title=target, xscale="log", xlabel="steps", ylabel="modes found")
        axis.set_ylim(0, 1.05 * count)
        axis.axhline(count, color="0.6", lw=0.8, ls=":")
    axes[0].legend(fontsize=8, loc="upper left")
    for axis, name in zip((axes[4], axes[5]), ("alpha", "epsilon"), strict=True):
        runs = {key[1]: c for key, c in found.items() if key[0] == name}
        values = [float(c.found[-1]) for c in runs.values()]
        axis.plot(range(len(values)), values, "o-", color="C3")
        axis.set_xticks(range(len(values)), [f"{v:g}" for v in runs], fontsize=8)
        steps = len(next(iter(runs.values())).found)
        symbol = "α" if name == "alpha" else "ε, with α = 0.15"
        axis.set(xlabel=symbol, ylabel=f"modes found in {steps} steps", ylim=(0, 1.05 * count))
    return figure
