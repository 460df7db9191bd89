"""Langevin chains on a mixture of many Gaussians, and when they first reach each mode."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from blackjax.base import SamplingAlgorithm

import srmc
from srmc.repel import RepelInfo, RepelState
from srmc.types import Array, Float, Int, Scalar
from srmc_studies.paper._chains import Kept, Trial, run
from srmc_studies.paper._progress import OnBlock

SIGMA = 4.0  # the width of the modes
NEVER = np.iinfo(np.int32).max  # in place of a step, for modes that were not reached


class Case(NamedTuple):
    """What was run: a sampler on a target, or a value of an ablated parameter."""

    group: str
    value: str | float


class Setting(NamedTuple):
    """The strength, the factor that multiplies the images, and the length of the difference."""

    alpha: float
    scale: float = 1.0
    eps: float = 1e-3


class Coverage(NamedTuple):
    """The modes that one seed found under one setting.

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


class Mixture(NamedTuple):
    """An equal mixture of Gaussians, in coordinates of which only the first differ by mode."""

    centres: Float[Array, "mode inner"]
    half_norms: Float[Array, " mode"]

    def logits(self, x: Float[Array, " d"], s: Setting) -> Float[Array, " mode"]:
        """The log weight of each mode at x, up to a constant."""
        inner = self.centres @ x[: self.centres.shape[1]]
        return (s.scale * inner - s.scale**2 * self.half_norms) / SIGMA**2

    def score(self, x: Float[Array, " d"], s: Setting) -> Float[Array, " d"]:
        """The score: minus the distance to the weighted mean of the modes, over the variance."""
        mean = s.scale * (jax.nn.softmax(self.logits(x, s)) @ self.centres)
        return (jnp.zeros_like(x).at[: mean.size].set(mean) - x) / SIGMA**2

    def sampler(self, s: Setting, plain: bool) -> SamplingAlgorithm:
        """ULA or SR-ULA with step size 1, as the paper states."""
        difference = srmc.tilt("finite-difference", eps=s.eps)
        options = srmc.paper_settings(0.0 if plain else s.alpha) | {"surrogate": difference}
        return srmc.ula(score_fn=lambda x: self.score(x, s), step_size=1.0, **options)

    def correction(self, x: Float[Array, " d"], theta: Float[Array, " d"], s: Setting) -> Scalar:
        """The size of the Hessian-vector product relative to the score."""
        score, product = jax.jvp(lambda x: self.score(x, s), (x,), (theta,))
        size: Scalar = jnp.linalg.norm(product) / jnp.linalg.norm(score)
        return size


def mixture(means: Float[np.ndarray, "mode pixel"]) -> Mixture:
    """The mixture around these means, rotated and centred."""
    centres = jnp.asarray(rotate(means))
    return Mixture(centres, 0.5 * jnp.sum(centres**2, axis=1))


def rotate(means: Float[np.ndarray, "mode pixel"]) -> Float[np.ndarray, "mode inner"]:
    """Return the centred means in coordinates of which only the first K - 1 are not 0.

    Langevin chains are invariant under rotations, and this one saves two thirds of the work.
    """
    centred = means - means.mean(axis=0)
    values, vectors = np.linalg.eigh(centred @ centred.T)
    rotated: Float[np.ndarray, "mode mode"] = vectors * np.sqrt(np.maximum(values, 0))
    return rotated[:, 1:].astype(np.float32)


def coverage(
    target: Mixture,
    dim: int,
    settings: Sequence[Setting],
    starts: Sequence[int],
    trial: Trial,
    on_block: OnBlock,
) -> list[list[Coverage]]:
    """Count the modes that chains from one mode find together, for each setting and each seed.

    Seed n starts `trial.replicates` chains in the mode `starts[n]`. Settings that are all of
    alpha 0 run the plain sampler.
    """
    plain = all(s.alpha == 0 for s in settings)
    count, inner = target.centres.shape
    plan = trial.plan(on_block)

    def fold(kept: Kept, s: Setting, state: RepelState, info: RepelInfo, n: Int[Array, ""]) -> Kept:
        mode = jnp.argmax(target.logits(state.position, s))
        size = jnp.zeros(())
        if not plain:  # the product costs a gradient, so it is evaluated once per block
            at = state.position, state.theta, s
            size = jax.lax.cond(n % plan.block == 0, target.correction, lambda *_: 0.0, *at)
        return {
            "first": kept["first"].at[mode].min(n),
            "correction": kept["correction"] + size,
        }

    begin = np.repeat(np.asarray(target.centres)[list(starts)], trial.replicates, axis=0)
    begin = np.pad(begin, ((0, 0), (0, dim - inner)))
    kept = run(
        lambda s: target.sampler(s, plain),
        jax.tree.map(lambda *x: jnp.array(x, float), *settings),
        np.stack([s.scale * begin for s in settings]),
        jax.random.key(trial.seed),
        plan,
        empty={
            "first": jnp.full(count, NEVER, jnp.int32),
            "correction": jnp.zeros(()),
        },
        fold=fold,
    ).kept
    by_seed = {k: np.stack(np.split(x, len(starts), axis=1), axis=1) for k, x in kept.items()}
    first = by_seed["first"].min(axis=(2, 3))
    correction = by_seed["correction"].mean(axis=2)
    return [
        [_coverage(f, c, trial.steps) for f, c in zip(fs, cs, strict=True)]
        for fs, cs in zip(first, correction, strict=True)
    ]


def _coverage(
    first: Int[np.ndarray, " mode"], correction: Float[np.ndarray, " block"], steps: int
) -> Coverage:
    """Summarise one seed from the step at which each mode was first reached."""
    found = np.searchsorted(np.sort(first), np.arange(steps) + 1, "right")
    slowest = float(first.max())
    return Coverage(found, np.inf if slowest == NEVER else slowest, correction)


def exact_draws(
    target: Mixture, setting: Setting, start: int, chains: int, draws: int, seed: int
) -> Coverage:
    """The modes nearest to exact draws from the one component in which the chains start.

    `chains` draws take the place of one step of all chains.
    """
    rng = np.random.default_rng((seed, start))
    centres, seen = np.asarray(target.centres), np.zeros(len(target.centres), bool)
    offsets = setting.scale * np.asarray(target.half_norms)
    found = np.zeros(draws, int)
    for n in range(draws):
        noise = rng.standard_normal((chains, centres.shape[1]), np.float32)
        x = setting.scale * centres[start] + SIGMA * noise
        seen[np.argmax(x @ centres.T - offsets, axis=1)] = True
        found[n] = seen.sum()
    return Coverage(found, np.inf, np.zeros(1))
