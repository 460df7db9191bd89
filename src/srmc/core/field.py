"""Vector fields to repel along: their features, and their flow.

For any field g the Stein feature div g + g·s has mean zero under the target, and moving draws along
g works against it. Under the move of size w the feature's mean falls by w E[feature^2].
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree

from srmc._checks import check_count, check_number, is_concrete
from srmc.core.target import all_finite

PyTree = Any
FARTHEST = 10.0  # root mean square of what a linear map moves a draw by, in whitened coordinates


class Field(NamedTuple):
    """A family of vector fields g_k.

    init
        The weights of no move, for a position; the history has their structure.
    feature
        `(x, s) -> (div g_k + g_k·s)_k`, with s the score at x.
    flow
        `(x, weights) -> x` moved along sum_k w_k g_k, always invertibly.
    total
        Optional, for speed: `(xs, ss, shares)`, with rows of positions and scores, to the sum of
        their features times their shares, and a bound on the size of any entry of them.
    """

    init: Callable[[PyTree], PyTree]
    feature: Callable[[PyTree, PyTree], PyTree]
    flow: Callable[[PyTree, PyTree], PyTree]
    total: Callable[[PyTree, PyTree, jax.Array], tuple[PyTree, PyTree]] | None = None


def total_feature(field: Field, xs: PyTree, ss: PyTree, shares: jax.Array) -> PyTree:
    """The sum of the features of rows, times their shares, one by one."""
    features = jax.vmap(field.feature)(xs, ss)
    weigh = lambda f: jnp.sum(jax.vmap(jnp.multiply)(shares.astype(f.dtype), f), axis=0)
    return jax.tree.map(weigh, features)


def translations(root: Any = None, limit: float | None = None) -> Field:
    """Constant fields: the feature is the score, and the flow shifts.

    With `root`, a vector or a matrix R, coordinates are y with x = R y; with `limit`, the root
    mean square of a shift there is at most that.
    """
    if limit is not None:
        check_number("limit", limit, above=0.0)
    if root is None and limit is None:
        return Field(
            optax.tree.zeros_like,
            lambda x, s: s,
            lambda x, w: jax.tree.map(lambda a, b: a + b.astype(a.dtype), x, w),
        )
    frame = _Coordinates(None, root)

    def flow(x, w):
        flat, unravel = ravel_pytree(x)
        if limit is not None:
            w = _within(w, limit)
        return unravel(flat + frame.push(w).astype(flat.dtype))

    def total(xs, ss, shares):
        features = jax.vmap(frame.pull)(ss)
        return shares.astype(features.dtype) @ features, jnp.max(jnp.abs(features))

    return Field(frame.zeros, lambda x, s: frame.pull(s), flow, total)


def scalings(center: Any = None, root: Any = None, limit: float = 0.5) -> Field:
    """Fields y_i e_i: features 1 + y_i s_i, and a flow that stretches each coordinate by exp(w_i).

    Coordinates are y with x = center + R y, `root` a vector or a matrix R; |w_i| stays within
    `limit`, and the root mean square of the move within 10.
    """
    check_number("limit", limit, above=0.0)
    frame = _Coordinates(center, root)

    def flow(x, w):
        flat, unravel = ravel_pytree(x)
        stretch = jnp.expm1(jnp.clip(w, -limit, limit))
        move = _within(stretch * frame.whiten(x), FARTHEST)
        return unravel(flat + frame.push(move).astype(flat.dtype))

    def feature(x, s):
        return 1 + frame.whiten(x) * frame.pull(s)

    def total(xs, ss, shares):
        features = jax.vmap(feature)(xs, ss)
        return shares.astype(features.dtype) @ features, jnp.max(jnp.abs(features))

    return Field(frame.zeros, feature, flow, total)


def shears(center: Any = None, root: Any = None, limit: float = 0.5) -> Field:
    """Fields y_j e_i, symmetrically: the feature is the matrix I + (s y^T + y s^T)/2.

    The flow is y + M y, with the Frobenius norm of M within `limit`, and the root mean square of
    M y within 10; below 1, `limit` makes it invertible. The history takes d^2 numbers.
    """
    check_number("limit", limit, above=0.0, at_most=0.99)
    frame = _Coordinates(center, root)

    def init(x):
        zeros = frame.zeros(x)
        return jnp.zeros((zeros.size, zeros.size), zeros.dtype)

    def feature(x, s):
        outer = jnp.outer(frame.pull(s), frame.whiten(x))
        return jnp.eye(len(outer), dtype=outer.dtype) + (outer + outer.T) / 2

    def flow(x, w):
        flat, unravel = ravel_pytree(x)
        w = w / jnp.maximum(1.0, jnp.linalg.norm(w) / limit)
        return unravel(flat + frame.push(_within(w @ frame.whiten(x), FARTHEST)).astype(flat.dtype))

    def total(xs, ss, shares):
        # the sum over rows is one product of matrices
        y, s = jax.vmap(frame.whiten)(xs), jax.vmap(frame.pull)(ss)
        shares = shares.astype(s.dtype)
        outer = (shares[:, None] * s).T @ y
        bound = 1 + jnp.max(jnp.max(jnp.abs(s), axis=1) * jnp.max(jnp.abs(y), axis=1))
        return jnp.sum(shares) * jnp.eye(len(outer), dtype=s.dtype) + (outer + outer.T) / 2, bound

    return Field(init, feature, flow, total)


def affine(center: Any = None, root: Any = None, *, full: bool = False) -> Field:
    """Scalings, or with `full` all symmetric linear maps, then shifts of one unit at most."""
    if not isinstance(full, bool):
        raise TypeError(f"full must be True or False, got {full!r}")
    linear = shears if full else scalings
    return combined(linear(center, root), translations(root, limit=1.0))


def combined(*fields: Field) -> Field:
    """Several fields at once: the features of all, and their flows one after the other."""
    if not fields or not all(isinstance(field, Field) for field in fields):
        raise TypeError(f"fields must be fields, one or more, got {fields!r}")

    def flow(x, weights):
        for field, w in zip(fields, weights, strict=True):
            x = field.flow(x, w)
        return x

    def total(xs, ss, shares):
        pairs = [field.total(xs, ss, shares) for field in fields if field.total is not None]
        return tuple(zip(*pairs, strict=True))

    return Field(
        lambda x: tuple(field.init(x) for field in fields),
        lambda x, s: tuple(field.feature(x, s) for field in fields),
        flow,
        total if all(field.total is not None for field in fields) else None,
    )


def field(
    vector_field: Callable[[PyTree], PyTree],
    divergence: Callable[[PyTree], jax.Array] | None = None,
    num_steps: int = 4,
) -> Field:
    """A field of one's own: `vector_field(x)` has the structure of x.

    The divergence is differentiated for if not given, at the cost of d evaluations. The flow
    takes `num_steps` steps of Runge and Kutta's method of order 4.
    """
    check_count("num_steps", num_steps)
    for name, function in (("vector_field", vector_field), ("divergence", divergence)):
        if not (callable(function) or (name == "divergence" and function is None)):
            raise TypeError(f"{name} must be a function of a position, got {function!r}")

    def trace(x):
        flat, unravel = ravel_pytree(x)
        return jnp.trace(jax.jacfwd(lambda z: ravel_pytree(vector_field(unravel(z)))[0])(flat))

    def feature(x, s):
        return (divergence or trace)(x) + optax.tree.vdot(vector_field(x), s)

    def flow(x, w):
        step = w / num_steps
        along = lambda x, k, size: jax.tree.map(lambda a, b: a + (size * b).astype(a.dtype), x, k)

        def one(_, x):
            k1 = vector_field(x)
            k2 = vector_field(along(x, k1, step / 2))
            k3 = vector_field(along(x, k2, step / 2))
            k4 = vector_field(along(x, k3, step))
            mean = jax.tree.map(lambda a, b, c, d: (a + 2 * b + 2 * c + d) / 6, k1, k2, k3, k4)
            return along(x, mean, step)

        return jax.lax.fori_loop(0, num_steps, one, x)

    def init(x):
        shapes = lambda tree: str(jax.tree.map(jnp.shape, tree))
        expected, out = shapes(x), shapes(jax.eval_shape(vector_field, x))
        if out != expected:
            raise ValueError(f"vector_field must return what x is, {expected}, got {out}")
        if divergence is not None and jnp.shape(jax.eval_shape(divergence, x)) != ():
            raise ValueError(
                "divergence must return a scalar, got shape "
                f"{jnp.shape(jax.eval_shape(divergence, x))}"
            )
        return jnp.zeros((), ravel_pytree(x)[0].dtype)

    return Field(init, feature, flow)


def _within(v, limit):
    """The vector, with its root mean square cut to the limit."""
    return v / jnp.maximum(1.0, jnp.sqrt(jnp.mean(v**2)) / limit)


class _Coordinates:
    """Whitened coordinates, x = center + R y, of a raveled position."""

    def __init__(self, center: Any, root: Any):
        self.center = 0.0 if center is None else ravel_pytree(center)[0]
        self.root = jnp.ones(()) if root is None else jnp.asarray(root)
        if self.root.ndim > 2:
            raise ValueError(f"root must be a vector or a matrix, got shape {self.root.shape}")
        if self.root.ndim == 2 and self.root.shape[0] != self.root.shape[1]:
            raise ValueError(f"root must be square, got shape {self.root.shape}")
        self.inverse = jnp.linalg.inv(self.root) if self.root.ndim == 2 else 1 / self.root
        if is_concrete(self.root) and not all_finite((self.root, self.inverse)):
            raise ValueError(f"root must be finite and invertible, got {root}")

    def zeros(self, x):
        flat = jnp.zeros_like(ravel_pytree(x)[0])
        sizes = {"center": jnp.shape(self.center), "root": self.root.shape}
        for name, shape in sizes.items():
            if shape not in ((), (flat.size,) * len(shape)):
                raise ValueError(
                    f"{name} must have {flat.size} entries a side, as the position has, "
                    f"got shape {shape}"
                )
        return flat

    def whiten(self, x):
        flat = ravel_pytree(x)[0] - self.center
        return self.inverse @ flat if self.root.ndim == 2 else flat / self.root

    def push(self, v):
        return self.root @ v if self.root.ndim == 2 else self.root * v

    def pull(self, s):
        flat = ravel_pytree(s)[0]
        return flat @ self.root if self.root.ndim == 2 else flat * self.root
