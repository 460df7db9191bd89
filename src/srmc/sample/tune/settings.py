"""From a measured loop to the keywords of `repel`."""

from typing import Any

import jax
import jax.numpy as jnp

from srmc.repel.field import Clipped, Field, affine, translations
from srmc.repel.history import Gain
from srmc.repel.strength import Strength, watched
from srmc.repel.surrogate import along
from srmc.sample.tune import rule
from srmc.sample.tune.measure import Loop
from srmc.sample.tune.tuner import Alpha
from srmc.types import Array, Feature, Float


def settings(
    loop: Loop,
    num_samples: int,
    *,
    alpha: Alpha = "auto",
    history_every: int | Array = 1,
    form: str = "affine",
) -> dict[str, Any]:
    """The keywords of `repel` for a measured loop; `form="shift"` leaves out the linear maps."""
    linear, shifts = loop.factors
    field: Field = affine(loop.center, loop.root, full=linear.ndim == 2)
    factors: Feature = loop.factors
    if form == "shift":
        field, factors = translations(loop.root, limit=1.0), shifts
    most = nominal(alpha, rule.ALPHA)
    gamma = jnp.minimum(loop.rate * history_every, rule.LARGEST_GAIN) / (1 + most)
    updates = num_samples / history_every
    return {
        "alpha": guarded_by(loop.exponent, gamma, alpha, most),
        "gain": Gain(rule.RHO, gamma * updates**rule.RHO, updates),
        "surrogate": along(Clipped(field, jax.tree.map(_size, factors), rule.CLIPPED), factors),
        "history_every": history_every,
    }


def nominal(alpha: Alpha, auto: float) -> float | Array:
    """The largest value that a strength takes."""
    if isinstance(alpha, str):
        return auto
    if isinstance(alpha, Strength):
        return auto if alpha.most is None else alpha.most
    return alpha


def guarded_by(
    exponent: Float[Array, ""], gamma: Float[Array, ""], alpha: Alpha, most: float | Array
) -> Strength:
    """A strength guarded by the expected exponent scale; a schedule is used as it is."""
    if isinstance(alpha, Strength):
        return alpha
    return watched(
        most,
        limit=jnp.maximum(rule.HOT * exponent, rule.HOT_AT_LEAST),
        rate=rule.RUNAWAY * gamma * (1 + most),
    )


def _size(factor: Array) -> Array:
    """The root mean square of a feature with this factor; 1 where it does not act."""
    return jnp.where(factor > 0, jnp.where(factor > 0, factor, 1.0) ** -0.5, 1.0)
