"""The surrogate: the target bent away from what the history has seen.

A surrogate sees the history through the direction `u = A theta` and the strength alpha alone.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree

from srmc._checks import check_number, check_option
from srmc.core.field import Field, translations
from srmc.core.target import LogDensity

PyTree = Any


class Surrogate(NamedTuple):
    """A way to bend a target.

    bend
        Turns a log density of `x` into one of `(x, u, alpha)`; None if it is only ever moved.
    precondition
        Turns theta into the direction `u`.
    value_gradients, gradient_gradients, gradient_hvps
        Gradients of the target that one value takes, and that one value with its gradient takes;
        and how many of the latter are Hessian-vector products.
    field
        What the history averages: the features of this field.
    carries
        Whether the target merely moves, along `alpha u` of the field, so that the state can
        travel with it.
    """

    bend: Callable[[LogDensity], Callable[[PyTree, PyTree, jax.Array], jax.Array]] | None
    precondition: Callable[[PyTree], PyTree]
    value_gradients: int
    gradient_gradients: int
    gradient_hvps: int
    field: Field
    carries: bool


def move(x: PyTree, scale: jax.typing.ArrayLike, direction: PyTree) -> PyTree:
    """`x + scale direction`, in the types of `x`."""
    return jax.tree.map(
        lambda a, b: a + jnp.asarray(scale, a.dtype) * b.astype(a.dtype), x, direction
    )


def shift(preconditioner: Any = None) -> Surrogate:
    """The target moved by `alpha A theta`: log pi_theta(x) = log pi(x - alpha A theta).

    It agrees with the tilt to first order in theta, and wholly on a Gaussian; it is always
    normalised, and needs no Hessian-vector product.

    `preconditioner` is A: a vector for a diagonal one, a matrix, or a function of theta.
    """

    def bend(logdensity_fn):
        return lambda x, u, alpha: logdensity_fn(move(x, -alpha, u))

    return Surrogate(bend, preconditioned(preconditioner), 0, 1, 0, translations(), carries=True)


def along(field: Field, preconditioner: Any = None) -> Surrogate:
    """The target moved along the flow of a field, by `alpha A theta`; for the moving frame alone.

    `preconditioner` is A: a function of theta, or a pytree of factors in the structure of theta.
    The loop has one rate in all its features if these are one over their second moments.
    """
    if not isinstance(field, Field):
        raise TypeError(f"field must be srmc.affine() or another field, got {field!r}")
    for factor in [] if callable(preconditioner) else jax.tree.leaves(preconditioner):
        check_number("preconditioner", factor, at_least=0.0, scalar=False)

    def precondition(theta):
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
    preconditioner: Any = None,
) -> Surrogate:
    """The paper's surrogate: log pi_theta(x) = log pi(x) - alpha (A theta)·s(x) (eq:score_tilt).

    Its value is exact. Its gradient, s(x) - alpha H u with H the Hessian of log pi, comes from

    - `hvp="forward"`: forward-over-reverse differentiation, exact;
    - `hvp="finite-difference"`: (s(x + eps u) - s(x)) / eps, or the `central` difference of
      s(x + eps u / 2) and s(x - eps u / 2) (eq:hessian_approximation); `eps` is 0.1 if not given;
    - `hvp="shifted"`: s(x - alpha u) in place of the whole.

    Metropolis-adjusted kernels remain exact with each of them.
    """
    check_option("hvp", hvp, ("forward", "finite-difference", "shifted"))
    for name, value in (("eps", eps), ("central", central or None)):
        if value is not None and hvp != "finite-difference":
            raise ValueError(f"{name}={value!r} needs hvp='finite-difference', got hvp={hvp!r}")
    eps = 0.1 if eps is None else eps
    check_number("eps", eps, above=0.0)
    rule, cost = _RULES[hvp, bool(central)]

    def bend(logdensity_fn):
        value_and_score = jax.value_and_grad(logdensity_fn)
        score = jax.grad(logdensity_fn)

        @jax.custom_jvp
        def tilted(x, u, alpha):
            value, s = value_and_score(x)
            slope = optax.tree.vdot(s, u).astype(value.dtype)
            return _finite_or_reject(value - alpha.astype(value.dtype) * slope)

        @tilted.defjvp
        def tilted_jvp(primals, tangents):
            x, u, alpha = primals
            x_dot, u_dot, alpha_dot = tangents
            value, s, gradient = rule(value_and_score, score, x, u, alpha, eps)
            slope = optax.tree.vdot(s, u).astype(value.dtype)
            out = _finite_or_reject(value - alpha.astype(value.dtype) * slope)
            out_dot = (
                optax.tree.vdot(gradient, x_dot)
                - alpha.astype(value.dtype) * optax.tree.vdot(s, u_dot)
                - alpha_dot.astype(value.dtype) * slope
            )
            return out, out_dot.astype(out.dtype)

        return tilted

    a = preconditioned(preconditioner)
    return Surrogate(bend, a, 1, *cost, translations(), carries=False)


def _forward(value_and_score, score, x, u, alpha, eps):
    (value, s), (_, hessian_u) = jax.jvp(value_and_score, (x,), (u,))
    return value, s, move(s, -alpha, hessian_u)


def _one_sided(value_and_score, score, x, u, alpha, eps):
    value, s = value_and_score(x)
    difference = optax.tree.sub(score(move(x, eps, u)), s)
    return value, s, move(s, -alpha / eps, difference)


def _central(value_and_score, score, x, u, alpha, eps):
    value, s = value_and_score(x)
    difference = optax.tree.sub(score(move(x, eps / 2, u)), score(move(x, -eps / 2, u)))
    return value, s, move(s, -alpha / eps, difference)


def _shifted(value_and_score, score, x, u, alpha, eps):
    value, s = value_and_score(x)
    return value, s, score(move(x, -alpha, u))


_RULES = {
    ("forward", False): (_forward, (1, 1)),
    ("finite-difference", False): (_one_sided, (2, 0)),
    ("finite-difference", True): (_central, (3, 0)),
    ("shifted", False): (_shifted, (2, 0)),
}


def _finite_or_reject(value: jax.Array) -> jax.Array:
    return jnp.where(jnp.isfinite(value), value, -jnp.inf)


def preconditioned(a: Any) -> Callable[[PyTree], PyTree]:
    if a is None:
        return lambda theta: theta
    if callable(a):
        return a
    matrix = jnp.asarray(a)
    if matrix.ndim > 2:
        raise ValueError(
            "preconditioner must be a number, a vector, a matrix or a function of theta, "
            f"got an array of shape {matrix.shape}"
        )
    check_number("preconditioner", matrix, scalar=False)
    if matrix.ndim < 2:
        check_number("preconditioner", matrix, at_least=0.0, scalar=False)

    def apply(theta):
        flat, unravel = ravel_pytree(theta)
        if matrix.ndim and matrix.shape != (flat.size,) * matrix.ndim:
            raise ValueError(
                f"preconditioner must have {flat.size} entries a side, as the position has, "
                f"got shape {matrix.shape}"
            )
        a = matrix.astype(flat.dtype)
        return unravel(a @ flat if matrix.ndim == 2 else a * flat)

    return apply
