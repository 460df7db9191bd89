"""Traces and densities of the first coordinates of a run."""

from collections.abc import Iterator

import numpy as np

from srmc.results.charts import Line, bin_edges, chart, outline
from srmc.results.markup import Markup, limit, tag
from srmc.results.result import Result
from srmc.results.shown import Shown, kind_of

PANELS = 8  # coordinates with a trace and a density
FOLDED = 32  # further ones, below them
CHAINS = 4  # in a trace
POINTS = 300  # of a chain in a trace


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
