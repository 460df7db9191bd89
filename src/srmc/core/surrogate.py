"""The surrogate: the target bent away from what the history has seen.

A surrogate depends on the history only through the direction `u = A theta` and the strength alpha.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree

from srmc._checks import check_number, check_option
from srmc._types import ArrayLike, Feature, LogDensity, Position, PyTree, Scalar, Score
from srmc.core.field import Field, translations

Preconditioner: TypeAlias = ArrayLike | Callable[[Feature], Feature] | None
BentDensity: TypeAlias = Callable[[Position, Feature, Scalar], Scalar]


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
    """

    bend: Callable[[LogDensity], BentDensity] | None
    precondition: Callable[[Feature], Feature]
    value_gradients: int
    gradient_gradients: int
    gradient_hvps: int
    field: Field
    carries: bool


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
        raise TypeError(f"field must be srmc.affine() or another field, got {field!r}")
    for factor in [] if callable(preconditioner) else jax.tree.leaves(preconditioner):
        check_number("preconditioner", factor, at_least=0.0, scalar=False)

    def precondition(theta: Feature) -> Feature:
        if preconditioner is None:
            return theta
        if callable(preconditioner):
            return preconditioner(theta)
        expected, given = (str(jax.tree.structure(t)) for t in (theta, preconditioner))
        if expected != given:
            raise ValueError(
                f"preconditioner must have the structure of theta, {expected}, got {given}"
            )
        return jax.tree.map(lambda t, a: jnp.asarray(a, t.dtype) * t, theta, preconditioner)

    return Surrogate(None, precondition, 0, 1, 0, field, carries=True)


def tilt(
    hvp: str = "forward",
    *,
    eps: float | None = None,
    central: bool = False,
    preconditioner: Preconditioner = None,
) -> Surrogate:
    """The paper's surrogate: log pi_theta(x) = log pi(x) - alpha (A theta)·s(x) (eq:score_tilt).

    Its value is exact. Its gradient, s(x) - alpha H u with H the Hessian of log pi, is computed by

    - `hvp="forward"`: forward-over-reverse differentiation, which is exact;
    - `hvp="finite-difference"`: (s(x + eps u) - s(x)) / eps, or the `central` difference of
      s(x + eps u / 2) and s(x - eps u / 2) (eq:hessian_approximation); `eps` is 0.1 if not given;
    - `hvp="shifted"`: s(x - alpha u) in place of the whole gradient.

    Metropolis-adjusted kernels remain exact with each of them.
    """
    check_option("hvp", hvp, ("forward", "finite-difference", "shifted"))
    for name, value in (("eps", eps), ("central", central or None)):
        if value is not None and hvp != "finite-difference":
            raise ValueError(f"{name}={value!r} needs hvp='finite-difference', got hvp={hvp!r}")
    eps = 0.1 if eps is None else eps
    check_number("eps", eps, above=0.0)
    rule, cost = _RULES[hvp, bool(central)]

    def bend(logdensity_fn: LogDensity) -> BentDensity:
        return _tilted(logdensity_fn, rule, eps)

    precondition = make_precondition(preconditioner)
    return Surrogate(bend, precondition, 1, *cost, translations(), carries=False)


class _Scored(NamedTuple):
    """A log density's value with its score, and its score alone."""

    value_and_score: Callable[[Position], tuple[Scalar, Score]]
    score: Callable[[Position], Score]


# From the density, x, u, alpha and eps to the value and score at x, and the tilt's gradient.
_Rule: TypeAlias = Callable[
    [_Scored, Position, Feature, Scalar, float], tuple[Scalar, Score, Score]
]


def _tilted(logdensity_fn: LogDensity, rule: _Rule, eps: float) -> BentDensity:
    """The tilted log density, with the rule's gradient in place of its own."""
    density = _Scored(jax.value_and_grad(logdensity_fn), jax.grad(logdensity_fn))

    @jax.custom_jvp
    def tilted(x: Position, u: Feature, alpha: Scalar) -> Scalar:
        value, s = density.value_and_score(x)
        slope = optax.tree.vdot(s, u).astype(value.dtype)
        return _finite_or_reject(value - alpha.astype(value.dtype) * slope)

    @tilted.defjvp
    def tilted_jvp(
        primals: tuple[Position, Feature, Scalar], tangents: tuple[Position, Feature, Scalar]
    ) -> tuple[Scalar, Scalar]:
        x, u, alpha = primals
        x_dot, u_dot, alpha_dot = tangents
        value, s, gradient = rule(density, x, u, alpha, eps)
        slope = optax.tree.vdot(s, u).astype(value.dtype)
        out = _finite_or_reject(value - alpha.astype(value.dtype) * slope)
        out_dot = (
            optax.tree.vdot(gradient, x_dot)
            - alpha.astype(value.dtype) * optax.tree.vdot(s, u_dot)
            - alpha_dot.astype(value.dtype) * slope
        )
        return out, out_dot.astype(out.dtype)

    return tilted


def _forward(
    density: _Scored, x: Position, u: Feature, alpha: Scalar, eps: float
) -> tuple[Scalar, Score, Score]:
    (value, s), (_, hessian_u) = jax.jvp(density.value_and_score, (x,), (u,))
    return value, s, move(s, -alpha, hessian_u)


def _one_sided(
    density: _Scored, x: Position, u: Feature, alpha: Scalar, eps: float
) -> tuple[Scalar, Score, Score]:
    value, s = density.value_and_score(x)
    difference = optax.tree.sub(density.score(move(x, eps, u)), s)
    return value, s, move(s, -alpha / eps, difference)


def _central(
    density: _Scored, x: Position, u: Feature, alpha: Scalar, eps: float
) -> tuple[Scalar, Score, Score]:
    value, s = density.value_and_score(x)
    ahead, behind = (density.score(move(x, half, u)) for half in (eps / 2, -eps / 2))
    return value, s, move(s, -alpha / eps, optax.tree.sub(ahead, behind))


def _shifted(
    density: _Scored, x: Position, u: Feature, alpha: Scalar, eps: float
) -> tuple[Scalar, Score, Score]:
    value, s = density.value_and_score(x)
    return value, s, density.score(move(x, -alpha, u))


# Each rule with its cost: gradients of the target, and Hessian-vector products among them.
_RULES: dict[tuple[str, bool], tuple[_Rule, tuple[int, int]]] = {
    ("forward", False): (_forward, (1, 1)),
    ("finite-difference", False): (_one_sided, (2, 0)),
    ("finite-difference", True): (_central, (3, 0)),
    ("shifted", False): (_shifted, (2, 0)),
}


def _finite_or_reject(value: Scalar) -> Scalar:
    return jnp.where(jnp.isfinite(value), value, -jnp.inf)


def make_precondition(preconditioner: Preconditioner) -> Callable[[Feature], Feature]:
    """The function theta -> A theta, for A a number, a vector, a matrix or that function."""
    if preconditioner is None:
        return lambda theta: theta
    if callable(preconditioner):
        return preconditioner
    matrix = jnp.asarray(preconditioner)
    if matrix.ndim > 2:
        raise ValueError(
            "preconditioner must be a number, a vector, a matrix or a function of theta, "
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
