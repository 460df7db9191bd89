"""Langevin chains on a mixture of many Gaussians, and when they first came to each mode."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import srmc
from srmc.paper._chains import run


class Setting(NamedTuple):
    """A run: target, strength and rule of the history. `scale` multiplies the images.

    With `floor` the gain never falls below it.
    """

    alpha: float
    sigma: float = 4.0
    scale: float = 1.0
    eps: float = 1e-3
    floor: float = 0.0
    start: int = 0


class Coverage(NamedTuple):
    """For each setting: the number of modes found by each step, and the steps to find all.

    `steps` is infinite where some mode was not found. `correction` is the size of the
    Hessian-vector product beside the score, `modes` where the first chain was after each block.
    """

    found: np.ndarray
    steps: np.ndarray
    correction: np.ndarray
    modes: np.ndarray


def rotate(means: np.ndarray) -> np.ndarray:
    """Coordinates in which the means, centred, have K - 1 entries; the rest of them are 0.

    Rotations change nothing for Langevin chains, and this one saves two thirds of the work.
    """
    centred = means - means.mean(axis=0)
    values, vectors = np.linalg.eigh(centred @ centred.T)
    return (vectors * np.sqrt(np.maximum(values, 0)))[:, 1:].astype(np.float32)


def coverage(
    means: np.ndarray,
    dim: int,
    settings: list[Setting],
    *,
    chains: int,
    steps: int,
    seed: int,
    blocks: int = 20,
    light: bool = False,
    on_block: Any = lambda n: None,
) -> Coverage:
    """Modes that `chains` chains, all from one mode, find together; step size 1, as printed."""
    centres = jnp.asarray(rotate(means))
    half = 0.5 * jnp.sum(centres**2, axis=1)
    block = steps // blocks
    count, inner = centres.shape

    def logits(x, s):
        return (s.scale * (centres @ x[:inner]) - s.scale**2 * half) / s.sigma**2

    def logdensity(x, s):
        return jax.nn.logsumexp(logits(x, s)) - 0.5 * jnp.sum(x**2) / s.sigma**2

    def build(s):
        return srmc.ula(
            lambda x: logdensity(x, s),
            1.0,
            alpha=s.alpha,
            gain=lambda n: jnp.maximum(srmc.gain(0.6)(n), s.floor),
            surrogate=srmc.tilt("finite-difference", eps=s.eps),
            frame="fixed",
        )

    def correction(operand):
        x, theta, s = operand
        score, along = jax.jvp(lambda x: jax.grad(logdensity)(x, s), (x,), (theta,))
        return jnp.linalg.norm(along) / jnp.linalg.norm(score)

    def fold(kept, s, state, info, n):
        mode = jnp.argmax(logits(state.position, s))
        operand = (state.position, state.theta, s)
        size = jax.lax.cond(n % block == 0, correction, lambda _: 0.0, operand)
        first = kept["first"].at[mode].min(n)
        return {"first": first, "correction": kept["correction"] + size, "mode": mode}

    starts = np.zeros((len(settings), chains, dim), np.float32)
    for n, s in enumerate(settings):
        starts[n, :, :inner] = s.scale * np.asarray(centres[s.start])
    never = jnp.iinfo(jnp.int32).max
    kept = run(
        build,
        jax.tree.map(lambda *x: jnp.array(x, float), *settings),
        starts,
        jax.random.key(seed),
        num_blocks=blocks,
        block=block,
        empty={
            "first": jnp.full(count, never, jnp.int32),
            "correction": jnp.zeros(()),
            "mode": jnp.zeros((), int),
        },
        fold=fold,
        light=light,
        on_block=on_block,
    ).kept
    first = kept["first"].min(axis=(1, 2))
    found = np.stack([np.searchsorted(np.sort(x), np.arange(steps) + 1, "right") for x in first])
    slowest = first.max(axis=1).astype(float)
    slowest[slowest == never] = np.inf
    return Coverage(found, slowest, kept["correction"].mean(axis=1), kept["mode"][:, 0])
