"""Pictures of mixing on MNIST: measures along the runs, and states."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import srmc
from srmc.types import Float
from srmc_studies.paper._mixing_rows import PLAIN, PRINTED, TEMPERED, UNIFORM, Found
from srmc_studies.paper._style import new_figure

SHOWN = (PLAIN, PRINTED, "DLP", TEMPERED)
POINTS = 30


def curves(found: Mapping[str, Found], weights: Float[np.ndarray, " cls"]) -> Figure:
    """Divergence, Vendi score and energy against gradients and against steps."""
    figure = new_figure(12, 7)
    axes = figure.subplots(2, 3)
    for row, view in zip(axes, ("gradients", "steps"), strict=True):
        for n, (name, f) in enumerate(found.items()):
            _draw(row, f, view, {"color": f"C{n}", "label": name, "lw": 1.2})
        for axis, what in zip(row, ("cumulative KL(p‖u)", "batch Vendi score", "energy"),
                              strict=True):  # fmt: skip
            axis.set(xlabel=f"{view} per chain", ylabel=what, xscale="log")
    limit = srmc.metrics.kl_divergence(weights, UNIFORM)
    axes[0, 0].axhline(limit, color="k", ls=":", lw=0.8)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def _draw(axes: np.ndarray, f: Found, view: str, line: dict[str, object]) -> None:
    x = getattr(f.path, view)
    at = np.unique(np.geomspace(1, len(x) - 1, POINTS).astype(int))
    divergence = [srmc.metrics.kl_divergence(f.seen.counts(n).sum(axis=0), UNIFORM) for n in at]
    vendi = [srmc.metrics.vendi_score(f.seen.probabilities(n)) for n in at]
    for axis, y in zip(axes, (divergence, vendi, f.seen.energies[at].mean(axis=1)), strict=True):
        axis.plot(x[at], y, **line)


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
