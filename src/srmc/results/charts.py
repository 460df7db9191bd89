"""Small charts as SVG, in HTML in which every text is escaped, unless it is markup already."""

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np

from srmc.results.result import Result
from srmc.results.shown import Shown, kind_of


class Markup(str):
    """Text that is HTML."""


def tag(name: str, *inside: Any, **attributes: Any) -> Markup:
    """An element; attributes such as `class_` and `aria_label` lose and change underscores.

    >>> print(tag("p", "a < b", tag("b", "!"), class_="note"))
    <p class="note">a &lt; b<b>!</b></p>
    """
    names = {key: key.rstrip("_").replace("_", "-") for key in attributes}
    shown = "".join(f' {names[k]}="{escape(str(v))}"' for k, v in attributes.items())
    return Markup(f"<{name}{shown}>{join(inside)}</{name}>")


def join(parts: Iterable[Any]) -> Markup:
    """Parts one after the other, escaped where they are not markup."""
    return Markup("".join(x if isinstance(x, Markup) else escape(str(x)) for x in parts))


def table(heads: Sequence[Sequence[Any]], rows: Iterable[Sequence[Any]]) -> Markup:
    """A table that scrolls in a box of its own; the first entry of a row is its head.

    A head is a text, or a pair of a text and the number of columns that it spans.
    """
    row = lambda cells: tag("tr", *cells)
    head = [row(_head(cell) for cell in line) for line in heads]
    body = [
        row((tag("th", first, scope="row"), *(tag("td", x) for x in rest))) for first, *rest in rows
    ]
    inside = ([tag("thead", *head)] if head else []) + [tag("tbody", *body)]
    return tag("div", tag("table", *inside), class_="scroll", tabindex=0)


def limit(total: int, shown: int, what: str) -> Iterator[Markup]:
    """A note where not everything is shown."""
    if total > shown:
        yield tag("p", f"The first {shown:,} of {total:,} {what}.", class_="small")


def _head(cell: Any) -> Markup:
    if isinstance(cell, tuple):
        return tag("th", cell[0], scope="colgroup", colspan=cell[1])
    return tag("th", cell, scope="col")


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


def scatter(points: np.ndarray, label: str) -> Markup:
    """Points (n, 2); lines of length 0 have round ends."""
    fine = points[np.all(np.isfinite(points), axis=1)]
    if not len(fine):
        return tag("p", "Nothing finite to show.", class_="small")
    axes = Axes.around([Line(fine[:, 0], fine[:, 1], "dots")])
    path = "".join(f"M{a:.1f} {b:.1f}h0" for a, b in zip(*axes.place(*fine.T), strict=True))
    inside = _grid(axes), tag("path", d=path, class_="dots")
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


PANELS = 8  # coordinates shown with a trace and a density
FOLDED = 32  # further coordinates, shown in a folded section
CHAINS = 4  # chains per trace plot
POINTS = 300  # points per chain in a trace plot


def pictures(result: Result, shown: Shown) -> Iterator[Markup]:
    """The section of a page."""
    yield tag("h2", "Traces and densities" if result.kept.draws is not None else "Means of batches")
    every = -(-shown.after.shape[1] // POINTS)
    chains = shown.after[:CHAINS, ::every]
    steps = 1 + every * np.arange(chains.shape[1])
    what = kind_of(result)
    keys = [tag("span", class_="key after"), what]
    if shown.before is not None:
        keys += [tag("span", class_="key before"), "plain"]
    diverging = _divergences(result)
    if len(diverging):
        keys += [tag("span", class_="key mark"), "draws after a divergence"]
    if result.kept.draws is not None:
        traced = "the first" if len(shown.after) > CHAINS else "all"
        part = f"one draw in {every}" if every > 1 else "every draw"
        trace = f"Left: {part} of {traced} {len(chains)} chains, a colour each. "
        yield tag("p", trace, "Right: the density of all draws,", *keys, ".", class_="small")
    panels = []
    for k, name in enumerate(shown.names[: PANELS + FOLDED]):
        lines = [Line(steps, x[:, k], f"trace c{n}") for n, x in enumerate(chains)]
        charts = [chart(lines, f"Traces of {name}", diverging)]
        if result.kept.draws is not None:
            charts.append(_density(shown, k, name))
        panels.append(
            tag("div", tag("h3", name), tag("div", *charts, class_="pair"), class_="panel")
        )
    yield tag("div", *panels[:PANELS], class_="grid")
    if more := panels[PANELS:]:
        heading = tag("summary", f"{len(more)} more coordinates")
        yield tag("details", heading, tag("div", *more, class_="grid"))
    yield from limit(shown.total, len(panels), "coordinates are shown")


def _density(shown: Shown, k: int, name: str) -> Markup:
    sides = {"before": shown.before, "after": shown.after}
    finite = {s: x[..., k][np.isfinite(x[..., k])] for s, x in sides.items() if x is not None}
    pooled = np.concatenate(list(finite.values()))
    if not pooled.size:
        return tag("p", "No finite draws.", class_="small")
    edges = bin_edges(pooled)
    return chart([outline(x, edges, s) for s, x in finite.items()], f"Density of {name}", floor=0.0)


def _divergences(result: Result) -> np.ndarray:
    """The draws of the traces that came after a divergence."""
    if result.kept.draws is None or "diverging" not in result.stats:
        return np.array([])
    return 1 + np.flatnonzero(np.any(np.asarray(result.stats["diverging"])[:CHAINS] > 0, axis=0))
