"""The pictures of figure 1: score fields under one trajectory, and the escapes of many chains."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from srmc.targets import Target
from srmc.types import Array, Bool, Float
from srmc_studies.paper._style import ALPHA_COLOURS, new_figure

X_LIMITS, Y_LIMITS = (-4.0, 4.5), (-3.2, 3.2)


class Path(NamedTuple):
    """Every `every`-th position and theta of one chain of ULA and one of SR-ULA."""

    position: Float[np.ndarray, "sampler draw 2"]
    theta: Float[np.ndarray, "sampler draw 2"]
    every: int


class Escapes(NamedTuple):
    """How chains left the narrow mode.

    escape
        The first step with a positive first coordinate; infinite if there was none.
    returned
        Whether a whole block was spent on the left after the escape.
    right
        The share of each block's steps on the right.
    theta
        The history at the end of each block.
    """

    escape: Float[np.ndarray, "alpha chain"]
    returned: Bool[np.ndarray, "alpha chain"]
    right: Float[np.ndarray, "alpha chain block"]
    theta: Float[np.ndarray, "alpha chain block 2"]


def fields_picture(target: Target, path: Path, alpha: float, shown: Sequence[int]) -> Figure:
    """The paper's eight panels: density, trajectory, the score field and the adapted field."""
    figure = new_figure(3.1 * len(shown), 5.4)
    axes = figure.subplots(2, len(shown), sharex=True, sharey=True, squeeze=False)
    x, y = np.linspace(*X_LIMITS, 120), np.linspace(*Y_LIMITS, 90)
    points = np.stack(np.meshgrid(x, y), -1).astype(np.float32)
    density = np.asarray(jax.vmap(jax.vmap(target.logdensity_fn))(jnp.asarray(points)))
    mesh = np.stack(np.meshgrid(np.linspace(-3.6, 4.1, 12), np.linspace(-2.8, 2.8, 9)), -1)
    grid = jnp.asarray(mesh.reshape(-1, 2).astype(np.float32))
    score_fn = jax.grad(target.logdensity_fn)
    score = jax.vmap(score_fn)(grid)

    def adapted(theta: Float[np.ndarray, " 2"]) -> Float[Array, "point 2"]:
        product = jax.vmap(lambda x: jax.jvp(score_fn, (x,), (theta,))[1])(grid)
        return jnp.asarray(score - alpha * product)

    for row, name in enumerate(("ULA", f"SR-ULA, α = {alpha:g}")):
        for column, n in enumerate(shown):
            axis = axes[row, column]
            axis.contourf(x, y, np.maximum(density, -12), 16, cmap="Blues", alpha=0.6, zorder=-1)
            axis.set_rasterization_zorder(0)
            last = n // path.every
            trail = path.position[row, max(0, last - 600) : last]
            axis.plot(*trail.T, color="0.1", lw=0.5, alpha=0.6, rasterized=True)
            _arrows(axis, grid, score, "0.35", 0.007)
            if row:
                _arrows(axis, grid, adapted(path.theta[row, last - 1]), "C3", 0.004)
            axis.plot(*trail[-1], "o", color="cyan", mec="black", ms=5)
            axis.set_title(f"{name}, n = {n:,}", fontsize=10)
            axis.set(xlim=X_LIMITS, ylim=Y_LIMITS)
    figure.suptitle(
        "gray arrows: score of the target; red arrows: score of the surrogate; line: recent steps"
    )
    return figure


def _arrows(
    axis: Axes,
    grid: Float[Array, "point 2"],
    field: Float[Array, "point 2"],
    colour: str,
    width: float,
) -> None:
    """Draw arrows of logarithmic length, since the score is large far away from the modes."""
    at, vectors = np.asarray(grid), np.asarray(field)
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    short = vectors / (1e-9 + length) * np.log1p(length)
    axis.quiver(*at.T, *short.T, color=colour, scale=40, width=width, headwidth=4)


def escape_picture(
    runs: dict[str, Escapes], alphas: Sequence[float], exact: float, steps: int
) -> Figure:
    """The share of trapped chains against steps, and the weight of the right mode against alpha."""
    figure = new_figure(10.5, 4.2)
    left, right = figure.subplots(1, 2)
    for name, style in zip(runs, ("-", "--"), strict=False):
        _draw_trapped(left, runs[name], name, style, alphas, steps)
        _draw_weights(right, runs[name], name)
    left.axvline(2000, color="0.6", lw=0.8)
    left.annotate("2k", (2000, 0.5), (4, 0), textcoords="offset points", fontsize=9)
    left.set(xscale="log", xlabel="steps", ylabel="share of chains still trapped", ylim=(0, 1.02))
    figure.legend(
        *left.get_legend_handles_labels(), fontsize=9, ncols=8, loc="outside lower center"
    )
    right.axhline(exact, color="k", lw=0.8, ls=":")
    right.text(4, exact - 0.015, f"exact: {exact:.3f}", fontsize=9, ha="center", va="top")
    right.set(xlabel="α", ylabel="share of steps on the right", ylim=(0, 1))
    right.set_xticks(range(len(alphas)), [f"{a:g}" for a in alphas])
    right.legend(fontsize=8, loc="upper left")
    return figure


def _draw_trapped(
    axis: Axes, run: Escapes, name: str, style: str, alphas: Sequence[float], steps: int
) -> None:
    for k, alpha in enumerate(alphas):
        if name == "shift" and alpha == 0:
            continue
        escape = np.sort(run.escape[k])
        trapped = 1 - np.arange(1, len(escape) + 1) / len(escape)
        seen = escape <= steps
        x = np.concatenate([[10], escape[seen], [steps]])
        y = np.concatenate([[1], trapped[seen], [1 - seen.mean()]])
        axis.step(x, y, style, where="post", color=ALPHA_COLOURS[k], lw=1.4)
        if name == "tilt":
            axis.plot([], [], color=ALPHA_COLOURS[k], label=f"α = {alpha:g}")
    axis.plot([], [], color="k", ls=style, label=name)


def _draw_weights(axis: Axes, run: Escapes, name: str) -> None:
    weights = run.right.mean(axis=2)
    first = 0 if name == "tilt" else 1  # with alpha = 0 all surrogates are the target
    mean, error = weights.mean(axis=1), weights.std(axis=1) / np.sqrt(weights.shape[1])
    at = np.arange(len(weights)) + 0.16 * first - 0.08
    axis.errorbar(
        at[first:],
        mean[first:],
        1.96 * error[first:],
        fmt="os"[first],
        ms=4,
        capsize=3,
        label=name,
    )
