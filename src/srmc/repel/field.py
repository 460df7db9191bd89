"""Vector fields along which draws are repelled: their features and their flows.

For any field g the Stein feature div g + g·s has mean zero under the target, and moving draws
along g acts against it: a move of size w lowers the feature's mean by w E[feature^2].
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.experimental.ode import odeint
from jax.flatten_util import ravel_pytree

from srmc._checks import as_numbers, check_flag, check_number, is_concrete, outputs_of
from srmc.repel.sums import sums
from srmc.repel.target import all_finite, as_position
from srmc.types import Array, ArrayLike, Feature, Float, Position, PyTree, Scalar, Score

LIMIT = 0.5  # of the logarithm of a scaling, and of the norm of another linear map
FARTHEST = 10.0  # the largest root mean square move of a linear map, in whitened coordinates

# A flow too stiff for `mxstep` steps is extrapolated, to a point so far out that it is refused.
_solve = functools.partial(odeint, rtol=1e-5, atol=1e-6, mxstep=1000)


class Field(NamedTuple):
    """A family of vector fields g_k.

    init
        The weights of no move, for a position; the history has their structure.
    feature
        `(x, s) -> (div g_k + g_k·s)_k`, with s the score at x.
    flow
        `(x, weights) -> x` moved along sum_k w_k g_k; the move is always invertible.
    total
        Optional, for speed: `(xs, ss, shares)`, with a position and a score per row, to the sum of
        the rows' features times their shares, and a bound on the size of any entry of these
        features.
    """

    init: Callable[[Position], Feature]
    feature: Callable[[Position, Score], Feature]
    flow: Callable[[Position, Feature], Position]
    total: (
        Callable[[Position, Score, Float[Array, " row"]], tuple[Feature, PyTree[Scalar]]] | None
    ) = None


def total_feature(field: Field, xs: Position, ss: Score, shares: Float[Array, " row"]) -> Feature:
    """The sum of the rows' features times their shares, computed row by row."""
    features = jax.vmap(field.feature)(xs, ss)

    def weigh(f: Array) -> Array:
        return jnp.sum(jax.vmap(jnp.multiply)(shares.astype(f.dtype), f), axis=0)

    return jax.tree.map(weigh, features)


def translations(root: ArrayLike | None = None, limit: float | None = None) -> Field:
    """Constant fields: the feature is the score, and the flow is a shift.

    With `root`, a vector or a matrix R, the coordinates are y with x = R y. With `limit`, the root
    mean square of a shift in these coordinates is at most that.
    """
    if limit is not None:
        check_number("limit", limit, above=0.0)
    if root is None and limit is None:
        return Field(
            optax.tree.zeros_like,
            lambda x, s: s,
            lambda x, w: jax.tree.map(lambda a, b: a + b.astype(a.dtype), x, w),
        )
    coordinates = _Coordinates(None, root)

    def feature(x: Position, s: Score) -> Float[Array, " d"]:
        return coordinates.pull(s)

    def flow(x: Position, w: Float[Array, " d"]) -> Position:
        return coordinates.moved(x, w if limit is None else _within((w, limit))[0])

    return Field(coordinates.zeros, feature, flow, _vector_total(feature))


def scalings(
    center: Position | None = None, root: ArrayLike | None = None, limit: float = LIMIT
) -> Field:
    """Fields y_i e_i: features 1 + y_i s_i, and a flow that stretches each coordinate by exp(w_i).

    The coordinates are y with x = center + R y, where `root` is a vector or a matrix R. |w_i| is
    clipped at `limit`, and the root mean square of the move at 10.
    """
    check_number("limit", limit, above=0.0)
    coordinates = _Coordinates(center, root)

    def feature(x: Position, s: Score) -> Float[Array, " d"]:
        return 1 + coordinates.whiten(x) * coordinates.pull(s)

    def flow(x: Position, w: Float[Array, " d"]) -> Position:
        (move,) = _within((_stretch(coordinates.whiten(x), w, limit), FARTHEST))
        return coordinates.moved(x, move)

    return Field(coordinates.zeros, feature, flow, _vector_total(feature))


