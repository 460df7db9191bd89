"""The surrogate: the target bent away from what the history has seen.

A surrogate depends on the history only through the direction `u = A theta` and the strength alpha.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from srmc._checks import as_numbers, check_number, is_concrete
from srmc.repel.field import Field, translations
from srmc.types import ArrayLike, Feature, LogDensity, Position, PyTree, Scalar, Score

Preconditioner: TypeAlias = ArrayLike | Callable[[Feature], Feature] | None
BentDensity: TypeAlias = Callable[[Position, Feature, Scalar], Scalar]
Scored: TypeAlias = tuple[Scalar, Score]  # a log density and its gradient


class Surrogate(NamedTuple):
    """A way to bend a target.

    bend
        Turns a log density of `x` into one of `(x, u, alpha)`; None if the target is only moved.
    precondition
        Turns theta into the direction `u`.
    value_gradients, gradient_gradients, gradient_hvps
        The number of gradients of the target per value, and per value with gradient, and how many
        of the latter are Hessian-vector products.
    field
        The field whose features the history averages.
    carries
        Whether the target merely moves, along `alpha u` of the field, so that the state can
        travel with it.
    split
        The same in two parts, for kernels that can keep what does not depend on theta; None if
        nothing can be kept.
    """

    bend: Callable[[LogDensity], BentDensity] | None
    precondition: Callable[[Feature], Feature]
    value_gradients: int
    gradient_gradients: int
    gradient_hvps: int
    field: Field
    carries: bool
    split: "Split | None" = None


class Split(NamedTuple):
    """A surrogate in two parts: the score of the target, and what theta adds to it.

    fresh
        Turns a log density of `x` into a function of `(x, u, alpha)` that returns its value and
        score, and the value and gradient of the surrogate.
    again
        Turns a log density into a function of `(x, value, score, u, alpha)` that returns the value
        and gradient of the surrogate where those of the target are known.
    fresh_cost, again_cost
        The gradients of the target that each evaluates, and how many of them are Hessian-vector
        products.
    """

    fresh: Callable[[LogDensity], Callable[..., tuple[Scored, Scored]]]
    again: Callable[[LogDensity], Callable[..., Scored]]
    fresh_cost: tuple[int, int]
    again_cost: tuple[int, int]


def move(x: Position, scale: ArrayLike, direction: PyTree) -> Position:
    """`x + scale direction`, with the dtypes of `x`."""
    return jax.tree.map(
        lambda a, b: a + jnp.asarray(scale, a.dtype) * b.astype(a.dtype), x, direction
    )


def shift(preconditioner: Preconditioner = None) -> Surrogate:
    """The target moved by `alpha A theta`: log pi_theta(x) = log pi(x - alpha A theta).

    It agrees with the tilt to first order in theta, and exactly on a Gaussian. It is always
    normalised, and needs no Hessian-vector product.

    `preconditioner` is A: a number, a vector for a diagonal A, a matrix, or a function of theta.
    """

    def bend(logdensity_fn: LogDensity) -> BentDensity:
        return lambda x, u, alpha: logdensity_fn(move(x, -alpha, u))

    precondition = make_precondition(preconditioner)
    return Surrogate(bend, precondition, 0, 1, 0, translations(), carries=True)


def along(
    field: Field, preconditioner: PyTree[ArrayLike] | Callable[[Feature], Feature] | None = None
) -> Surrogate:
    """The target moved by `alpha A theta` along the flow of a field; for the moving frame only.

    `preconditioner` is A: a function of theta, or a pytree of factors in the structure of theta.
    The loop has the same rate in all features if the factors are one over their second moments.
    """
    if not isinstance(field, Field):
        raise TypeError(f"field must be affine() or another field, got {field!r}")
    for factor in [] if callable(preconditioner) else jax.tree.leaves(preconditioner):
        check_number("preconditioner", factor, at_least=0.0, scalar=False)

    def precondition(theta: Feature) -> Feature:
        if preconditioner is None:
            return theta
        if callable(preconditioner):
            return _checked(preconditioner)(theta)
        expected, given = (str(jax.tree.structure(t)) for t in (theta, preconditioner))
        if expected != given:
            raise ValueError(
                f"preconditioner must have the structure of theta, {expected}, got {given}"
            )
        return jax.tree.map(lambda t, a: jnp.asarray(a, t.dtype) * t, theta, preconditioner)

    return Surrogate(None, precondition, 0, 1, 0, field, carries=True)


def _checked(preconditioner: Callable[[Feature], Feature]) -> Callable[[Feature], Feature]:
    def precondition(theta: Feature) -> Feature:
        out = preconditioner(theta)
        expected, given = (str(jax.tree.map(jnp.shape, tree)) for tree in (theta, out))
        if expected != given:
            raise ValueError(
                f"preconditioner must return what has the shape of theta, {expected}, got {given}"
            )
        return out

    return precondition


def make_precondition(preconditioner: Preconditioner) -> Callable[[Feature], Feature]:
    """The function theta -> A theta, for A a number, a vector, a matrix or that function."""
    if preconditioner is None:
        return lambda theta: theta
    if callable(preconditioner):
        return _checked(preconditioner)
    if is_concrete(preconditioner):
        as_numbers("preconditioner", preconditioner)  # refuses everything else
    matrix = jnp.asarray(preconditioner)
    if matrix.ndim > 2 or (matrix.ndim == 2 and matrix.shape[0] != matrix.shape[1]):
        raise ValueError(
            "preconditioner must be a number, a vector, a square matrix or a function of theta, "
            f"got an array of shape {matrix.shape}"
        )
    check_number("preconditioner", matrix, scalar=False)
    if matrix.ndim < 2:
        check_number("preconditioner", matrix, at_least=0.0, scalar=False)

    def precondition(theta: Feature) -> Feature:
        flat, unravel = ravel_pytree(theta)
        if matrix.ndim and matrix.shape != (flat.size,) * matrix.ndim:
            raise ValueError(
                f"preconditioner must have {flat.size} entries per axis, as the position has, "
                f"got shape {matrix.shape}"
            )
        a = matrix.astype(flat.dtype)
        return unravel(a @ flat if matrix.ndim == 2 else a * flat)

    return precondition
