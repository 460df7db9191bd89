"""Coordinates in which the draws and the scores of a chain are approximately white."""

import jax.numpy as jnp

from srmc.sample.tune import rule
from srmc.types import Array, Draws, Float


def whiten(
    draws: Draws, scores: Draws
) -> tuple[Float[Array, " d"], Float[Array, "d d"] | Float[Array, " d"], Draws]:
    """Coordinates x = center + R y in which both draws and scores are near white, and y.

    R R^T = A is the geometric mean of Cov(x) and Cov(s)^-1: with L L^T = Cov(x) it is
    L (L^T Cov(s) L)^(-1/2) L^T. On a Gaussian the scores are linear in the draws, so that A is
    the covariance, and the centre, mean(x) + A mean(s), the mean, however few the draws are.
    Of all roots of A this one keeps y closest to the original coordinates.
    """
    dim = draws.shape[-1]
    mean_draw, mean_score = (jnp.mean(x, axis=(0, 1)) for x in (draws, scores))
    centred_draws = (draws - mean_draw[None, None]).reshape(-1, dim)
    centred_scores = (scores - mean_score[None, None]).reshape(-1, dim)
    variance = jnp.maximum(jnp.mean(centred_draws**2, axis=0), 1e-30)
    if dim > rule.DENSE_UP_TO:
        a = jnp.sqrt(variance / jnp.maximum(jnp.mean(centred_scores**2, axis=0), 1e-30))
        center, root = mean_draw + a * mean_score, jnp.sqrt(a)
        return center, root, (draws - center[None, None]) / root[None, None]
    size = len(centred_draws)
    ridge = rule.RIDGE * dim / (dim + size)
    lower = jnp.linalg.cholesky(centred_draws.T @ centred_draws / size + ridge * jnp.diag(variance))
    turned = centred_scores @ lower
    values, vectors = jnp.linalg.eigh(turned.T @ turned / size + ridge * jnp.eye(dim))
    lower = lower @ (vectors * jnp.maximum(values, 1e-6)[None] ** -0.25)
    a = lower @ lower.T
    scale = jnp.sqrt(jnp.diag(a))
    values, vectors = jnp.linalg.eigh(a / (scale[None] * scale[:, None]))
    values = jnp.sqrt(jnp.maximum(values, 1e-7))
    root = scale[:, None] * ((vectors * values[None]) @ vectors.T)
    inverse = ((vectors / values[None]) @ vectors.T) / scale[None]
    center = mean_draw + a @ mean_score
    return center, root, (draws - center[None, None]) @ inverse.T


def slow_modes(s: Draws) -> Float[Array, "d d"]:
    """The rotation of whitened coordinates to the chain's modes; the identity if no mode is slow.

    The amount by which shifts lower second moments, g time / 2, differs between slow and fast
    modes, and scalings correct it only along the modes. The modes are the eigenvectors of half the
    mean square change per step, and the eigenvalues are their losses of correlation per step. The
    modes are found on the first half of the draws and judged on the second, so that the choice is
    not driven by chance.
    """
    half = s.shape[1] // 2
    first, second = (
        jnp.diff(x, axis=1).reshape(-1, s.shape[-1]) for x in (s[:, :half], s[:, half:])
    )
    _, modes = jnp.linalg.eigh(first.T @ first / len(first))
    loss = jnp.mean((second @ modes) ** 2, axis=0)
    is_slow = jnp.min(loss) < rule.SLOW * jnp.median(loss)
    chosen: Array = jnp.where(is_slow, modes, jnp.eye(len(modes), dtype=s.dtype))
    return chosen
