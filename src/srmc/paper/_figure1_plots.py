"""Pictures of figure 1: the fields under one trajectory, and escapes of many."""

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from srmc.paper._style import ALPHA_COLOURS, new_figure

LEFT, RIGHT = (-4.0, 4.5), (-3.2, 3.2)


def fields_picture(target, path, alpha, shown) -> Figure:
    """The paper's eight panels: landscape, trajectory, the score field and the adapted one."""
    figure = new_figure(3.1 * len(shown), 5.4)
    axes = figure.subplots(2, len(shown), sharex=True, sharey=True, squeeze=False)
    x, y = np.linspace(*LEFT, 120), np.linspace(*RIGHT, 90)
    points = np.stack(np.meshgrid(x, y), -1).astype(np.float32)
    density = np.asarray(jax.vmap(jax.vmap(target.logdensity_fn))(jnp.asarray(points)))
    grid = np.stack(np.meshgrid(np.linspace(-3.6, 4.1, 12), np.linspace(-2.8, 2.8, 9)), -1)
    grid = grid.reshape(-1, 2).astype(np.float32)
    score = jax.vmap(jax.grad(target.logdensity_fn))(jnp.asarray(grid))
    along = jax.vmap(lambda x, u: jax.jvp(jax.grad(target.logdensity_fn), (x,), (u,))[1], (0, None))
    for row, name in enumerate(("ULA", f"SR-ULA, α = {alpha:g}")):
        for column, n in enumerate(shown):
            axis = axes[row, column]
            axis.contourf(x, y, np.maximum(density, -12), 16, cmap="Blues", alpha=0.6, zorder=-1)
            axis.set_rasterization_zorder(0)
            last = n // path["every"]
            trail = path["position"][row, max(0, last - 600) : last]
            axis.plot(*trail.T, color="0.1", lw=0.5, alpha=0.6, rasterized=True)
            _arrows(axis, grid, score, "0.35", 0.007)
            if row:
                theta = path["theta"][row, last - 1]
                _arrows(axis, grid, score - alpha * along(jnp.asarray(grid), theta), "C3", 0.004)
            axis.plot(*trail[-1], "o", color="cyan", mec="black", ms=5)
            axis.set_title(f"{name}, n = {n:,}", fontsize=10)
            axis.set(xlim=LEFT, ylim=RIGHT)
    figure.suptitle("gray arrows: the score; red: that of the bent target; line: the last steps")
    return figure


def _arrows(axis, grid, field, colour, width):
    """Arrows whose length is compressed, since the score is large far away."""
    field = np.asarray(field)
    length = np.linalg.norm(field, axis=1, keepdims=True)
    axis.quiver(
        *grid.T,
        *(field / (1e-9 + length) * np.log1p(length)).T,
        color=colour,
        scale=40,
        width=width,
        headwidth=4,
    )


def escape_picture(runs, alphas, exact, steps) -> Figure:
    """Who is still trapped, against steps; and the weight of the right mode, against alpha."""
    figure = new_figure(10.5, 4.2)
    left, right = figure.subplots(1, 2)
    for name, style in zip(runs, ("-", "--"), strict=False):
        for k, alpha in enumerate(alphas):
            if name == "shift" and alpha == 0:
                continue
            escape = np.sort(runs[name]["escape"][k])
            trapped = 1 - np.arange(1, len(escape) + 1) / len(escape)
            seen = escape <= steps
            x = np.concatenate([[10], escape[seen], [steps]])
            y = np.concatenate([[1], trapped[seen], [1 - seen.mean()]])
            left.step(x, y, style, where="post", color=ALPHA_COLOURS[k], lw=1.4)
            if name == "tilt":
                left.plot([], [], color=ALPHA_COLOURS[k], label=f"α = {alpha:g}")
        left.plot([], [], color="k", ls=style, label=name)
        weights = runs[name]["right"].mean(axis=2)
        first = 0 if name == "tilt" else 1  # with alpha = 0 there is nothing to bend
        mean, error = weights.mean(axis=1), weights.std(axis=1) / np.sqrt(weights.shape[1])
        at = np.arange(len(alphas)) + 0.16 * first - 0.08
        marker = {"fmt": "os"[first], "ms": 4, "capsize": 3, "label": name}
        right.errorbar(at[first:], mean[first:], 1.96 * error[first:], **marker)
    left.axvline(2000, color="0.6", lw=0.8)
    left.set(xscale="log", xlabel="steps", ylabel="share of chains still trapped", ylim=(0, 1.02))
    figure.legend(
        *left.get_legend_handles_labels(), fontsize=9, ncols=8, loc="outside lower center"
    )
    right.axhline(exact, color="k", lw=0.8, ls=":")
    right.annotate(
        f"exact {exact:.3f}", (4.2, exact), (0, -12), textcoords="offset points", fontsize=8
    )
    right.set(xlabel="α", ylabel=f"share of {steps:,} steps on the right, 95%")
    right.set_xticks(range(len(alphas)), [f"{a:g}" for a in alphas])
    right.legend(fontsize=8, loc="upper left")
    return figure