def shears(
    center: Position | None = None, root: ArrayLike | None = None, limit: float = LIMIT
) -> Field:
    """Fields y_j e_i, symmetrised: the feature is the matrix I + (s y^T + y s^T)/2.

    The flow is y + M y, with the Frobenius norm of M at most `limit`, and the root mean square of
    M y at most 10; a `limit` below 1 makes it invertible. The history holds d^2 numbers.
    """
    check_number("limit", limit, above=0.0, at_most=0.99)
    coordinates = _Coordinates(center, root)

    def init(x: Position) -> Float[Array, "d d"]:
        zeros = coordinates.zeros(x)
        return jnp.zeros((zeros.size, zeros.size), zeros.dtype)

    def feature(x: Position, s: Score) -> Float[Array, "d d"]:
        outer = jnp.outer(coordinates.pull(s), coordinates.whiten(x))
        return jnp.eye(len(outer), dtype=outer.dtype) + (outer + outer.T) / 2

    def flow(x: Position, w: Float[Array, "d d"]) -> Position:
        (move,) = _within((_shear(coordinates.whiten(x), w, limit), FARTHEST))
        return coordinates.moved(x, move)

    def total(
        xs: Position, ss: Score, shares: Float[Array, " row"]
    ) -> tuple[Float[Array, "d d"], Scalar]:
        # The sum over rows is one product of matrices.
        y, s = jax.vmap(coordinates.whiten)(xs), jax.vmap(coordinates.pull)(ss)
        shares = shares.astype(s.dtype)
        outer = (shares[:, None] * s).T @ y
        bound = 1 + jnp.max(jnp.max(jnp.abs(s), axis=1) * jnp.max(jnp.abs(y), axis=1))
        return jnp.sum(shares) * jnp.eye(len(outer), dtype=s.dtype) + (outer + outer.T) / 2, bound

    return Field(init, feature, flow, total)


def affine(
    center: Position | None = None, root: ArrayLike | None = None, *, full: bool = False
) -> Field:
    """Scalings, or with `full` all symmetric linear maps, then shifts of at most one unit."""
    check_flag("full", full)
    linear, push = (shears, _shear) if full else (scalings, _stretch)
    coordinates = _Coordinates(center, root)

    def flow(x: Position, weights: Feature) -> Position:
        # Both moves at once, which saves a product with R.
        w, shift = weights
        pushed = push(coordinates.whiten(x), w, LIMIT)
        linear_move, shift = _within((pushed, FARTHEST), (shift, 1.0))
        return coordinates.moved(x, linear_move + shift)

    fields = linear(center, root), translations(root, limit=1.0)
    return combined(*fields)._replace(flow=flow)


def combined(*fields: Field) -> Field:
    """Several fields at once: the features of all, and their flows one after the other."""
    if not fields or not all(isinstance(field, Field) for field in fields):
        raise TypeError(f"fields must be fields, one or more, got {fields!r}")

    def flow(x: Position, weights: Feature) -> Position:
        for field, w in zip(fields, weights, strict=True):
            x = field.flow(x, w)
        return x

    def total(xs: Position, ss: Score, shares: Float[Array, " row"]) -> tuple[Feature, Feature]:
        pairs = [field.total(xs, ss, shares) for field in fields if field.total is not None]
        features, bounds = zip(*pairs, strict=True)
        return features, bounds

    return Field(
        lambda x: tuple(field.init(x) for field in fields),
        lambda x, s: tuple(field.feature(x, s) for field in fields),
        flow,
        total if all(field.total is not None for field in fields) else None,
    )


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

    def init(x: Position) -> Scalar:
        _check_outputs(vector_field, divergence, x)
        return jnp.zeros((), ravel_pytree(x)[0].dtype)

    def trace(x: Position) -> Scalar:
        flat, unravel = ravel_pytree(x)
        return jnp.trace(jax.jacfwd(lambda z: ravel_pytree(vector_field(unravel(z)))[0])(flat))

    def feature(x: Position, s: Score) -> Scalar:
        inner: Scalar = optax.tree.vdot(vector_field(x), s)
        return (divergence or trace)(x) + inner

    return Field(init, feature, functools.partial(_follow, vector_field))


def _check_outputs(
    vector_field: Callable[[Any], Any], divergence: Callable[[Any], Scalar] | None, x: Position
) -> None:
    """Refuse a field that does not return what x is, or a divergence that is not a scalar."""
    found = outputs_of("vector_field", vector_field, x)
    expected, out = (str(jax.tree.map(jnp.shape, tree)) for tree in (x, found))
    if out != expected:
        raise ValueError(f"vector_field must return what x is, {expected}, got {out}")
    if divergence is not None:
        shape = getattr(outputs_of("divergence", divergence, x), "shape", None)
        if shape != ():
            raise ValueError(f"divergence must return a scalar, got shape {shape}")


