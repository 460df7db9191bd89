"""Cells of tables: ratios with their errors, and geometric means of ratios."""

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
