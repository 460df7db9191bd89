"""The learned map, as a frozen pytree: functions of vectors that JAX can trace."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from srmc.coordinates import rule
from srmc.coordinates.table import Effect, effects, sentences
from srmc.types import Array, Float, Int, LogDensity, Scalar


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Coordinates:
    """Coordinates u of x in which a posterior is closer to a Gaussian; see `learn_coordinates`.

    With z = (x - center) / scale and the modulators h = z[modulators],

        u = (z - anchor - w (p - anchor)) exp(-t) / sqrt(w),
        p = shift + linear h + h' quadratic h,    t = log_scale + clip(slopes h),
        w = 1 / (1 + exp(2 (t - limit))),

    where a modulator depends on earlier ones only. All functions take vectors (..., d).

    modulators
        The coordinates on which others depend, in order; none in the identity.
    divergence
        Before and after: the Fisher divergence, on draws that were not fitted, from a normal of any
        mean and covariance.
    explained
        The share of each coordinate's own part of the divergence that is removed.
    names
        The names of the coordinates, for `table`.
    """

    center: Float[Array, " d"]
    scale: Float[Array, " d"]
    shift: Float[Array, " d"]
    log_scale: Float[Array, " d"]
    anchor: Float[Array, " d"]
    limit: Float[Array, " d"]
    linear: Float[Array, "d q"]
    slopes: Float[Array, "d q"]
    quadratic: Float[Array, "d q q"]
    modulators: Int[Array, " q"]
    divergence: Float[Array, " 2"]
    explained: Float[Array, " d"]
    names: tuple[str, ...] = ()

    @property
    def is_identity(self) -> bool:
        """Whether u is x."""
        return self.modulators.size == 0

    def forward(self, x: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
        """From x to u."""
        u: Array = jnp.vectorize(self._forward, signature="(d)->(d)")(jnp.asarray(x, float))
        return u

    def inverse(self, u: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
        """From u to x."""
        back = lambda u: self.inverse_and_log_determinant(u)[0]
        x: Array = jnp.vectorize(back, signature="(d)->(d)")(jnp.asarray(u, float))
        return x

    def inverse_and_log_determinant(
        self, u: Float[Array, " d"]
    ) -> tuple[Float[Array, " d"], Scalar]:
        """From u to x, and log |det dx/du|."""
        if self.is_identity:
            return u, jnp.zeros((), u.dtype)
        # One round for each modulator, since the k-th depends on k - 1 that are right by then.
        own, mine = self._of_modulators(), self._pick(u)
        h = jnp.zeros_like(mine)
        for _ in range(len(mine)):
            at = own._at(h)
            h = at.location + mine * at.scale
        at, scale = self._at(h), jnp.asarray(self.scale, u.dtype)
        x = self.center + scale * (at.location + u * at.scale)
        return x, at.log_determinant + jnp.sum(jnp.log(scale))

    def logdensity(self, fn: LogDensity) -> LogDensity:
        """The log density of u, from that of x."""
        return Partial(_logdensity, fn, self)

    def scores(self, x: Float[Array, "*n d"], s: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
        """The scores in u, from draws x and their scores s."""

        def one(x: Float[Array, " d"], s: Float[Array, " d"]) -> Float[Array, " d"]:
            (_, total), back = jax.vjp(self.inverse_and_log_determinant, self._forward(x))
            found: Array = back((s, jnp.ones_like(total)))[0]
            return found

        x, s = jnp.asarray(x, float), jnp.asarray(s, float)
        s_u: Array = jnp.vectorize(one, signature="(d),(d)->(d)")(x, s)
        return s_u

    def of_scores(self, u: Float[Array, " d"], s: Float[Array, " d"]) -> tuple[Array, Array]:
        """From a draw and its score in u to those in x."""
        x = self.inverse(u)
        (_, total), back = jax.vjp(self._forward_and_log_determinant, x)
        return x, back((s, jnp.ones_like(total)))[0]

    def padded(self, q: int) -> "Coordinates":
        """The same map with weights of 0 for modulators up to q: one program serves for all."""
        more = q - self.modulators.size
        wide = lambda a, axes: jnp.pad(a, [(0, more if n in axes else 0) for n in range(a.ndim)])
        return dataclasses.replace(
            self,
            linear=wide(self.linear, (1,)),
            slopes=wide(self.slopes, (1,)),
            quadratic=wide(self.quadratic, (1, 2)),
            modulators=wide(self.modulators, (0,)),
        )

    @property
    def table(self) -> list[Effect]:
        """Who modulates whom, the strongest first."""
        return effects(self)

    def __repr__(self) -> str:
        d, q = len(self.shift), self.modulators.size
        return f"<srmc.Coordinates: {d} coordinates, {q} of which modulate others>"

    def __str__(self) -> str:
        before, after = np.asarray(self.divergence)
        if self.is_identity:
            return f"plain coordinates: divergence {before:.3g}"
        head = f"learned coordinates: divergence {before:.3g} -> {after:.3g}"
        return "\n".join([head, *sentences(self.table)])

    def _of_modulators(self) -> "Coordinates":
        """The rows of the modulators."""
        names = ("shift", "log_scale", "anchor", "limit", "linear", "slopes", "quadratic")
        own: dict[str, Any] = {
            name: jnp.asarray(getattr(self, name))[self.modulators] for name in names
        }
        return dataclasses.replace(self, **own)

    def _pick(self, z: Float[Array, " d"]) -> Float[Array, " q"]:
        """The modulators, by a sum, whose gradient is cheaper than that of an index."""
        ours = jnp.arange(len(z))[None] == self.modulators[:, None]
        return jnp.sum(jnp.where(ours, z[None], 0), axis=1)

    def _forward(self, x: Float[Array, " d"]) -> Float[Array, " d"]:
        return self._forward_and_log_determinant(x)[0]

    def _forward_and_log_determinant(
        self, x: Float[Array, " d"]
    ) -> tuple[Float[Array, " d"], Scalar]:
        """From x to u, and log |det du/dx|."""
        if self.is_identity:
            return x, jnp.zeros((), x.dtype)
        z = (x - self.center) / self.scale
        at = self._at(self._pick(z))
        total = -at.log_determinant - jnp.sum(jnp.log(self.scale))
        return (z - at.location) / at.scale, total

    def _at(self, h: Float[Array, " q"]) -> "_At":
        """Locations and scales, by sums, which are faster than products with narrow matrices."""
        square = jnp.moveaxis(self.quadratic, 0, 2) * (h[:, None] * h[None])[:, :, None]
        gap = self.shift - self.anchor + jnp.sum(self.linear.T * h[:, None], axis=0)
        gap += jnp.sum(square, axis=(0, 1))
        t = self.log_scale + _clip(jnp.sum(self.slopes.T * h[:, None], axis=0))
        prior = jnp.exp(-2 * t)
        precision = prior + jnp.exp(-2 * self.limit)
        location = self.anchor + prior / precision * gap
        return _At(location, jax.lax.rsqrt(precision), -jnp.sum(jnp.log(precision)) / 2)


class _At(NamedTuple):
    """A conditional distribution of coordinates."""

    location: Float[Array, " d"]
    scale: Float[Array, " d"]
    log_determinant: Scalar


def _clip(x: Float[Array, " d"]) -> Float[Array, " d"]:
    """The C1 clip: the slope falls from 1 to 0 as |x| goes from CLIP - 1 to CLIP + 1."""
    size = jnp.abs(x)
    beyond = jnp.clip(size - (rule.CLIP - 1), 0, 2)
    return jnp.sign(x) * (jnp.minimum(size, rule.CLIP - 1) + beyond - beyond**2 / 4)


def _logdensity(fn: LogDensity, coordinates: Coordinates, u: Float[Array, " d"]) -> Scalar:
    x, total = coordinates.inverse_and_log_determinant(u)
    return fn(x) + total


_PARTS = [field.name for field in dataclasses.fields(Coordinates)]
jax.tree_util.register_dataclass(Coordinates, data_fields=_PARTS[:-1], meta_fields=["names"])


def identity(d: int, divergence: float, names: tuple[str, ...] = ()) -> Coordinates:
    """The coordinates x themselves."""
    zeros, none = jnp.zeros(d), jnp.zeros((d, 0))
    return Coordinates(
        *(zeros, jnp.ones(d), zeros, zeros, zeros, jnp.full(d, rule.NO_LIMIT)),
        *(none, none, jnp.zeros((d, 0, 0))),
        modulators=jnp.zeros(0, int),
        divergence=jnp.full(2, divergence),
        explained=zeros,
        names=names,
    )


def arrays_of(coordinates: Coordinates) -> dict[str, np.ndarray]:
    """The map as plain arrays by name, for files."""
    return {name: np.asarray(getattr(coordinates, name)) for name in _PARTS[:-1]}


def from_arrays(arrays: dict[str, Any], names: tuple[str, ...] = ()) -> Coordinates:
    """The map from its arrays."""
    return Coordinates(**{name: jnp.asarray(arrays[name]) for name in _PARTS[:-1]}, names=names)
