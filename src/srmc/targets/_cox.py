"""A log-Gaussian Cox process on a grid: counts with a smooth random rate."""

import json
from importlib.resources import files

import jax.numpy as jnp
import numpy as np

from srmc._checks import check_count, check_seed
from srmc.targets._base import Moments, Target
from srmc.types import Array, Float, Scalar


def cox(side: int = 16, seed: int = 0) -> Target:
    """Posterior of the whitened log rates of a Cox process, given counts on `side`^2 cells.

    The log rate is a Gaussian process with mean 1 and covariance exp(-distance / 0.2) on the unit
    square; the counts are simulated. Reference moments exist for the default arguments only.
    """
    check_count("side", side, at_least=2)
    check_seed("seed", seed)
    dim = side**2
    centres = (np.arange(side) + 0.5) / side
    points = np.stack(np.meshgrid(centres, centres, indexing="ij"), -1).reshape(dim, 2)
    distance = np.linalg.norm(points[:, None] - points, axis=-1)
    root = np.linalg.cholesky(np.exp(-distance / 0.2) + 1e-9 * np.eye(dim))
    rng = np.random.RandomState(seed)
    counts = rng.poisson(np.exp(1 + root @ rng.standard_normal(dim))).astype(float)

    def logdensity(x: Float[Array, " d"]) -> Scalar:
        log_rate = 1 + root.astype(x.dtype) @ x
        likelihood = jnp.sum(counts.astype(x.dtype) * log_rate - jnp.exp(log_rate))
        return likelihood - 0.5 * jnp.sum(x**2)

    def moments() -> Moments:
        if (side, seed) != (16, 0):
            raise ValueError(
                f"cox has reference moments for side=16 and seed=0 only, got {side} and {seed}"
            )
        stored = json.loads((files("srmc.targets") / "cox.json").read_text())
        return Moments(*(np.array(stored[name]) for name in ("mean", "variance", "error")))

    return Target(
        "cox",
        f"log-Gaussian Cox process on a {side} x {side} grid",
        logdensity,
        jnp.zeros(dim),
        moments,
    )
