"""Pictures of mixing on MNIST: measures at the end with their 95% intervals, and states."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from srmc.types import Float
from srmc_studies.paper._mixing_rows import PLAIN, PRINTED, TEMPERED, Found
from srmc_studies.paper._style import new_figure

SHOWN = (PLAIN, PRINTED, "DLP", TEMPERED)
MEASURES = {
    "KL(p||u)": "cumulative KL(p‖u); dotted: ln 10",
    "Vendi": "batch Vendi score",
    "energy": "energy",
}
LARGEST = np.log(10)  # of KL from uniform over ten classes


def ends(numbers: Mapping[str, Any]) -> Figure:
    """Divergence, Vendi score and energy at the end, at equal steps and at equal gradients."""
    names = [name for name, each in numbers.items() if isinstance(each, dict)]
    figure = new_figure(9.5, 4.2)
    axes = figure.subplots(1, 3, sharey=True)
    for axis, (measure, label) in zip(axes, MEASURES.items(), strict=True):
        for k, view in enumerate(("equal steps", "equal gradients")):
            each = [numbers[name][view][measure] for name in names]
            value, error = (np.array(x, float) for x in zip(*each, strict=True))
            at = np.arange(len(names)) + 0.24 * k - 0.12
            axis.errorbar(
                value, at, xerr=1.96 * error, fmt="os"[k], ms=4, capsize=2, lw=1.2, label=view
            )
        axis.set_xlabel(label)
        axis.grid(axis="y", color="0.9")
    axes[0].set_yticks(range(len(names)), [name.replace("alpha", "α") for name in names])
    axes[0].invert_yaxis()
    axes[0].set_xlim(left=0)
    axes[0].axvline(LARGEST, color="k", ls=":", lw=0.8)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def snapshots(found: Mapping[str, Found], steps: int) -> Figure:
    """Ten chains of some samplers, at the start and after each quarter of the steps."""
    figure = new_figure(8.4, 4.8)
    panels = figure.subplots(2, 2).flat
    for axis, name in zip(panels, SHOWN, strict=True):
        path = found[name].path
        at = np.linspace(0, path.until(steps=steps), 5).astype(int)
        show_grid(axis, path.states[at][:, :10])
        axis.set_yticks(14 + 28 * np.arange(5), [f"{path.steps[n]:,.0f}" for n in at], fontsize=8)
        axis.set(title=name, ylabel="steps")
    return figure


def show_grid(axis: Axes, x: Float[np.ndarray, "row column pixel"]) -> None:
    """Draw binary images in rows and columns."""
    rows, columns, pixels = x.shape
    side = round(pixels**0.5)
    picture = x.reshape(rows, columns, side, side).transpose(0, 2, 1, 3)
    axis.imshow(picture.reshape(rows * side, columns * side), cmap="gray_r", vmin=0, vmax=1)
    axis.set_xticks([])
