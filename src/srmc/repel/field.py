"""Vector fields along which draws are repelled: their features and their flows.

For any field g the Stein feature div g + g·s has mean zero under the target, and moving draws
along g acts against it: a move of size w lowers the feature's mean by w E[feature^2].
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import optax
from jax.experimental.ode import odeint
from jax.flatten_util import ravel_pytree
from jax.tree_util import register_dataclass

from srmc._checks import as_numbers, check_flag, check_number, is_concrete, outputs_of
from srmc.repel.compute import sums
from srmc.repel.target import all_finite, as_position
from srmc.types import Array, ArrayLike, Feature, Float, Position, PyTree, Scalar, Score

LIMIT = 0.5  # largest log scale of a scaling, and largest norm of other linear maps
FARTHEST = 10.0  # largest RMS displacement of a linear map, in whitened coordinates

Vector = Float[Array, " d"]
Matrix = Float[Array, "d d"]
Shares = Float[Array, " row"]

# A flow too stiff for `mxstep` steps is extrapolated, to a point so far out that it is refused.
_solve = functools.partial(odeint, rtol=1e-5, atol=1e-6, mxstep=1000)


class Field:
    """A family of vector fields g_k.

    init
        The weights of no move, for a position; the history has their structure.
    feature
        `(x, s) -> (div g_k + g_k·s)_k`, with s the score at x.
    flow
        `(x, weights) -> x` moved along sum_k w_k g_k; the move is always invertible.
    total
        `(xs, ss, shares)`, with a position and a score per row, to the sum of the rows' features
        times their shares, and a bound on the size of any entry of these features.
    """

    init: Callable[[Position], Feature]
    feature: Callable[[Position, Score], Feature]
    flow: Callable[[Position, Feature], Position]

    def total(self, xs: Position, ss: Score, shares: Shares) -> tuple[Feature, PyTree[Scalar]]:
        features = jax.vmap(self.feature)(xs, ss)
        weigh = lambda f: jnp.sum(jax.vmap(jnp.multiply)(shares.astype(f.dtype), f), axis=0)
        return jax.tree.map(weigh, features), jax.tree.map(lambda f: jnp.max(jnp.abs(f)), features)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Coordinates:
    """Whitened coordinates y of a flattened position, x = center + R y."""

    center: ArrayLike
    root: Array
    inverse: Array

    def zeros(self, x: Position) -> Vector:
        """Zero weights; raise if the position does not have the size of the center and the root."""
        flat = jnp.zeros_like(ravel_pytree(x)[0])
        for name, shape in (("center", jnp.shape(self.center)), ("root", self.root.shape)):
            if shape not in ((), (flat.size,) * len(shape)):
                raise ValueError(
                    f"{name} must have {flat.size} entries per axis, as the position has, "
                    f"got shape {shape}"
                )
        return flat

    def whiten(self, x: Position) -> Vector:
        """The coordinates of a position."""
        flat = ravel_pytree(x)[0] - self.center
        return flat @ self.inverse.T if self.root.ndim == 2 else flat / self.root

    def pull(self, s: Score) -> Vector:
        """The score with respect to the coordinates."""
        flat = ravel_pytree(s)[0]
        return flat @ self.root if self.root.ndim == 2 else flat * self.root

    def moved(self, x: Position, move: Vector) -> Position:
        """The position after a move in these coordinates."""
        flat, unravel = ravel_pytree(x)
        pushed = move @ self.root.T if self.root.ndim == 2 else self.root * move
        return unravel(flat + pushed.astype(flat.dtype))


def _coordinates(center: Position | None, root: ArrayLike | None) -> Coordinates:
    at = 0.0 if center is None else ravel_pytree(as_position(center, "center"))[0]
    if is_concrete(root) and root is not None:
        as_numbers("root", root)  # raises for everything else
    matrix = jnp.ones(()) if root is None else jnp.asarray(root)
    if matrix.ndim > 2:
        raise ValueError(f"root must be a vector or a matrix, got shape {matrix.shape}")
    if matrix.ndim == 2 and matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"root must be square, got shape {matrix.shape}")
    inverse = jnp.linalg.inv(matrix) if matrix.ndim == 2 else 1 / matrix
    if is_concrete(matrix) and not all_finite((matrix, inverse)):
        raise ValueError(f"root must be finite and invertible, got {root}")
    if matrix.ndim < 2:
        check_number("root", matrix, above=0.0, scalar=False)
    check_number("center", at, scalar=False)
    return Coordinates(at, matrix, inverse)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Translations(Field):
    """Constant fields of a position; see `translations`."""

    def init(self, x: Position) -> Feature:
        return optax.tree.zeros_like(x)

    def feature(self, x: Position, s: Score) -> Feature:
        return s

    def flow(self, x: Position, weights: Feature) -> Position:
        return jax.tree.map(lambda a, b: a + b.astype(a.dtype), x, weights)


class _WithVector(Field):
    """A field with one feature per coordinate."""

    coordinates: Coordinates

    def init(self, x: Position) -> Feature:
        return self.coordinates.zeros(x)

    def total(self, xs: Position, ss: Score, shares: Shares) -> tuple[Feature, PyTree[Scalar]]:
        features = jax.vmap(self.feature)(xs, ss)
        return shares.astype(features.dtype) @ features, jnp.max(jnp.abs(features))


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Shifts(_WithVector):
    """Constant fields in coordinates; see `translations`."""

    coordinates: Coordinates
    limit: float | None

    def feature(self, x: Position, s: Score) -> Feature:
        return self.coordinates.pull(s)

    def flow(self, x: Position, weights: Feature) -> Position:
        move = weights if self.limit is None else _within((weights, self.limit))[0]
        return self.coordinates.moved(x, move)


def translations(root: ArrayLike | None = None, limit: float | None = None) -> Field:
    """Constant fields: the feature is the score, and the flow is a shift.

    With `root`, a vector or a matrix R, the coordinates are y with x = R y. With `limit`, the root
    mean square of a shift in these coordinates is at most that.
    """
    if limit is not None:
        check_number("limit", limit, above=0.0)
    if root is None and limit is None:
        return Translations()
    return Shifts(_coordinates(None, root), limit)


@dataclasses.dataclass(frozen=True)
class _Linear(Field):
    """Fields that are linear in the coordinates; `push` is their move for given weights."""

    coordinates: Coordinates
    limit: float

    push: ClassVar[Callable[..., Vector]]

    def flow(self, x: Position, weights: Feature) -> Position:
        (move,) = _within((self.push(self.coordinates.whiten(x), weights), FARTHEST))
        return self.coordinates.moved(x, move)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Scalings(_Linear, _WithVector):
    """Stretches of each coordinate; see `scalings`."""

    def feature(self, x: Position, s: Score) -> Feature:
        return 1 + self.coordinates.whiten(x) * self.coordinates.pull(s)

    def push(self, y: Vector, w: Vector) -> Vector:
        # Equal to `expm1` up to the rounding of y + move, and several times as fast.
        return (jnp.exp(jnp.clip(w, -self.limit, self.limit)) - 1) * y


def scalings(
    center: Position | None = None, root: ArrayLike | None = None, limit: float = LIMIT
) -> Field:
    """Fields y_i e_i: features 1 + y_i s_i, and a flow that stretches each coordinate by exp(w_i).

    The coordinates are y with x = center + R y, where `root` is a vector or a matrix R. |w_i| is
    clipped at `limit`, and the root mean square of the move at 10.
    """
    check_number("limit", limit, above=0.0)
    return Scalings(_coordinates(center, root), limit)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Shears(_Linear):
    """Symmetric linear maps; see `shears`."""

    def init(self, x: Position) -> Feature:
        zeros = self.coordinates.zeros(x)
        return jnp.zeros((zeros.size, zeros.size), zeros.dtype)

    def feature(self, x: Position, s: Score) -> Feature:
        outer = jnp.outer(self.coordinates.pull(s), self.coordinates.whiten(x))
        return jnp.eye(len(outer), dtype=outer.dtype) + (outer + outer.T) / 2

    def push(self, y: Vector, w: Matrix) -> Vector:
        return (w / jnp.maximum(1.0, jnp.linalg.norm(w) / self.limit)) @ y

    def total(self, xs: Position, ss: Score, shares: Shares) -> tuple[Feature, PyTree[Scalar]]:
        # The sum over rows is one product of matrices.
        y, s = jax.vmap(self.coordinates.whiten)(xs), jax.vmap(self.coordinates.pull)(ss)
        shares = shares.astype(s.dtype)
        outer = (shares[:, None] * s).T @ y
        bound = 1 + jnp.max(jnp.max(jnp.abs(s), axis=1) * jnp.max(jnp.abs(y), axis=1))
        return jnp.sum(shares) * jnp.eye(len(outer), dtype=s.dtype) + (outer + outer.T) / 2, bound


def shears(
    center: Position | None = None, root: ArrayLike | None = None, limit: float = LIMIT
) -> Field:
    """Fields y_j e_i, symmetrised: the feature is the matrix I + (s y^T + y s^T)/2.

    The flow is y + M y, with the Frobenius norm of M at most `limit`, and the root mean square of
    M y at most 10; a `limit` below 1 makes it invertible. The history holds d^2 numbers.
    """
    check_number("limit", limit, above=0.0, at_most=0.99)
    return Shears(_coordinates(center, root), limit)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Combined(Field):
    """Several fields at once; see `combined`."""

    fields: tuple[Field, ...]

    def init(self, x: Position) -> Feature:
        return tuple(field.init(x) for field in self.fields)

    def feature(self, x: Position, s: Score) -> Feature:
        return tuple(field.feature(x, s) for field in self.fields)

    def flow(self, x: Position, weights: Feature) -> Position:
        for field, w in zip(self.fields, weights, strict=True):
            x = field.flow(x, w)
        return x

    def total(self, xs: Position, ss: Score, shares: Shares) -> tuple[Feature, PyTree[Scalar]]:
        pairs = [field.total(xs, ss, shares) for field in self.fields]
        features, bounds = zip(*pairs, strict=True)
        return features, bounds


def combined(*fields: Field) -> Field:
    """Several fields at once: the features of all, and their flows one after the other."""
    if not fields or not all(isinstance(field, Field) for field in fields):
        raise TypeError(f"fields must be fields, one or more, got {fields!r}")
    return Combined(fields)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Affine(Combined):
    """A linear map and a shift, both from the same point, which saves a product with R."""

    def flow(self, x: Position, weights: Feature) -> Position:
        linear: Any = self.fields[0]
        w, shift = weights
        pushed = linear.push(linear.coordinates.whiten(x), w)
        linear_move, shift = _within((pushed, FARTHEST), (shift, 1.0))
        return linear.coordinates.moved(x, linear_move + shift)


def affine(
    center: Position | None = None, root: ArrayLike | None = None, *, full: bool = False
) -> Field:
    """Scalings, or with `full` all symmetric linear maps, then shifts of at most one unit."""
    check_flag("full", full)
    linear = (shears if full else scalings)(center, root)
    return Affine((linear, translations(root, limit=1.0)))


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Clipped(Field):
    """A field whose features are clipped at `most` times their root mean squares `sizes`."""

    inner: Field
    sizes: PyTree[Array]
    most: float

    def init(self, x: Position) -> Feature:
        return self.inner.init(x)

    def feature(self, x: Position, s: Score) -> Feature:
        def clip(f: Array, size: Array) -> Array:
            return jnp.clip(f, -self.most * size.astype(f.dtype), self.most * size.astype(f.dtype))

        return jax.tree.map(clip, self.inner.feature(x, s), self.sizes)

    def flow(self, x: Position, weights: Feature) -> Position:
        return self.inner.flow(x, weights)

    def total(self, xs: Position, ss: Score, shares: Shares) -> tuple[Feature, PyTree[Scalar]]:
        quick, bounds = self.inner.total(xs, ss, shares)
        is_small = lambda b, size: b <= self.most * jnp.min(size).astype(b.dtype)
        within = jnp.all(jnp.stack(jax.tree.leaves(jax.tree.map(is_small, bounds, self.sizes))))
        slow = lambda: Field.total(self, xs, ss, shares)[0]
        return jax.lax.cond(within, lambda: quick, slow), bounds


@register_dataclass
@dataclasses.dataclass(frozen=True)
class OwnField(Field):
    """A user-defined field; see `field`."""

    vector_field: Callable[[Any], Any]
    divergence: Callable[[Any], Scalar] | None

    def init(self, x: Position) -> Feature:
        found = outputs_of("vector_field", self.vector_field, x)
        expected, out = (str(jax.tree.map(jnp.shape, tree)) for tree in (x, found))
        if out != expected:
            raise ValueError(f"vector_field must return what x is, {expected}, got {out}")
        if self.divergence is not None:
            shape = getattr(outputs_of("divergence", self.divergence, x), "shape", None)
            if shape != ():
                raise ValueError(f"divergence must return a scalar, got shape {shape}")
        return jnp.zeros((), ravel_pytree(x)[0].dtype)

    def _trace(self, x: Position) -> Scalar:
        flat, unravel = ravel_pytree(x)
        vector = lambda z: ravel_pytree(self.vector_field(unravel(z)))[0]
        return jnp.trace(jax.jacfwd(vector)(flat))

    def feature(self, x: Position, s: Score) -> Feature:
        inner: Scalar = optax.tree.vdot(self.vector_field(x), s)
        return (self.divergence or self._trace)(x) + inner

    def flow(self, x: Position, weights: Feature) -> Position:
        """The position that solves dy/dt = w g(y), y(0) = x, at t = 1."""
        dtype = ravel_pytree(x)[0].dtype

        def velocity(state: tuple[Position, Scalar], t: Scalar) -> tuple[Position, Scalar]:
            # The solver would extrapolate past a NaN. Here such a path stops and is marked.
            y, _ = state
            v = jax.tree.map(lambda a, b: (weights * b).astype(a.dtype), y, self.vector_field(y))
            is_finite = all_finite(v)
            zeros = optax.tree.zeros_like(v)
            return optax.tree.where(is_finite, v, zeros), 1 - is_finite.astype(dtype)

        start = x, jnp.zeros((), dtype)
        path, mark = _solve(velocity, start, jnp.arange(2, dtype=dtype))
        return jax.tree.map(lambda leaf: jnp.where(mark[-1] == 0, leaf[-1], jnp.nan), path)


def field(
    vector_field: Callable[[Any], Any], divergence: Callable[[Any], Scalar] | None = None
) -> Field:
    """A user-defined field: `vector_field(x)` has the structure of x.

    The divergence is obtained by differentiation if not given, at the cost of d evaluations. The
    flow is solved adaptively, to a relative error of about 1e-5; it is NaN if the field is not
    finite anywhere along the path.
    """
    for name, function in (("vector_field", vector_field), ("divergence", divergence)):
        if not (callable(function) or (name == "divergence" and function is None)):
            raise TypeError(f"{name} must be a function of a position, got {function!r}")
    return OwnField(vector_field, divergence)


def _within(*moves: tuple[Vector, float]) -> list[Vector]:
    """Moves, each scaled down to a root mean square of at most its limit."""
    squares = sums(*(v * v for v, _ in moves))
    return [
        v / jnp.maximum(1.0, jnp.sqrt(square / v.size) / limit)
        for (v, limit), square in zip(moves, squares, strict=True)
    ]
