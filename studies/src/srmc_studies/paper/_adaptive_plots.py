"""The picture of adaptive alpha: errors against the nominal value."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from srmc_studies.paper import _numbers
from srmc_studies.paper._adaptive import RULES, RuleErrors
from srmc_studies.paper._adaptive_rows import LIMITS, NOMINAL, Found
from srmc_studies.paper._problems import title
from srmc_studies.paper._style import new_figure


def picture(found: Mapping[str, Found]) -> Figure:
    """Errors against the nominal alpha: the Gaussian once, the posterior for each derivative."""
    first = next(iter(found.values()))
    panels = {
        title(block): (block, mine) for block, mine in first.items() if block[0] == "gaussian"
    }
    for derivative, blocks in found.items():
        for block, mine in blocks.items():
            if block[0] == "logistic":
                panels[f"{title(block)}\n{derivative}"] = (block, mine)
    down = -(-len(panels) // 2)
    figure = new_figure(11, 3.4 * down)
    axes = figure.subplots(down, 2, squeeze=False)
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    for axis, (name, (block, mine)) in zip(axes.flat, panels.items(), strict=False):
        _draw(axis, mine, 100 * LIMITS[block[0]])
        axis.set_xticks(range(len(NOMINAL)), [f"{a:g}" for a in NOMINAL])
        axis.set_xlim(-0.5, len(NOMINAL) - 0.5)
        axis.set(yscale="log", xlabel="nominal α", title=name)
        axis.set_ylabel("squared error, 95% interval")
    entries = axes[0, 0].get_legend_handles_labels()
    figure.legend(*entries, fontsize=9, ncols=5, loc="outside lower center")
    return figure


def _draw(axis: Axes, found: RuleErrors, top: float) -> None:
    """Draw the errors of all rules; those above `top` are crosses at the upper edge."""
    plain = _numbers.mean(found.last("fixed", 0.0))
    axis.axhline(plain.value, color="0.4", lw=1, ls=":", label="plain")
    lost = False
    for shift, rule, marker in zip((-0.18, -0.06, 0.06, 0.18), RULES, "os^v", strict=True):
        each = [_numbers.mean(found.last(rule, a)) for a in NOMINAL]
        value = np.array([e.value for e in each])
        half = 1.96 * np.array([e.error for e in each])
        at = np.arange(len(NOMINAL)) + shift
        good = value < top
        bars = np.stack([np.minimum(half, 0.9 * value), half])[:, good]
        axis.errorbar(at[good], value[good], bars, fmt=marker, ms=5, capsize=3, label=rule)
        for x in at[~good]:
            axis.annotate("×", (x, 0.95), xycoords=("data", "axes fraction"), ha="center")
        lost |= bool(np.any(~good))
    if lost:
        axis.text(0.5, 0.88, "× diverged", transform=axis.transAxes, ha="center")
