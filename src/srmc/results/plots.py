"""A figure of a run: traces, densities and running means, and the loop over time."""

import io
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from srmc.metrics.errors import batch_means_error
from srmc.results.blocks import blocks, labels
from srmc.results.look import COLOURS, OTHERS, WIDTH, look
from srmc.results.pair import pair_of
from srmc.results.result import Result
from srmc.types import Float

MOST = 3  # number of coordinates shown
POINTS = 500  # points per line
KDE_DRAWS = 4000  # draws used to estimate a density
OF_DRAWS = ("all chains", "density", "running mean, 95% band")
OF_BATCHES = ("means of batches, over all chains", "running mean, 95% band")
# What is shown of a run over time: name, label, and whether the axis is logarithmic.
LOOP = (
    ("alpha", "α", False),
    ("theta_norm", "|θ|", True),
    ("exponent", "exponent scale α|Aθ·φ|", True),
    ("acceptance_rate", "acceptance", False),
)
KERNEL = (("acceptance_rate", "acceptance", False), ("gradients", "gradients per draw", False))


class Picture(Figure):
    """A figure that a notebook shows, whatever backend is set up there."""

    def _repr_png_(self) -> bytes:
        out = io.BytesIO()
        with look():
            self.savefig(out, format="png", dpi=90)
        return out.getvalue()


class Series(NamedTuple):
    """One coordinate of a run, or the means of its batches.

    sides
        Its values, (chain, draw), by kind: plain, rebalanced or repelled.
    errors
        The standard error of each mean.
    """

    sides: dict[str, Float[np.ndarray, "chain draw"]]
    errors: dict[str, float]


def plot(result: Result) -> Picture:
    """Traces, densities and running means of the first coordinates, and the loop over time.

    Coordinates and statistics that never change have no panel.
    """
    with look():
        return _plot(result)


