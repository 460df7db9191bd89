"""The look of all pictures: what a colour means, sizes that can be read, and files that are small.

A picture that is `WIDTH` inches wide and shown 700 pixels wide has text of 12 pixels or more.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

__all__ = ["COLOURS", "OTHERS", "WIDTH", "look", "save"]

PLAIN = "#808890"
COLOURS = {"plain": PLAIN, "draws": PLAIN, "rebalanced": "#c2410c", "repelled": "#2563b8"}
OTHERS = ("#18794e", "#8547b5", "#0e7490", "#96690a")  # other chains and libraries
WIDTH = 7.4
SETTINGS: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "0.45",
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    "xtick.labelsize": 9.5,
    "ytick.labelsize": 9.5,
}


@contextmanager
def look() -> Iterator[None]:
    """Settings of matplotlib for a picture, which are taken back."""
    with matplotlib.rc_context(SETTINGS):
        yield


def save(figure: Figure, path: Path) -> None:
    """Write a PNG of 128 colours, sharp on screens with two pixels per point."""
    from PIL import Image

    with look():  # ticks are made when a figure is drawn
        figure.savefig(path, dpi=190)
    with Image.open(path) as image:
        small = image.convert("RGB").quantize(128)
    small.save(path, optimize=True)