def _follow(vector_field: Callable[[Any], Any], x: Position, w: Scalar) -> Position:
    """The position that solves dy/dt = w g(y), y(0) = x, at t = 1."""
    dtype = ravel_pytree(x)[0].dtype

    def velocity(state: tuple[Position, Scalar], t: Scalar) -> tuple[Position, Scalar]:
        # The solver would extrapolate past a NaN. Here such a path stands still and is marked.
        y, _ = state
        v = jax.tree.map(lambda a, b: (w * b).astype(a.dtype), y, vector_field(y))
        is_finite = all_finite(v)
        zeros = optax.tree.zeros_like(v)
        return optax.tree.where(is_finite, v, zeros), 1 - is_finite.astype(dtype)

    start = x, jnp.zeros((), dtype)
    path, mark = _solve(velocity, start, jnp.arange(2, dtype=dtype))
    return jax.tree.map(lambda leaf: jnp.where(mark[-1] == 0, leaf[-1], jnp.nan), path)


def _vector_total(
    feature: Callable[[Position, Score], Float[Array, " d"]],
) -> Callable[[Position, Score, Float[Array, " row"]], tuple[Float[Array, " d"], Scalar]]:
    """`Field.total` of a field whose feature is a vector."""

    def total(
        xs: Position, ss: Score, shares: Float[Array, " row"]
    ) -> tuple[Float[Array, " d"], Scalar]:
        features = jax.vmap(feature)(xs, ss)
        return shares.astype(features.dtype) @ features, jnp.max(jnp.abs(features))

    return total


def _stretch(y: Float[Array, " d"], w: Float[Array, " d"], limit: float) -> Float[Array, " d"]:
    """The move that stretches each coordinate by exp(w)."""
    # To the rounding of y + move, and in a fraction of the time that `expm1` takes.
    return (jnp.exp(jnp.clip(w, -limit, limit)) - 1) * y


def _shear(y: Float[Array, " d"], w: Float[Array, "d d"], limit: float) -> Float[Array, " d"]:
    """The move by the linear map w, whose norm is bounded."""
    return (w / jnp.maximum(1.0, jnp.linalg.norm(w) / limit)) @ y


def _within(*moves: tuple[Float[Array, " d"], float]) -> list[Float[Array, " d"]]:
    """Moves, each scaled down to a root mean square of at most its limit."""
    squares = sums(*(v * v for v, _ in moves))
    return [
        v / jnp.maximum(1.0, jnp.sqrt(square / v.size) / limit)
        for (v, limit), square in zip(moves, squares, strict=True)
    ]


class _Coordinates:
    """Whitened coordinates y of a flattened position, x = center + R y."""

    def __init__(self, center: Position | None, root: ArrayLike | None):
        self.center = 0.0 if center is None else ravel_pytree(as_position(center, "center"))[0]
        if is_concrete(root) and root is not None:
            as_numbers("root", root)  # refuses everything else
        self.root = jnp.ones(()) if root is None else jnp.asarray(root)
        if self.root.ndim > 2:
            raise ValueError(f"root must be a vector or a matrix, got shape {self.root.shape}")
        if self.root.ndim == 2 and self.root.shape[0] != self.root.shape[1]:
            raise ValueError(f"root must be square, got shape {self.root.shape}")
        self.inverse = jnp.linalg.inv(self.root) if self.root.ndim == 2 else 1 / self.root
        if is_concrete(self.root) and not all_finite((self.root, self.inverse)):
            raise ValueError(f"root must be finite and invertible, got {root}")
        if self.root.ndim < 2:
            check_number("root", self.root, above=0.0, scalar=False)
        check_number("center", self.center, scalar=False)

    def zeros(self, x: Position) -> Float[Array, " d"]:
        """Zeros for a position, whose size must be that of the center and the root."""
        flat = jnp.zeros_like(ravel_pytree(x)[0])
        for name, shape in (("center", jnp.shape(self.center)), ("root", self.root.shape)):
            if shape not in ((), (flat.size,) * len(shape)):
                raise ValueError(
                    f"{name} must have {flat.size} entries per axis, as the position has, "
                    f"got shape {shape}"
                )
        return flat

    def whiten(self, x: Position) -> Float[Array, " d"]:
        """The coordinates of a position."""
        flat = ravel_pytree(x)[0] - self.center
        return flat @ self.inverse.T if self.root.ndim == 2 else flat / self.root

    def pull(self, s: Score) -> Float[Array, " d"]:
        """The score with respect to the coordinates."""
        flat = ravel_pytree(s)[0]
        return flat @ self.root if self.root.ndim == 2 else flat * self.root

    def moved(self, x: Position, move: Float[Array, " d"]) -> Position:
        """The position, moved by so much in these coordinates."""
        flat, unravel = ravel_pytree(x)
        pushed = move @ self.root.T if self.root.ndim == 2 else self.root * move
        return unravel(flat + pushed.astype(flat.dtype))
