"""How the pictures look."""

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from srmc.types import Float

WIDTH = 7.4  # inches: text has a readable size where a picture is 700 pixels wide
ALPHA_COLOURS = ("0.25", "#3b75af", "#4c9f70", "#d1602c", "#a23b72", "#6b4fa0")


def new_figure(width: float, height: float) -> Figure:
    """An empty figure whose layout prevents overlaps."""
    return Figure(figsize=(width, height), layout="constrained")


def band(
    axis: Axes,
    x: Float[np.ndarray, " point"],
    errors: Float[np.ndarray, "replicate point"],
    colour: str,
    **line: Any,
) -> None:
    """Draw the mean over replicates on a logarithmic axis, with its 95% interval."""
    errors = np.asarray(errors, float)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = errors.mean(axis=0)
        half = 1.96 * errors.std(axis=0, ddof=1) / np.sqrt(len(errors))
    good = np.isfinite(mean) & np.isfinite(half)
    if not good.any():
        return
    axis.plot(x[good], mean[good], color=colour, **line)
    low = np.maximum(mean - half, mean / 10)
    axis.fill_between(x[good], low[good], (mean + half)[good], color=colour, alpha=0.15, lw=0)


def save(figure: Figure, path: Path) -> None:
    """Write a small PNG of 128 colours, and an SVG that is the same in every run."""
    from PIL import Image

    figure.savefig(path.with_suffix(".png"), dpi=110)
    with Image.open(path.with_suffix(".png")) as image:
        small = image.convert("RGB").quantize(128)
    small.save(path.with_suffix(".png"), optimize=True)
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": path.stem}):
        figure.savefig(path.with_suffix(".svg"), dpi=80, metadata={"Date": None})
