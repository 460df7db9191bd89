"""Curved targets with known moments: the banana and the funnel."""

import jax
import jax.numpy as jnp
import numpy as np

from srmc._checks import check_count, check_number
from srmc.targets._base import Target, exact
from srmc.types import Array, Float, PRNGKey, Scalar


def banana(scale: float = 2.0, bend: float = 0.5) -> Target:
    """A bent Gaussian: x0 ~ N(0, scale^2), x1 given x0 ~ N(bend (x0^2 - scale^2), 1)."""
    check_number("scale", scale, above=0.0)
    check_number("bend", bend)

    def ridge(x0: Scalar) -> Scalar:
        return bend * (x0**2 - scale**2)

    def logdensity(x: Float[Array, "2"]) -> Scalar:
        return -0.5 * ((x[0] / scale) ** 2 + (x[1] - ridge(x[0])) ** 2)

    def sample(key: PRNGKey) -> Float[Array, "2"]:
        z = jax.random.normal(key, (2,))
        return jnp.stack([scale * z[0], ridge(scale * z[0]) + z[1]])

    return Target(
        "banana",
        f"Gaussian bent along a parabola, scale {scale:g}, bend {bend:g}",
        logdensity,
        jnp.zeros(2),
        exact(np.zeros(2), np.array([scale**2, 1 + 2 * bend**2 * scale**4])),
        sample,
    )


def funnel(dim: int = 5, scale: float = 3.0) -> Target:
    """Neal's funnel: x0 ~ N(0, scale^2), and x_i given x0 ~ N(0, exp(x0)) for i > 0."""
    check_count("dim", dim, at_least=2)
    check_number("scale", scale, above=0.0)

    def logdensity(x: Float[Array, " d"]) -> Scalar:
        neck, rest = x[0], x[1:]
        square = jnp.sum(rest**2) * jnp.exp(-neck)
        return -0.5 * ((neck / scale) ** 2 + (dim - 1) * neck + square)

    def sample(key: PRNGKey) -> Float[Array, " d"]:
        z = jax.random.normal(key, (dim,))
        neck = scale * z[:1]
        return jnp.concatenate([neck, jnp.exp(neck / 2) * z[1:]])

    variance = np.full(dim, np.exp(scale**2 / 2))
    variance[0] = scale**2
    return Target(
        "funnel",
        f"Neal's funnel in {dim} dimensions, scale {scale:g}",
        logdensity,
        jnp.zeros(dim),
        exact(np.zeros(dim), variance),
        sample,
    )
