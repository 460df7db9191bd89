"""The method in three pictures: python examples/method.py docs/explanation/method.png"""

import sys

import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import srmc

PRECISION = np.linalg.inv([[1.0, 0.6], [0.6, 1.0]])
PLAIN, MOVED = "#808890", "#c2410c"


def score(x):
    return -PRECISION @ x


def chain(rng, draws, rho=0.9):
    """A sticky chain of the target, as a kernel with small steps would make it."""
    root = np.linalg.cholesky(np.linalg.inv(PRECISION))
    z = rng.normal(size=2)
    found = []
    for _ in range(draws):
        z = rho * z + np.sqrt(1 - rho**2) * rng.normal(size=2)
        found.append(root @ z)
    return np.array(found)


def draw_sets(axis, sets, limit=3.4):
    for x, colour, label in sets:
        axis.plot(*x.T, ".", color=colour, ms=4, label=label)
    for radius in (1, 2):
        angle = np.linspace(0, 2 * np.pi, 200)
        circle = radius * np.stack([np.cos(angle), np.sin(angle)])
        axis.plot(*np.linalg.cholesky(np.linalg.inv(PRECISION)) @ circle, color="0.6", lw=0.8)
    axis.set(xlim=(-limit, limit), ylim=(-limit, limit), aspect="equal", xticks=[], yticks=[])


def picture():
    figure = Figure(figsize=(11, 3.8), layout="constrained")
    first, second, third = figure.subplots(1, 3)
    x = chain(np.random.default_rng(0), 200)
    better = np.asarray(srmc.rebalance(x, lambda v: -jnp.asarray(PRECISION) @ v, progress=False))
    mean = np.mean([score(v) for v in x], axis=0)
    draw_sets(first, [(x, PLAIN, "plain")])
    first.annotate(
        "", x.mean(axis=0) + 3 * mean, x.mean(axis=0), arrowprops={"color": MOVED, "width": 2}
    )
    first.set_title("a run, and its average score (× 3)")
    draw_sets(second, [(x, PLAIN, "plain"), (better, MOVED, "moved")])
    second.set_title("all draws moved by one map")
    for n in range(200):
        x = chain(np.random.default_rng(100 + n), 200)
        moved = srmc.rebalance(x, lambda v: -jnp.asarray(PRECISION) @ v, progress=False)
        for v, colour in ((x, PLAIN), (np.asarray(moved), MOVED)):
            third.plot(*v.mean(axis=0), ".", color=colour, ms=3)
    third.set_aspect("equal")
    third.set_title("means of 200 such runs")
    return figure


if __name__ == "__main__":
    picture().savefig(sys.argv[1] if len(sys.argv) > 1 else "method.png", dpi=110)
