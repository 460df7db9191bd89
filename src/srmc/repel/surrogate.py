"""The surrogate: the target bent away from what the history has seen.

A surrogate depends on the history only through the direction `u = A theta` and the strength alpha.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jax.tree_util import register_dataclass

from srmc._checks import as_numbers, check_flag, check_number, check_option, is_concrete
from srmc.repel.field import Field, Translations
from srmc.types import ArrayLike, Feature, LogDensity, Position, PyTree, Scalar, Score, ScoreFn

BentDensity: TypeAlias = Callable[[Position, Feature, Scalar], Scalar]
Scored: TypeAlias = tuple[Scalar, Score]  # a log density and its gradient


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Preconditioner:
    """theta -> A theta, for A a number, a vector, a matrix, a pytree of factors, or a function."""

    a: Any = None

    def __call__(self, theta: Feature) -> Feature:
        if self.a is None:
            return theta
        if callable(self.a):
            out: Feature = self.a(theta)
            expected, given = (str(jax.tree.map(jnp.shape, tree)) for tree in (theta, out))
            if expected != given:
                raise ValueError(
                    f"preconditioner must return what has the shape of theta, {expected}, got "
                    f"{given}"
                )
            return out
        flat, unravel = ravel_pytree(theta)
        if self.a.ndim and self.a.shape != (flat.size,) * self.a.ndim:
            raise ValueError(
                f"preconditioner must have {flat.size} entries per axis, as the position has, "
                f"got shape {self.a.shape}"
            )
        a = self.a.astype(flat.dtype)
        return unravel(a @ flat if a.ndim == 2 else a * flat)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Factors(Preconditioner):
    """A diagonal A: a pytree of factors in the structure of theta."""

    def __call__(self, theta: Feature) -> Feature:
        expected, given = (str(jax.tree.structure(t)) for t in (theta, self.a))
        if expected != given:
            raise ValueError(
                f"preconditioner must have the structure of theta, {expected}, got {given}"
            )
        return jax.tree.map(lambda t, a: jnp.asarray(a, t.dtype) * t, theta, self.a)


def as_preconditioner(a: ArrayLike | Callable[[Feature], Feature] | None) -> Preconditioner:
    """A as a function of theta, or an error that says what it must be."""
    if a is None or callable(a):
        return Preconditioner(a)
    if is_concrete(a):
        as_numbers("preconditioner", a)  # raises for everything else
    matrix = jnp.asarray(a)
    if matrix.ndim > 2 or (matrix.ndim == 2 and matrix.shape[0] != matrix.shape[1]):
        raise ValueError(
            "preconditioner must be a number, a vector, a square matrix or a function of theta, "
            f"got an array of shape {matrix.shape}"
        )
    check_number("preconditioner", matrix, scalar=False)
    if matrix.ndim < 2:
        check_number("preconditioner", matrix, at_least=0.0, scalar=False)
    return Preconditioner(matrix)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Surrogate:
    """A way to bend a target: `shift`, `tilt`, or a move `along` a field.

    precondition
        Turns theta into the direction `u`.
    field
        The field whose features the history averages.
    """

    precondition: Preconditioner
    field: Field

    bends: ClassVar[bool] = True  # whether `bend` is defined, or the target is only moved
    carries: ClassVar[bool] = True  # whether the state can travel with the target
    value_gradients: ClassVar[int] = 0  # gradients of the target per value of the surrogate
    gradient_cost: ClassVar[tuple[int, int]] = (1, 0)  # and per gradient, with products among them

    def bend(self, logdensity_fn: LogDensity) -> BentDensity:
        """Turn a log density of `x` into one of `(x, u, alpha)`."""
        raise ValueError("a field moves draws and does not bend the target")


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Shift(Surrogate):
    """The target moved by `alpha u`."""

    def bend(self, logdensity_fn: LogDensity) -> BentDensity:
        return lambda x, u, alpha: logdensity_fn(move(x, -alpha, u))


def shift(preconditioner: ArrayLike | Callable[[Feature], Feature] | None = None) -> Surrogate:
    """The target moved by `alpha A theta`: log pi_theta(x) = log pi(x - alpha A theta).

    It agrees with the tilt to first order in theta, and exactly on a Gaussian. It is always
    normalised, and needs no Hessian-vector product.

    `preconditioner` is A: a number, a vector for a diagonal A, a matrix, or a function of theta.
    """
    return Shift(as_preconditioner(preconditioner), Translations())


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Along(Surrogate):
    """The target moved along the flow of a field."""

    bends = False


def along(
    field: Field, preconditioner: PyTree[ArrayLike] | Callable[[Feature], Feature] | None = None
) -> Surrogate:
    """The target moved by `alpha A theta` along the flow of a field; for the moving frame only.

    `preconditioner` is A: a function of theta, or a pytree of factors in the structure of theta.
    The loop has the same rate in all features if the factors are one over their second moments.
    """
    if not isinstance(field, Field):
        raise TypeError(f"field must be affine() or another field, got {field!r}")
    if preconditioner is None or callable(preconditioner):
        return Along(Preconditioner(preconditioner), field)
    for factor in jax.tree.leaves(preconditioner):
        check_number("preconditioner", factor, at_least=0.0, scalar=False)
    return Along(Factors(preconditioner), field)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Tilt(Surrogate):
    """The paper's surrogate; see `tilt`.

    Kernels that keep the score s(x), which does not depend on theta, use it in two parts: `fresh`
    evaluates the target and the surrogate together, and `again` the surrogate where the target is
    known. The costs are gradients of the target, and how many of them are Hessian-vector products.
    """

    hvp: str = dataclasses.field(metadata={"static": True})
    eps: float | None  # None: alpha
    central: bool = dataclasses.field(metadata={"static": True})

    carries = False
    value_gradients = 1

    @property
    def again_cost(self) -> tuple[int, int]:
        return 1 + self.central, int(self.hvp == "forward")

    @property
    def gradient_cost(self) -> tuple[int, int]:  # type: ignore[override]
        """The cost of `fresh`: for "forward", score and product come together."""
        gradients, hvps = self.again_cost
        return gradients + (self.hvp != "forward"), hvps

    def fresh(
        self, logdensity_fn: LogDensity, x: Position, u: Feature, alpha: Scalar
    ) -> tuple[Scored, Scored]:
        """Value and score of the target, and value and gradient of the surrogate."""
        value_and_score = jax.value_and_grad(logdensity_fn)
        if self.hvp == "forward":
            (value, s), (_, hessian_u) = jax.jvp(value_and_score, (x,), (u,))
            return (value, s), (_tilted(value, s, u, alpha), move(s, -alpha, hessian_u))
        value, s = value_and_score(x)
        return (value, s), self.again(logdensity_fn, x, value, s, u, alpha)

    def again(
        self,
        logdensity_fn: LogDensity,
        x: Position,
        value: Scalar,
        s: Score,
        u: Feature,
        alpha: Scalar,
    ) -> Scored:
        """Value and gradient of the surrogate."""
        gradient = self._gradient(jax.grad(logdensity_fn), x, s, u, alpha)
        return _tilted(value, s, u, alpha), gradient

    def _gradient(self, score: ScoreFn, x: Position, s: Score, u: Feature, alpha: Scalar) -> Score:
        """s - alpha H u, exact or approximate."""
        if self.hvp == "forward":
            return move(s, -alpha, jax.jvp(score, (x,), (u,))[1])
        if self.hvp == "shifted":
            return score(move(x, -alpha, u))
        # alpha / eps is 1 for eps = alpha, also where alpha is 0
        eps, ratio = alpha, jnp.ones_like(alpha)
        if self.eps is not None:
            eps, ratio = jnp.asarray(self.eps, alpha.dtype), alpha / self.eps
        if not self.central:
            return move(s, -ratio, optax.tree.sub(score(move(x, eps, u)), s))
        ahead, behind = (score(move(x, half * eps, u)) for half in (0.5, -0.5))
        return move(s, -ratio, optax.tree.sub(ahead, behind))

    def bend(self, logdensity_fn: LogDensity) -> BentDensity:
        """The tilted log density, whose derivative is the rule's gradient."""
        value_and_score = jax.value_and_grad(logdensity_fn)

        @jax.custom_jvp
        def tilted(x: Position, u: Feature, alpha: Scalar) -> Scalar:
            return _tilted(*value_and_score(x), u, alpha)

        @tilted.defjvp
        def tilted_jvp(primals: Any, tangents: Any) -> tuple[Scalar, Scalar]:
            x, u, alpha = primals
            x_dot, u_dot, alpha_dot = tangents
            (value, s), (out, gradient) = self.fresh(logdensity_fn, x, u, alpha)
            out_dot = (
                optax.tree.vdot(gradient, x_dot)
                - alpha.astype(value.dtype) * optax.tree.vdot(s, u_dot)
                - alpha_dot.astype(value.dtype) * optax.tree.vdot(s, u).astype(value.dtype)
            )
            return out, out_dot.astype(out.dtype)

        return tilted


