"""A figure of a run: its traces, its running means, and the history over time."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from srmc.results.result import Result, blocks, labels

MOST = 3  # the number of coordinates shown
COLOURS = {"rebalanced": "C3", "repelled": "C3", "plain": "0.55"}
# What is shown of a run over time: name, label, and whether the axis is logarithmic.
LOOP = (
    ("alpha", "α", False),
    ("theta_norm", "|θ|", True),
    ("exponent", "exponent scale α|Aθ·φ|", True),
    ("acceptance_rate", "acceptance", False),
)
KERNEL = (("acceptance_rate", "acceptance", False), ("gradients", "gradients per draw", False))


def plot(result: Result) -> Figure:
    """Traces and running means of the first coordinates, and the history over time."""
    what = "rebalanced" if result.is_rebalanced else "repelled"
    series = {"plain": _series(result, True), what: _series(result, False)}
    names = list(series[what])[:MOST]
    panels = LOOP if np.max(result.stats["alpha"]) > 0 else KERNEL
    rows = len(names) + len(panels) // 2
    figure = Figure(figsize=(11, 2.2 * rows), layout="constrained")
    axes = figure.subplots(rows, 2, squeeze=False)
    for (trace, running), name in zip(axes, names, strict=False):
        settled = []
        for side in series:
            if name not in series[side]:
                continue
            x = series[side][name]
            steps = 1 + np.arange(x.shape[1])
            mean = np.cumsum(x.mean(axis=0)) / steps
            trace.plot(steps, x[0], color=COLOURS[side], lw=0.5, label=side)
            running.plot(steps, mean, color=COLOURS[side], lw=1.2, label=side)
            settled.append(mean[len(mean) // 10 :])
        low, high = np.min(np.concatenate(settled)), np.max(np.concatenate(settled))
        pad = 0.1 * (high - low) + 1e-12
        running.set_ylim(low - pad, high + pad)
        trace.set_ylabel(name)
    axes[0, 0].set_title("draws, first chain" if result.moments is None else "means of batches")
    axes[0, 1].set_title("running mean over all chains")
    if series["plain"]:
        axes[0, 1].legend(loc="best", fontsize="small")
    for axis, (key, label, logarithmic) in zip(axes[len(names) :].flat, panels, strict=True):
        _over_time(axis, result.stats[key], label, logarithmic)
    for axis in axes[-1]:
        axis.set_xlabel("draw" if result.moments is None else "batch")
    settings = result.about["settings"]
    figure.suptitle(f"{settings['model']}, {settings['kernel']}, alpha = {settings['alpha']}")
    return figure


def _over_time(axis: Any, stat: np.ndarray, label: str, logarithmic: bool) -> None:
    """Plot the median and the range over chains; with many draws, averages over stretches."""
    stat = np.asarray(stat, float)
    width = -(-stat.shape[1] // 500)
    used = stat[:, : stat.shape[1] // width * width]
    chains = used.reshape(len(stat), -1, width).mean(axis=2)
    axis.set_ylabel(label)
    if np.all(np.isnan(chains)):
        axis.text(0.5, 0.5, "not reported by this kernel", ha="center", transform=axis.transAxes)
        return
    steps = width * (0.5 + np.arange(chains.shape[1]))
    axis.fill_between(steps, chains.min(axis=0), chains.max(axis=0), color="C3", alpha=0.2, lw=0)
    axis.plot(steps, np.median(chains, axis=0), color="C3", lw=0.9)
    if logarithmic and np.median(chains) > 0:
        axis.set_yscale("log")


def _series(result: Result, base: bool) -> dict[str, np.ndarray]:
    """The first coordinates, (chain, draw) each; the means of batches if moments were kept."""
    found: dict[str, np.ndarray] = {}
    if result.kept.draws is None:
        moments = result.kept.base_moments if base else result.moments
        for name, m in (moments or {}).items():
            block = m["batch_means"].reshape(1, len(m["batch_means"]), -1)
            shown = labels(name, m["mean"].shape[1:])
            found |= {
                label: block[..., k] for k, (label, _) in zip(range(MOST), shown, strict=False)
            }
        return found
    draws = (result.base or {}) if base else result.draws
    for name, array in draws.items():
        names, block = next(blocks(name, array[:, :, :MOST] if array.ndim > 2 else array))
        found |= {label: block[..., k] for k, label in enumerate(names[:MOST])}
        if len(found) >= MOST:
            break
    return found
