"""Small charts as SVG, whose colours are classes of the page that they are on."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from srmc.results.markup import Markup, tag

WIDTH, HEIGHT = 360, 150
LEFT, RIGHT, TOP, BOTTOM = 50, 16, 8, 24


class Line(NamedTuple):
    """A line through points, and the class that gives it its colour."""

    x: np.ndarray
    y: np.ndarray
    kind: str


class Axes(NamedTuple):
    """The ranges of both axes."""

    x: tuple[float, float]
    y: tuple[float, float]

    @staticmethod
    def around(lines: Sequence[Line], floor: float | None = None) -> "Axes":
        """Ranges that hold all lines; the vertical one begins at `floor` if that is given."""
        x, y = (np.concatenate([np.asarray(line[n], float) for line in lines]) for n in (0, 1))
        low, high = _range(y)
        return Axes(_range(x), (low if floor is None else floor, high))

    def place(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Points of the drawing."""
        wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
        across = (np.asarray(x, float) - self.x[0]) / (self.x[1] - self.x[0])
        up = (np.asarray(y, float) - self.y[0]) / (self.y[1] - self.y[0])
        return LEFT + wide * across, TOP + high * (1 - up)


def chart(
    lines: Sequence[Line], label: str, marks: np.ndarray | None = None, floor: float | None = None
) -> Markup:
    """Lines over one another; `marks` are places on the horizontal axis."""
    lines = [line for line in lines if np.any(np.isfinite(line.y))]
    if not lines:
        return tag("p", "Nothing finite to show.", class_="small")
    axes = Axes.around(lines, floor)
    inside = [_grid(axes)]
    for line in lines:
        x, y = axes.place(line.x, line.y)
        pairs = zip(x, y, strict=True)
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in pairs if np.isfinite(a + b))
        inside.append(tag("polyline", points=points, class_=line.kind))
    if marks is not None and len(marks):
        x, _ = axes.place(marks, np.full(len(marks), axes.y[0]))
        path = "".join(f"M{a:.1f} {HEIGHT - BOTTOM}v-7" for a in x)
        inside.append(tag("path", d=path, class_="mark"))
    return tag("svg", *inside, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=label)


def outline(values: np.ndarray, edges: np.ndarray, kind: str) -> Line:
    """The density of a histogram as a line."""
    counts, _ = np.histogram(values, edges)
    heights = counts / max(1, values.size) / np.diff(edges)
    return Line(np.repeat(edges, 2), np.concatenate([[0.0], np.repeat(heights, 2), [0.0]]), kind)


def bin_edges(values: np.ndarray) -> np.ndarray:
    """Edges for histograms: around the values if these are few, else about 40 of equal width."""
    few = np.unique(values[:10_000])
    if 1 < len(few) <= 20 and np.all(np.isin(values, few)):
        half = np.diff(few) / 2
        return np.concatenate([[few[0] - half[0]], few[:-1] + half, [few[-1] + half[-1]]])
    low, high = _range(np.quantile(values, (0.001, 0.999)))
    return np.linspace(low, high, 41)


def _grid(axes: Axes) -> Markup:
    """Lines and numbers at round places of both axes."""
    inside = []
    for value in _ticks(*axes.x):
        x, _ = axes.place(np.array([value]), np.array([axes.y[0]]))
        text = _number(value)
        inside.append(tag("text", text, x=f"{x[0]:.1f}", y=HEIGHT - 6, class_="across"))
    for value in _ticks(*axes.y):
        _, y = axes.place(np.array([axes.x[0]]), np.array([value]))
        at = f"{y[0]:.1f}"
        inside.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=at, y2=at, class_="rule"))
        inside.append(tag("text", _number(value), x=LEFT - 5, y=f"{y[0] + 4:.1f}", class_="up"))
    return tag("g", *inside)


def _range(values: np.ndarray) -> tuple[float, float]:
    finite = values[np.isfinite(values)]
    low, high = float(np.min(finite)), float(np.max(finite))
    if high - low <= 1e-9 * max(abs(low), abs(high), 1e-300):
        pad = 0.5 * abs(low) or 0.5
        return low - pad, high + pad
    return low, high


def _ticks(low: float, high: float) -> list[float]:
    """Two to five round numbers between both.

    >>> _ticks(-0.3, 2.4)
    [0.0, 1.0, 2.0]
    """
    size = 10 ** np.floor(np.log10((high - low) / 2))
    step = max(k * size for k in (1, 2, 5) if k * size <= (high - low) / 2)
    return [
        float(step * n) for n in range(int(np.ceil(low / step)), int(np.floor(high / step)) + 1)
    ]


def _number(value: float) -> str:
    return f"{value:.4g}".replace("-", "\N{MINUS SIGN}")
