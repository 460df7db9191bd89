"""Tables: ratios with their errors, geometric means of ratios, and lines as Markdown."""

from collections.abc import Iterable
from typing import Any

import numpy as np

LEFT: dict[str, Any] = {"title_justify": "left", "caption_justify": "left"}


def cell(ratio: float, error: float) -> str:
    if not np.isfinite(ratio):
        return "not finite"
    return f"{ratio:.2g}" if ratio > 100 else f"{ratio:.3f} ± {error:.3f}"


def geometric_mean(ratios: Iterable[float]) -> str:
    """The geometric mean of ratios, or nothing if there are none."""
    values = list(ratios)
    return f"{np.exp(np.mean(np.log(values))):.3g}" if values else ""


def markdown(lines: list[list[str]]) -> str:
    """A table from its lines, of which the first is the heading."""
    rows = [lines[0], ["---"] * len(lines[0]), *lines[1:]]
    return "\n".join(f"| {' | '.join(line)} |" for line in rows)
