"""The target: a log density on a Euclidean pytree, and checks of where a chain starts."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.tree_util import register_dataclass

from srmc._checks import as_numbers, is_concrete, is_numeric, outputs_of, short
from srmc.types import Array, ArrayLike, Bool, LogDensity, Position, PyTree, Scalar, Score, ScoreFn


def all_finite(tree: PyTree) -> Bool[Array, ""]:
    """Whether every floating-point number of a pytree is finite."""
    leaves = [jnp.asarray(leaf) for leaf in jax.tree.leaves(tree)]
    leaves = [leaf for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.inexact)]
    return jnp.all(jnp.array([jnp.all(jnp.isfinite(leaf)) for leaf in leaves]))


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Target:
    """A log density, with -inf, which every kernel rejects, in place of NaN and +inf."""

    logdensity_fn: LogDensity

    def __call__(self, position: Position) -> Scalar:
        value = self.logdensity_fn(position)
        return jnp.where(jnp.isfinite(value), value, -jnp.inf)

    def value_and_score(self, position: Position) -> tuple[Scalar, Score]:
        """The log density and its gradient."""
        value, score = jax.value_and_grad(self)(position)
        return value, score


def from_score(score_fn: ScoreFn) -> LogDensity:
    """A stand-in for a log density of which only the score is known: its value is 0 everywhere.

    Its gradient is the score, so that it serves kernels that use no values.
    """
    if not callable(score_fn):
        raise TypeError(f"score_fn must be a function of a position, got {score_fn!r}")

    def zero(position: Position) -> Scalar:
        return jnp.zeros((), jnp.result_type(*jax.tree.leaves(position)))

    logdensity = jax.custom_jvp(zero)

    @logdensity.defjvp
    def logdensity_jvp(
        primals: tuple[Position], tangents: tuple[Position]
    ) -> tuple[Scalar, Scalar]:
        value = zero(primals[0])
        slope = optax.tree.vdot(_checked_score(score_fn, primals[0]), tangents[0])
        return value, jnp.asarray(slope, value.dtype)

    return logdensity


def _checked_score(score_fn: ScoreFn, position: Position) -> Score:
    """The score, which must have the structure and the shapes of the position."""
    score = score_fn(position)
    expected, found = (jax.tree.map(jnp.shape, tree) for tree in (position, score))
    if expected != found:
        raise ValueError(
            f"score_fn must return what has the shape of the position, {expected}, got {found}"
        )
    return score


def as_position(position: PyTree, name: str = "position") -> Position:
    """The initial position as arrays of floats.

    Integers are refused, since a chain could not move on them.
    """
    given = jax.tree.leaves_with_path(position)
    if not given:
        raise ValueError(f"{name} must hold at least one number, got {position!r}")
    for path, leaf in given:
        if not is_numeric(leaf):
            where = f"{name}{jax.tree_util.keystr(path)}"
            kind = f" of dtype {leaf.dtype}" if isinstance(leaf, np.ndarray | np.generic) else ""
            raise TypeError(f"{where} must be an array of floats, got {short(leaf)}{kind}")
    position = jax.tree.map(jnp.asarray, position)
    for path, leaf in jax.tree.leaves_with_path(position):
        where = f"{name}{jax.tree_util.keystr(path)}"
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise TypeError(
                f"{where} must be floating point for a continuous kernel, got {leaf.dtype}; "
                "convert it, or use a sampler for discrete spaces"
            )
        if leaf.size == 0:
            raise ValueError(f"{where} must hold at least one number, got shape {leaf.shape}")
    return position


def check_density(
    logdensity_fn: LogDensity, position: Position, name: str = "logdensity_fn"
) -> None:
    """Raise for a log density that does not return one floating-point number."""
    out = outputs_of(name, logdensity_fn, position)
    shape = getattr(out, "shape", None)
    if shape != () or not jnp.issubdtype(out.dtype, jnp.floating):
        found = f"shape {shape} and dtype {out.dtype}" if shape is not None else f"{out!r}"
        raise ValueError(f"{name} must return one floating-point number, got {found}")


def check_start(logdensity_fn: LogDensity, position: Position, with_score: bool = False) -> None:
    """Raise for a log density that is not a scalar or is not finite at the initial position.

    With `with_score`, its gradient must be finite there too.
    """
    check_density(logdensity_fn, position)
    if is_concrete(position):
        value = logdensity_fn(position)
        if is_concrete(value) and not jnp.isfinite(value):
            raise ValueError(
                f"logdensity_fn must be finite at the start, got {value} at position {position!r}"
            )
        score = jax.grad(logdensity_fn)(position) if with_score else value
        if is_concrete(score) and not all_finite(score):
            raise ValueError(
                f"the gradient of logdensity_fn must be finite at the start, got {score!r} at "
                f"position {position!r}"
            )


def like(name: str, tree: PyTree, model: PyTree) -> PyTree:
    """The pytree with the dtypes of `model`, whose structure and shapes it must have."""
    expected, given = (str(jax.tree.structure(t)) for t in (model, tree))
    if expected != given:
        raise ValueError(f"{name} must have the structure of the position, {expected}, got {given}")

    def cast(leaf: ArrayLike, other: Array) -> Array:
        if jnp.shape(leaf) != other.shape:
            raise ValueError(
                f"{name} must have the shape of the position, {other.shape}, got {jnp.shape(leaf)}"
            )
        if is_concrete(leaf) and not np.all(np.isfinite(as_numbers(name, leaf))):
            raise ValueError(f"{name} must be finite, got {short(leaf)}")
        return jnp.asarray(leaf, other.dtype)

    return jax.tree.map(cast, tree, model)