def tilt(
    hvp: str = "forward",
    *,
    eps: float | str | None = None,
    central: bool = False,
    preconditioner: ArrayLike | Callable[[Feature], Feature] | None = None,
) -> Tilt:
    """The paper's surrogate: log pi_theta(x) = log pi(x) - alpha (A theta)·s(x) (eq:score_tilt).

    Its value is exact. Its gradient, s(x) - alpha H u with H the Hessian of log pi, is computed by

    - `hvp="forward"`: forward-over-reverse differentiation, which is exact;
    - `hvp="finite-difference"`: (s(x + eps u) - s(x)) / eps, or the `central` difference of
      s(x + eps u / 2) and s(x - eps u / 2) (eq:hessian_approximation); `eps` is 0.1 if not given,
      and `eps="alpha"` follows the strength;
    - `hvp="shifted"`: s(x - alpha u) in place of the whole gradient.

    Metropolis-adjusted kernels remain exact with each of them.
    """
    check_option("hvp", hvp, ("forward", "finite-difference", "shifted"))
    for name, value in (("eps", eps), ("central", central or None)):
        if value is not None and hvp != "finite-difference":
            raise ValueError(f"{name}={value!r} needs hvp='finite-difference', got hvp={hvp!r}")
    eps = 0.1 if eps is None else eps
    if isinstance(eps, str):
        check_option("eps", eps, ("alpha",))
    else:
        check_number("eps", eps, above=0.0)
    check_flag("central", central)
    step = None if isinstance(eps, str) else eps
    return Tilt(as_preconditioner(preconditioner), Translations(), hvp, step, bool(central))


def move(x: Position, scale: ArrayLike, direction: PyTree) -> Position:
    """`x + scale direction`, with the dtypes of `x`."""
    return jax.tree.map(
        lambda a, b: a + jnp.asarray(scale, a.dtype) * b.astype(a.dtype), x, direction
    )


def _tilted(value: Scalar, s: Score, u: Feature, alpha: Scalar) -> Scalar:
    """log pi - alpha u·s, or -inf, which every kernel rejects, where that is not finite."""
    out = value - alpha.astype(value.dtype) * optax.tree.vdot(s, u).astype(value.dtype)
    return jnp.where(jnp.isfinite(out), out, -jnp.inf)
