"""Langevin chains on a mixture of many Gaussians, and when they first reach each mode."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from blackjax.base import SamplingAlgorithm

import srmc
from srmc._types import Array, Float, Int, Scalar
from srmc.paper._chains import Kept, Trial, run
from srmc.paper._progress import OnBlock

NEVER = np.iinfo(np.int32).max  # in place of a step, for modes that were not reached


class Case(NamedTuple):
    """What was run: a sampler on a target, or a value of an ablated parameter, from a start."""

    group: str
    value: str | float
    start: int


class Setting(NamedTuple):
    """A target, a strength and a history.

    `scale` multiplies the images; the gain never falls below `floor`; chains start in the mode
    `start`.
    """

    alpha: float
    sigma: float = 4.0
    scale: float = 1.0
    eps: float = 1e-3
    floor: float = 0.0
    start: int = 0


class Coverage(NamedTuple):
    """The modes that were found under one setting.

    found
        The number of modes found by each step.
    steps
        The steps to find all modes; infinite if some mode was not found.
    correction
        The size |H theta| / |s| of the Hessian-vector product, at the end of each block.
    """

    found: Int[np.ndarray, " step"]
    steps: float
    correction: Float[np.ndarray, " block"]


class _Mixture(NamedTuple):
    """An equal mixture of Gaussians, in coordinates of which only the first differ by mode."""

    centres: Float[Array, "mode inner"]
    half_norms: Float[Array, " mode"]

    def logits(self, x: Float[Array, " d"], s: Setting) -> Float[Array, " mode"]:
        """The log weight of each mode at x, up to a constant."""
        inner = self.centres @ x[: self.centres.shape[1]]
        return (s.scale * inner - s.scale**2 * self.half_norms) / s.sigma**2

    def logdensity(self, x: Float[Array, " d"], s: Setting) -> Scalar:
        value: Scalar = jax.nn.logsumexp(self.logits(x, s)) - 0.5 * jnp.sum(x**2) / s.sigma**2
        return value

    def sampler(self, s: Setting) -> SamplingAlgorithm:
        """SR-ULA with step size 1, as the paper states."""
        options = srmc.paper_settings(s.alpha) | {
            "gain": lambda n: jnp.maximum(srmc.gain(0.6)(n), s.floor),
            "surrogate": srmc.tilt("finite-difference", eps=s.eps),
        }
        return srmc.ula(lambda x: self.logdensity(x, s), 1.0, **options)

    def correction(self, x: Float[Array, " d"], theta: Float[Array, " d"], s: Setting) -> Scalar:
        """The size of the Hessian-vector product relative to the score."""
        score_fn = jax.grad(self.logdensity)
        score, product = jax.jvp(lambda x: score_fn(x, s), (x,), (theta,))
        size: Scalar = jnp.linalg.norm(product) / jnp.linalg.norm(score)
        return size


def rotate(means: Float[np.ndarray, "mode pixel"]) -> Float[np.ndarray, "mode inner"]:
    """Return the centred means in coordinates of which only the first K - 1 are not 0.

    Langevin chains are invariant under rotations, and this one saves two thirds of the work.
    """
    centred = means - means.mean(axis=0)
    values, vectors = np.linalg.eigh(centred @ centred.T)
    rotated: Float[np.ndarray, "mode mode"] = vectors * np.sqrt(np.maximum(values, 0))
    return rotated[:, 1:].astype(np.float32)


def coverage(
    means: Float[np.ndarray, "mode pixel"],
    dim: int,
    settings: Sequence[Setting],
    trial: Trial,
    on_block: OnBlock,
) -> list[Coverage]:
    """Count the modes that chains from one mode find together, for each setting.

    The number of chains is `trial.replicates`.
    """
    centres = jnp.asarray(rotate(means))
    mixture = _Mixture(centres, 0.5 * jnp.sum(centres**2, axis=1))
    count, inner = centres.shape
    plan = trial.plan(on_block)

    def fold(
        kept: Kept, s: Setting, state: srmc.RepelState, info: srmc.RepelInfo, n: Int[Array, ""]
    ) -> Kept:
        mode = jnp.argmax(mixture.logits(state.position, s))
        # The product costs a gradient, so it is evaluated once per block.
        size = jax.lax.cond(
            n % plan.block == 0,
            mixture.correction,
            lambda *_: 0.0,
            *(state.position, state.theta, s),
        )
        return {
            "first": kept["first"].at[mode].min(n),
            "correction": kept["correction"] + size,
        }

    starts = np.zeros((len(settings), trial.replicates, dim), np.float32)
    for n, s in enumerate(settings):
        starts[n, :, :inner] = s.scale * np.asarray(centres[s.start])
    kept = run(
        mixture.sampler,
        jax.tree.map(lambda *x: jnp.array(x, float), *settings),
        starts,
        jax.random.key(trial.seed),
        plan,
        empty={
            "first": jnp.full(count, NEVER, jnp.int32),
            "correction": jnp.zeros(()),
        },
        fold=fold,
    ).kept
    first = kept["first"].min(axis=(1, 2))
    correction = kept["correction"].mean(axis=1)
    return [_coverage(f, c, trial.steps) for f, c in zip(first, correction, strict=True)]


def _coverage(
    first: Int[np.ndarray, " mode"], correction: Float[np.ndarray, " block"], steps: int
) -> Coverage:
    """Summarise one setting from the step at which each mode was first reached."""
    found = np.searchsorted(np.sort(first), np.arange(steps) + 1, "right")
    slowest = float(first.max())
    return Coverage(found, np.inf if slowest == NEVER else slowest, correction)
