"""Gaussian targets, alone and mixed."""

import jax
import jax.numpy as jnp
import numpy as np

from srmc._checks import check_count, check_number
from srmc.targets._base import Target, exact


def gaussian(dim: int = 10, correlation: float = 0.9) -> Target:
    """The paper's correlated Gaussian (eq:corr_gaussian): Sigma_ij = correlation^|i - j|."""
    check_count("dim", dim)
    check_number("correlation", correlation, above=-1.0, at_most=1.0 - 1e-9)
    i = np.arange(dim)
    cholesky = np.linalg.cholesky(correlation ** np.abs(i[:, None] - i).astype(float))

    def logdensity(x):
        # An AR(1) process: x_i - correlation x_{i-1} is white.
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


def mixture(weights=(0.8, 0.2), means=((-2.0, 0.0), (2.0, 0.0)), scales=(0.18, 1.0)) -> Target:
    """A mixture of isotropic Gaussians; the default is the trap of figure 1 of the paper."""
    w, mu, sd = (np.asarray(a, float) for a in (weights, means, scales))
    check_number("weights", w, above=0.0)
    check_number("scales", sd, above=0.0)
    check_number("means", mu)
    if not (mu.ndim == 2 and w.shape == sd.shape == mu.shape[:1]):
        raise ValueError(
            "weights, means and scales must have one entry a component, "
            f"got shapes {w.shape}, {mu.shape} and {sd.shape}"
        )
    w = w / w.sum()
    dim = mu.shape[1]
    mean = w @ mu

    def logdensity(x):
        square = jnp.sum((x[None] - mu) ** 2, axis=1)
        return jax.nn.logsumexp(np.log(w) - dim * np.log(sd) - 0.5 * square / sd**2)

    def sample(key):
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
