"""How the pictures look."""

from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

ALPHA_COLOURS = ("0.25", "#3b75af", "#4c9f70", "#d1602c", "#a23b72", "#6b4fa0")


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, laid out so that nothing overlaps."""
    return Figure(figsize=(width, height), layout="constrained")


def band(axis: Any, x: np.ndarray, errors: np.ndarray, colour: str, **line: Any) -> None:
    """The mean of (replicate, x) on a logarithmic axis, with its 95% band."""
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


def save(figure: Figure, path: Any) -> None:
    """As PNG, in few colours so that it is small, and as SVG, which is the same each time."""
    from PIL import Image

    figure.savefig(path.with_suffix(".png"), dpi=110)
    with Image.open(path.with_suffix(".png")) as image:
        small = image.convert("RGB").quantize(128)
    small.save(path.with_suffix(".png"), optimize=True)
    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": path.stem}
    with matplotlib.rc_context(settings):
        figure.savefig(path.with_suffix(".svg"), dpi=80, metadata={"Date": None})
