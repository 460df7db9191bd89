"""Gaussian targets, their mixtures, and the Student t."""

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from srmc._checks import check_count, check_flag, check_number, check_seed
from srmc.targets._base import Target, exact
from srmc.types import Array, Float, PRNGKey, Scalar


def gaussian(dim: int = 10, correlation: float = 0.9) -> Target:
    """The paper's correlated Gaussian (eq:corr_gaussian): Sigma_ij = correlation^|i - j|."""
    check_count("dim", dim)
    check_number("correlation", correlation, above=-1.0, at_most=1.0 - 1e-9)
    i = np.arange(dim)
    cholesky = np.linalg.cholesky(correlation ** np.abs(i[:, None] - i).astype(float))

    def logdensity(x: Float[Array, " d"]) -> Scalar:
        # x is an AR(1) process, so that x_i - correlation x_{i-1} is white noise.
        innovation = (x[1:] - correlation * x[:-1]) / (1 - correlation**2) ** 0.5
        return -0.5 * (x[0] ** 2 + jnp.sum(innovation**2))

    return Target(
        "gaussian",
        f"Gaussian in {dim} dimensions with correlations {correlation:g}^|i-j|",
        logdensity,
        jnp.zeros(dim),
        exact(np.zeros(dim), np.ones(dim)),
        lambda key: cholesky @ jax.random.normal(key, (dim,)),
    )


def mixture(
    weights: ArrayLike = (0.8, 0.2),
    means: ArrayLike = ((-2.0, 0.0), (2.0, 0.0)),
    scales: ArrayLike = (0.18, 1.0),
) -> Target:
    """A mixture of isotropic Gaussians; the default is the trap of figure 1 of the paper.

    For k components in d dimensions, `weights` and `scales` have shape (k,) and `means` (k, d).
    """
    check_number("weights", weights, above=0.0, scalar=False)
    check_number("scales", scales, above=0.0, scalar=False)
    check_number("means", means, scalar=False)
    w, mu, sd = (np.asarray(a, float) for a in (weights, means, scales))
    if not (mu.ndim == 2 and w.shape == sd.shape == mu.shape[:1]):
        raise ValueError(
            "weights, means and scales must have one entry per component, "
            f"got shapes {w.shape}, {mu.shape} and {sd.shape}"
        )
    w = w / w.sum()
    dim = mu.shape[1]
    mean = w @ mu

    def logdensity(x: Float[Array, " d"]) -> Scalar:
        square = jnp.sum((x[None] - mu) ** 2, axis=1)
        return jax.nn.logsumexp(np.log(w) - dim * np.log(sd) - 0.5 * square / sd**2)

    def sample(key: PRNGKey) -> Float[Array, " d"]:
        which, noise = jax.random.split(key)
        k = jax.random.categorical(which, np.log(w))
        return jnp.asarray(mu)[k] + jnp.asarray(sd)[k] * jax.random.normal(noise, (dim,))

    return Target(
        "mixture",
        f"mixture of {len(w)} isotropic Gaussians in {dim} dimensions",
        logdensity,
        jnp.asarray(mu[0]),
        exact(mean, w @ (sd[:, None] ** 2 + mu**2) - mean**2),
        sample,
    )


def ellipsoid(dim: int = 50, condition: float = 1e4, rotate: bool = False, seed: int = 0) -> Target:
    """A Gaussian with variances from 1 to `condition`, along the axes or in random directions.

    `rotate=True` draws the directions with `seed`.
    """
    check_count("dim", dim, at_least=2)
    check_number("condition", condition, at_least=1.0)
    check_flag("rotate", rotate)
    check_seed("seed", seed)
    scales = np.geomspace(1.0, condition**0.5, dim)
    axes = None  # None for the identity, which might not fit into memory
    if rotate:
        normal = np.random.RandomState(seed).standard_normal((dim, dim))
        axes = np.linalg.qr(normal)[0]

    def logdensity(x: Float[Array, " d"]) -> Scalar:
        along = x if axes is None else axes.T.astype(x.dtype) @ x
        return -0.5 * jnp.sum((along / scales.astype(x.dtype)) ** 2)

    def sample(rng_key: PRNGKey) -> Float[Array, " d"]:
        along = jnp.asarray(scales) * jax.random.normal(rng_key, (dim,))
        return along if axes is None else jnp.asarray(axes) @ along

    return Target(
        "rotated" if rotate else "ellipsoid",
        f"Gaussian in {dim} dimensions, condition {condition:g}, "
        + ("rotated at random" if rotate else "along the axes"),
        logdensity,
        jnp.zeros(dim),
        exact(np.zeros(dim), scales**2 if axes is None else (axes**2) @ scales**2),
        sample,
    )


def student_t(dim: int = 10, degrees: float = 3.0) -> Target:
    """A multivariate Student t distribution with unit scale."""
    check_count("dim", dim)
    check_number("degrees", degrees, above=2.0)

    def logdensity(x: Float[Array, " d"]) -> Scalar:
        return -0.5 * (degrees + dim) * jnp.log1p(jnp.sum(x**2) / degrees)

    def sample(key: PRNGKey) -> Float[Array, " d"]:
        normal, chi = jax.random.split(key)
        chi_square = 2 * jax.random.gamma(chi, degrees / 2)
        return jax.random.normal(normal, (dim,)) * jnp.sqrt(degrees / chi_square)

    return Target(
        "student_t",
        f"Student t with {degrees:g} degrees of freedom in {dim} dimensions",
        logdensity,
        jnp.zeros(dim),
        exact(np.zeros(dim), np.full(dim, degrees / (degrees - 2))),
        sample,
    )
