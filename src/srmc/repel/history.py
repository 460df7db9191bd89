"""The history: theta, a running average of a feature whose mean under the target is zero."""

import dataclasses
import functools

import jax
import jax.numpy as jnp

from srmc._checks import check_number
from srmc.types import Array, ArrayLike, Bool, Feature, Scalar


@dataclasses.dataclass(frozen=True)
class Gain:
    """The weight of the n-th feature in theta, `gamma_n = scale (n + delay)^-rho`."""

    rho: float
    scale: float | Array
    delay: float | Array

    def __call__(self, n: ArrayLike) -> Array:
        return self.scale * (jnp.asarray(n, float) + self.delay) ** -self.rho


def gain(rho: float = 0.6, scale: float = 1.0, delay: float = 1.0) -> Gain:
    """The gain of the history; the default is the paper's `gamma_n = (n + 1)^-0.6`.

    `scale=0` freezes the history at its initial value.

    >>> float(gain(rho=1.0)(3))
    0.25
    """
    check_number("rho", rho, above=0.5, at_most=1.0)
    check_number("scale", scale, at_least=0.0)
    check_number("delay", delay, at_least=0.0)
    return Gain(rho, scale, delay)


def update(
    theta: Feature,
    feature: Feature,
    gamma: Scalar,
    valid: Bool[Array, ""],
    axis: str | tuple[str, ...] | None = None,
) -> Feature:
    """`theta + gamma (feature - theta)` (eq:theta_def), or `theta` if the feature is not valid.

    With a named axis, the feature is averaged over the valid chains on that axis.
    """
    feature = jax.tree.map(lambda f: jnp.where(valid, f, 0), feature)
    if axis is not None:
        total = functools.partial(jax.lax.psum, axis_name=axis)
        try:
            count = total(jnp.asarray(valid, float))
        except NameError:
            raise ValueError(
                f"history_axis must name an axis of a vmap around step, got {axis!r}"
            ) from None
        divisor = jnp.maximum(count, 1)
        feature = jax.tree.map(lambda f: total(f) / divisor.astype(f.dtype), feature)
        valid = count > 0
    gamma = jnp.where(valid, gamma, 0)
    return jax.tree.map(lambda t, f: t + gamma.astype(t.dtype) * (f - t), theta, feature)
