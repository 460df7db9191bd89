"""Repelled kernels in two pictures: python examples/repel.py docs/explanation/repel.png

Left: a plain and a repelled chain of unadjusted Langevin in the narrow of two modes. Of 64 runs
each, the one with the median escape is shown. Right: errors of plain and of repelled MALA.
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import srmc
from srmc.results.look import COLOURS, WIDTH, look, save

CHAINS, STEPS = 64, 100_000
RUNS, GRADIENTS, WARMUP = 32, 100_000, 4_000


def run(alg, start, chains, steps, keep):
    """The kept part of the position after each step, for each chain."""

    def step(state, key):
        state, _ = alg.step(key, state)
        return state, keep(state.position)

    def chain(key):
        return jax.lax.scan(step, alg.init(start), jax.random.split(key, steps))[1]

    return np.asarray(jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(0), chains)))


def escapes(alpha):
    """The first coordinate of SR-ULA, as in figure 1 of the paper; alpha = 0 is plain ULA."""
    options = srmc.paper_settings(alpha) | {"gain": srmc.gain(rho=0.6, scale=0.1, delay=2)}
    alg = srmc.ula(srmc.targets.mixture().logdensity_fn, 0.01, **options)
    return run(alg, jnp.array([-2.0, 0.0]), CHAINS, STEPS, lambda x: x[0])


def errors(alpha, steps):
    """Squared errors of the means of MALA after each draw, over posterior variances."""
    target = srmc.targets.logistic()
    gain = srmc.gain(rho=0.8, scale=0.5, delay=1000)
    surrogate = srmc.shift(preconditioner=0.1)
    alg = srmc.mala(target.logdensity_fn, 0.02, alpha=alpha, surrogate=surrogate, gain=gain)
    x = run(alg, target.position, RUNS, WARMUP + steps, lambda x: x)[:, WARMUP:]
    count = np.arange(1, x.shape[1] + 1)[:, None]
    off = np.cumsum(x, axis=1) / count - np.asarray(target.moments.mean)
    return np.mean(off**2 / np.asarray(target.moments.variance), axis=2)


def draw_escapes(panels):
    for axis, alpha, side in zip(panels, (0.0, 3.0), ("plain", "repelled"), strict=True):
        x = escapes(alpha)
        first = np.where((x > 0).any(axis=1), np.argmax(x > 0, axis=1), STEPS)
        median = np.argsort(first)[CHAINS // 2]
        print(f"{side}: {np.mean(first < STEPS):.0%} escape, the median at {first[median]:,}")
        axis.plot(np.arange(0, STEPS, 100), x[median, ::100], color=COLOURS[side], lw=0.6)
        axis.set(yticks=[-2, 2], ylim=(-3.5, 5.5))
        axis.text(0.02, 0.93, side, color=COLOURS[side], transform=axis.transAxes, va="top")
    panels[0].set(title="A chain leaves a trap (a narrow mode)", xticklabels=[])
    panels[1].set_xlabel("step")
    panels[1].set_xticks([0, 50_000, 100_000], ["0", "50,000", "100,000"])


def draw_errors(axis):
    for alpha, side, cost in ((0.0, "plain", 1), (10.0, "repelled", 3)):
        mse = errors(alpha, GRADIENTS // cost)
        steps = np.unique(np.geomspace(1000, mse.shape[1], 40).astype(int)) - 1
        at, mean = cost * (1 + steps), mse.mean(axis=0)[steps]
        half = 1.96 * mse.std(axis=0)[steps] / np.sqrt(RUNS)
        axis.fill_between(at, mean - half, mean + half, color=COLOURS[side], alpha=0.2, lw=0)
        axis.plot(at, mean, color=COLOURS[side])
        print(f"{side}: {mean[-1]:.2g} +- {half[-1] / 1.96:.1g} after {GRADIENTS:,} gradients")
    axis.text(0.72, 0.56, "plain", color=COLOURS["plain"], transform=axis.transAxes)
    axis.text(0.42, 0.26, "repelled", color=COLOURS["repelled"], transform=axis.transAxes)
    axis.set(title="Errors of means (logistic regression)", xscale="log", yscale="log")
    axis.set(xlabel="gradients", ylabel="squared error / variance")


def picture():
    figure = Figure(figsize=(WIDTH, 2.8), layout="constrained")
    panels = figure.subplot_mosaic([["plain", "errors"], ["repelled", "errors"]])
    figure.align_ylabels()
    draw_escapes([panels["plain"], panels["repelled"]])
    draw_errors(panels["errors"])
    panels["repelled"].set_ylabel("first coordinate", y=1.1)
    return figure


if __name__ == "__main__":
    with look():
        save(picture(), Path(sys.argv[1] if len(sys.argv) > 1 else "repel.png"))