def _plot(result: Result) -> Picture:
    shown = coordinates(result)
    statistics = LOOP if _repels(result) else KERNEL
    panels = [p for p in statistics if _varies(result.stats.get(p[0]))]
    titles = OF_DRAWS if result.kept.draws is not None else OF_BATCHES
    rows = max(1, len(shown) + -(-len(panels) // len(titles)))
    figure = Picture(figsize=(2.9 * len(titles), 1.9 * rows), layout="constrained")
    axes = figure.subplots(rows, len(titles), squeeze=False)
    for row, (name, series) in zip(axes, shown.items(), strict=False):
        _trace(row[0], list(series.sides.values())[-1])
        row[0].set_ylabel(name, parse_math=False)
        for side, x in series.sides.items():
            if titles is OF_DRAWS:
                _density(row[1], x, side)
            _running(row[-1], series, side)
    for axis, text in zip(axes[0], titles if shown else (), strict=False):
        axis.set_title(text, fontsize="medium")
    if any(len(series.sides) > 1 for series in shown.values()):
        named = axes[0, -1].get_legend_handles_labels()
        figure.legend(*named, loc="outside upper right", ncols=2, fontsize="small")
    free = list(axes[len(shown) :].flat)
    side = "repelled" if _repels(result) else "plain"
    for axis, (key, label, logarithmic) in zip(free, panels, strict=False):
        _over_time(axis, result.stats[key], label, logarithmic, COLOURS[side])
    for axis in free[len(panels) :]:
        axis.set_visible(False)
    for axis in (*axes[: len(shown), 0], *axes[: len(shown), -1], *free):
        axis.set_xlabel("draw" if titles is OF_DRAWS else "batch", fontsize="small")
    settings = result.about.get("settings", {})
    title = [str(settings[k]) for k in ("model", "kernel") if k in settings]
    title = title if shown else [*title, "no coordinate varies"]
    figure.suptitle(", ".join(title), parse_math=False)  # names are no formulas
    return figure


def plot_pair(result: Result) -> Picture:
    """A parameter and the one whose scale or location follows it, before and after learning."""
    found = pair_of(result)
    if found is None:
        raise ValueError(
            'what="coordinates" needs a run with learned coordinates whose draws were kept; '
            "result.about['coordinates'] says what was learned"
        )
    with look():
        figure = Picture(figsize=(WIDTH, 3.2), layout="constrained")
        titles = "in the model's parameters", "in learned coordinates"
        for axis, text, points in zip(figure.subplots(1, 2), titles, found[1:], strict=True):
            axis.plot(*points.T, ".", ms=3, alpha=0.5, color=COLOURS["plain"])
            axis.set_title(text, fontsize="medium")
            axis.set_xlabel(found.names[0], parse_math=False)
            axis.set_ylabel(found.names[1], parse_math=False)
    return figure


def coordinates(result: Result) -> dict[str, Series]:
    """The first coordinates that vary, by name."""
    what = "rebalanced" if result.is_rebalanced else "repelled" if _repels(result) else "draws"
    found: dict[str, Series] = {}
    every = _of_moments(result, what) if result.kept.draws is None else _of_draws(result, what)
    for name, series in every:
        if _varies(series.sides[what]):
            found[name] = series
        if len(found) == MOST:
            break
    return found


def _of_draws(result: Result, what: str) -> Iterator[tuple[str, Series]]:
    base = {} if what == "draws" else result.base or {}
    for name, array in result.draws.items():
        pairs = zip(blocks(name, array), blocks(name, base.get(name, array)), strict=True)
        for (names, after), (_, before) in pairs:
            for k, label in enumerate(names):
                x, plain = after[..., k : k + 1], before[..., k : k + 1]
                sides, errors = {what: x[..., 0]}, {}
                if _varies(x):
                    errors = {what: float(result._errors.of_mean(x, plain)[0])}
                if name in base:
                    sides = {"plain": plain[..., 0], **sides}
                    errors["plain"] = batch_means_error(plain)[0]
                yield label, Series(sides, errors)


def _of_moments(result: Result, what: str) -> Iterator[tuple[str, Series]]:
    every = {"plain": result.kept.base_moments if what != "draws" else None, what: result.moments}
    for name, m in (result.moments or {}).items():
        for k, (label, index) in enumerate(labels(name, m["mean"].shape[1:])):
            sides, errors = {}, {}
            for side, moments in every.items():
                if moments is not None:
                    means = moments[name]["batch_means"]
                    sides[side] = means.reshape(1, len(means), -1)[..., k]
                    errors[side] = float(moments[name]["error"][index])
            yield label, Series(sides, errors)


def _repels(result: Result) -> bool:
    return bool(np.max(result.stats["alpha"], initial=0) > 0)


def _varies(x: Any) -> bool:
    x = np.asarray(np.nan if x is None else x, float)
    return bool(np.any(np.isfinite(x)) and np.nanmax(x) > np.nanmin(x))


def _trace(axis: Any, x: Float[np.ndarray, "chain draw"]) -> None:
    every = -(-x.shape[1] // POINTS)
    steps = 1 + every * np.arange(-(-x.shape[1] // every))
    width = max(0.3, 1.0 / len(x) ** 0.5)
    for n, chain in enumerate(x):
        colour, alpha = OTHERS[n % len(OTHERS)], max(0.25, 0.9 / len(x) ** 0.25)
        axis.plot(steps, chain[::every], color=colour, lw=width, alpha=alpha)


def _density(axis: Any, x: Float[np.ndarray, "chain draw"], side: str) -> None:
    """A kernel estimate, or the frequencies of a coordinate with few values."""
    flat = x.ravel()[:: -(-x.size // KDE_DRAWS)]
    values, counts = np.unique(flat, return_counts=True)
    axis.set_yticks([])
    if len(values) <= 20:
        offset = {"plain": -0.1}.get(side, 0.1) * np.min(np.diff(values))
        axis.vlines(values + offset, 0, counts / len(flat), lw=3, color=COLOURS[side])
        return
    from scipy.stats import gaussian_kde

    low, high = np.quantile(flat, (0.002, 0.998))
    pad = 0.1 * (high - low)
    grid = np.linspace(low - pad, high + pad, 200)
    axis.plot(grid, gaussian_kde(flat)(grid), color=COLOURS[side])


def _running(axis: Any, series: Series, side: str) -> None:
    """The mean of the first n draws, with 1.96 errors to each side.

    The first n of N draws have an error e^2 (N/n - 1) more, squared, than all, with e the error
    of the plain mean.
    """
    x, error = series.sides[side], series.errors[side]
    count = x.shape[1]
    kept = np.arange(count // 10, count, -(-count // POINTS))  # the first ones tell nothing
    steps = 1 + kept
    mean = np.cumsum(x.mean(axis=0))[kept] / steps
    plain = series.errors.get("plain", error)
    half = 1.96 * np.sqrt(plain**2 * (count / steps - 1) + error**2)
    axis.fill_between(steps, mean - half, mean + half, color=COLOURS[side], alpha=0.2, lw=0)
    axis.plot(steps, mean, color=COLOURS[side], lw=1.2, label=side)


def _over_time(axis: Any, stat: np.ndarray, label: str, logarithmic: bool, colour: str) -> None:
    """The median and the range over chains; with many draws, averages over stretches."""
    stat = np.asarray(stat, float)
    width = -(-stat.shape[1] // POINTS)
    used = stat[:, : stat.shape[1] // width * width]
    chains = used.reshape(len(stat), -1, width).mean(axis=2)
    steps = width * (0.5 + np.arange(chains.shape[1]))
    axis.set_title(label, fontsize="medium")
    axis.fill_between(steps, chains.min(axis=0), chains.max(axis=0), color=colour, alpha=0.2, lw=0)
    axis.plot(steps, np.median(chains, axis=0), color=colour, lw=0.9)
    if logarithmic and np.median(chains) > 0:
        axis.set_yscale("log")
