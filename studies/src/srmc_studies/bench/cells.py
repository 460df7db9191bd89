"""Tables: ratios with their errors, geometric means of ratios, and lines as Markdown."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table

LEFT: dict[str, Any] = {"title_justify": "left", "caption_justify": "left"}


def cell(ratio: float, error: float) -> str:
    if not np.isfinite(ratio):
        return "not finite"
    if ratio > 100:
        return f"{ratio:.2g}"
    return f"{ratio:.3f} ± {error:.3f}" if ratio > 0.01 else f"{ratio:.1g} ± {error:.1g}"


def geometric_mean(ratios: Iterable[float]) -> str:
    """The geometric mean of ratios, or nothing if there are none."""
    values = list(ratios)
    return f"{np.exp(np.mean(np.log(values))):.3g}" if values else ""


def terminal(title: str, lines: list[list[str]], caption: str | None = None) -> Table:
    """A table for the terminal from its lines, of which the first is the heading."""
    out = Table(box=SIMPLE_HEAD, title=title, caption=caption, **LEFT)
    for n, column in enumerate(lines[0]):
        out.add_column(column, justify="left" if n == 0 else "right")
    for line in lines[1:]:
        out.add_row(*line)
    return out


def markdown(lines: list[list[str]]) -> str:
    """A table from its lines, of which the first is the heading."""
    rows = [lines[0], ["---"] * len(lines[0]), *lines[1:]]
    return "\n".join(f"| {' | '.join(line)} |" for line in rows)


def ways(row: dict[str, Any]) -> str:
    """How many runs were moved; rows of older versions have the form of the map."""
    counts: dict[str, int] = row.get("forms", {})
    return ", ".join(f"{way}: {n}" for way, n in sorted(counts.items()))
