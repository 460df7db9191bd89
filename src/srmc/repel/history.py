"""The history: theta, a running average of a feature whose mean under the target is zero."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.tree_util import register_dataclass

from srmc._checks import (
    check_count,
    check_flag,
    check_number,
    check_option,
    is_concrete,
    outputs_of,
)
from srmc.repel.target import like
from srmc.types import Array, ArrayLike, Bool, Feature, Int, Scalar


@register_dataclass
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


@register_dataclass
@dataclasses.dataclass(frozen=True)
class History:
    """How theta is kept: the keywords `gain` and `history_*` of `repel`."""

    gain: Callable[[Any], Array]
    every: int | Array = 1
    average: bool = dataclasses.field(default=False, metadata={"static": True})
    axis: Any = dataclasses.field(default=None, metadata={"static": True})
    start: str = dataclasses.field(default="zero", metadata={"static": True})

    def first(self, theta: Feature | None, feature: Feature, zeros: Feature) -> Feature:
        """theta_0: `theta` if given, else 0, or the feature at the start."""
        if theta is not None:
            return like("theta", theta, zeros)
        return feature if self.start == "score" else zeros

    def gamma(self, n: Int[Array, ""]) -> Array:
        """The gain of step n."""
        return self.gain(jnp.maximum(n // self.every, 1))

    def was_updated(self, step: Int[Array, ""]) -> Bool[Array, ""]:
        """Whether theta was updated at the end of the last of `step` steps."""
        return step % self.every == 0

    def is_due(self, step: Int[Array, ""]) -> Bool[Array, ""]:
        """Whether theta is updated at the end of the next step."""
        return (step + 1) % self.every == 0

    @property
    def at_each_step(self) -> bool:
        return is_concrete(self.every) and bool(self.every == 1)

    def update(
        self, theta: Feature, feature: Feature, gamma: Scalar, enters: Bool[Array, ""]
    ) -> Feature:
        """theta_{n+1}."""
        return update(theta, feature, gamma, enters, self.axis)


def make_history(
    gain: Callable[[Any], Array] | None = None,
    history_every: int | Array | None = None,
    history_average: bool = False,
    history_axis: str | tuple[str, ...] | None = None,
    history_start: str = "zero",
) -> History:
    """The history that these keywords of `repel` describe, or an error that names the keyword."""
    if gain is None:
        gain = Gain(0.6, 1.0, 1.0)
    elif not isinstance(gain, Gain):
        out = outputs_of("gain", gain, jnp.ones((), int), of="n")
        if getattr(out, "shape", None) != ():
            raise ValueError(f"gain must return one number, got {out}")
    every = 1 if history_every is None else history_every
    if is_concrete(every):
        check_count("history_every", every)
    check_flag("history_average", history_average)
    names = history_axis if isinstance(history_axis, tuple) else (history_axis,)
    if history_axis is not None and not (names and all(isinstance(n, str) for n in names)):
        raise TypeError(f"history_axis must be the name of an axis of a vmap, got {history_axis!r}")
    check_option("history_start", history_start, ("zero", "score"))
    if history_start == "score" and history_axis is not None:
        raise ValueError("history_start='score' needs history_axis=None: chains start apart")
    return History(gain, every, history_average, history_axis, history_start)
