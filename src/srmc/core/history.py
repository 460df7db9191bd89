"""The history: theta, a running average of a feature whose mean under the target is zero."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from srmc._checks import check_number

PyTree = Any


@dataclasses.dataclass(frozen=True)
class Gain:
    """The weight of the n-th feature in theta, `gamma_n = scale (n + delay)^-rho`."""

    rho: float
    scale: float
    delay: float

    def __call__(self, n: jax.typing.ArrayLike) -> jax.Array:
        return self.scale * (jnp.asarray(n, float) + self.delay) ** -self.rho


def gain(rho: float = 0.6, scale: float = 1.0, delay: float = 1.0) -> Gain:
    """The gain of the history; the default is the paper's `gamma_n = (n + 1)^-0.6`.

    `scale=0` freezes the history where it starts.

    >>> float(gain(rho=1.0)(3))
    0.25
    """
    check_number("rho", rho, above=0.5, at_most=1.0)
    check_number("scale", scale, at_least=0.0)
    check_number("delay", delay, at_least=0.0)
    return Gain(rho, scale, delay)


def update(
    theta: PyTree, feature: PyTree, gamma: jax.Array, valid: jax.Array, axis: str | None = None
) -> PyTree:
    """`theta + gamma (feature - theta)` (eq:theta_def); an invalid feature has no say.

    With a named axis the feature is its mean over the valid chains on that axis.
    """
    feature = jax.tree.map(lambda f: jnp.where(valid, f, 0), feature)
    if axis is not None:
        share = jnp.asarray(valid, float)
        try:
            count = jnp.maximum(jax.lax.psum(share, axis), 1)
        except NameError:
            raise ValueError(
                f"history_axis must name an axis of a vmap around step, got {axis!r}"
            ) from None
        feature = jax.tree.map(lambda f: jax.lax.psum(f, axis) / count.astype(f.dtype), feature)
        valid = jax.lax.pmax(share, axis) > 0
    gamma = jnp.where(valid, gamma, 0)
    return jax.tree.map(lambda t, f: t + gamma.astype(t.dtype) * (f - t), theta, feature)
