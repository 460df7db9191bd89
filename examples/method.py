"""The method in three pictures: python examples/method.py docs/explanation/method.png"""

import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import srmc
from srmc.results.look import COLOURS, WIDTH, look, save

COVARIANCE = np.array([[1.0, 0.6], [0.6, 1.0]])
PRECISION = np.linalg.inv(COVARIANCE)


def score(x):
    return -PRECISION @ x


def chain(rng, draws, rho=0.9):
    """A sticky chain of the target, as a kernel with small steps would make it."""
    root = np.linalg.cholesky(COVARIANCE)
    z = rng.normal(size=2)
    found = []
    for _ in range(draws):
        z = rho * z + np.sqrt(1 - rho**2) * rng.normal(size=2)
        found.append(root @ z)
    return np.array(found)


def contours(axis):
    for radius in (1, 2):
        angle = np.linspace(0, 2 * np.pi, 200)
        circle = radius * np.stack([np.cos(angle), np.sin(angle)])
        axis.plot(*np.linalg.cholesky(COVARIANCE) @ circle, color="0.6", lw=0.8)
    axis.plot(0, 0, "+", color="k", ms=12, zorder=4)
    axis.set(xlim=(-3, 3), ylim=(-3, 3), aspect="equal", xlabel="x₁")


def arrow(axis, start, end):
    look = {"arrowstyle": "-|>", "color": "k", "lw": 2, "shrinkA": 0, "shrinkB": 0}
    axis.annotate("", end, start, arrowprops=look, zorder=5)


def rebalanced(x):
    return np.asarray(srmc.rebalance(x, lambda v: -jnp.asarray(PRECISION) @ v, progress=False))


def picture():
    figure = Figure(figsize=(WIDTH, 3.2), layout="constrained")
    first, second, third = figure.subplots(1, 3)
    plain, moved = COLOURS["plain"], COLOURS["rebalanced"]
    x = chain(np.random.default_rng(0), 200)
    better = rebalanced(x)
    mean = np.mean([score(v) for v in x], axis=0)
    contours(first)
    first.plot(*x.T, ".", color=plain, ms=4)
    arrow(first, x.mean(axis=0), x.mean(axis=0) + COVARIANCE @ mean)
    first.set(title="a run and its average score", ylabel="x₂")
    contours(second)
    second.plot(*np.stack([x.T, better.T], axis=1), color=moved, lw=0.5, alpha=0.7)
    second.plot(*better.T, ".", color=moved, ms=3)
    second.set(title="all draws moved by one map")
    runs = [chain(np.random.default_rng(100 + n), 200) for n in range(200)]
    means = np.array([[run.mean(axis=0), rebalanced(run).mean(axis=0)] for run in runs])
    third.plot(*means[:, 0].T, ".", color=plain, ms=4, label="plain")
    third.plot(*means[:, 1].T, ".", color=moved, ms=7, label="rebalanced")
    third.set(title="means of 200 such runs", aspect="equal", xlabel="mean of x₁")
    third.set(xlim=(-0.9, 0.9), ylim=(-0.9, 0.9))
    figure.legend(*third.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


if __name__ == "__main__":
    with look():
        save(picture(), Path(sys.argv[1] if len(sys.argv) > 1 else "method.png"))
