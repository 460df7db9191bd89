"""The paper's surrogate, the target tilted by exp(-alpha theta·s), and ways to its gradient."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import optax

from srmc._checks import check_flag, check_number, check_option
from srmc.repel.field import translations
from srmc.repel.surrogate import (
    BentDensity,
    Preconditioner,
    Scored,
    Split,
    Surrogate,
    make_precondition,
    move,
)
from srmc.types import Feature, LogDensity, Position, Scalar, Score

HVPS = ("forward", "finite-difference", "shifted")


def tilt(
    hvp: str = "forward",
    *,
    eps: float | str | None = None,
    central: bool = False,
    preconditioner: Preconditioner = None,
) -> Surrogate:
    """The paper's surrogate: log pi_theta(x) = log pi(x) - alpha (A theta)·s(x) (eq:score_tilt).

    Its value is exact. Its gradient, s(x) - alpha H u with H the Hessian of log pi, is computed by

    - `hvp="forward"`: forward-over-reverse differentiation, which is exact;
    - `hvp="finite-difference"`: (s(x + eps u) - s(x)) / eps, or the `central` difference of
      s(x + eps u / 2) and s(x - eps u / 2) (eq:hessian_approximation); `eps` is 0.1 if not given,
      and `eps="alpha"` follows the strength;
    - `hvp="shifted"`: s(x - alpha u) in place of the whole gradient.

    Metropolis-adjusted kernels remain exact with each of them.
    """
    check_option("hvp", hvp, HVPS)
    for name, value in (("eps", eps), ("central", central or None)):
        if value is not None and hvp != "finite-difference":
            raise ValueError(f"{name}={value!r} needs hvp='finite-difference', got hvp={hvp!r}")
    eps = 0.1 if eps is None else eps
    if isinstance(eps, str):
        check_option("eps", eps, ("alpha",))
    else:
        check_number("eps", eps, above=0.0)
    check_flag("central", central)
    rule, again_cost, fresh_cost = _RULES[hvp, bool(central)]

    def fresh(logdensity_fn: LogDensity) -> Callable[..., tuple[Scored, Scored]]:
        score, value_and_score = jax.grad(logdensity_fn), jax.value_and_grad(logdensity_fn)

        def bend(x: Position, u: Feature, alpha: Scalar) -> tuple[Scored, Scored]:
            if hvp == "forward":  # score and product come together
                (value, s), (_, hessian_u) = jax.jvp(value_and_score, (x,), (u,))
                gradient = move(s, -alpha, hessian_u)
            else:
                value, s = value_and_score(x)
                gradient = rule(score, x, s, u, alpha, eps)
            return (value, s), (_tilted_value(value, s, u, alpha), gradient)

        return bend

    def again(logdensity_fn: LogDensity) -> Callable[..., Scored]:
        score = jax.grad(logdensity_fn)

        def bend(x: Position, value: Scalar, s: Score, u: Feature, alpha: Scalar) -> Scored:
            return _tilted_value(value, s, u, alpha), rule(score, x, s, u, alpha, eps)

        return bend

    def bend(logdensity_fn: LogDensity) -> BentDensity:
        return _as_density(jax.value_and_grad(logdensity_fn), fresh(logdensity_fn))

    return Surrogate(
        bend,
        make_precondition(preconditioner),
        1,
        *fresh_cost,
        translations(),
        carries=False,
        split=Split(fresh, again, fresh_cost, again_cost),
    )


def _as_density(
    value_and_score: Callable[[Position], Scored], fresh: Callable[..., tuple[Scored, Scored]]
) -> BentDensity:
    """The tilted log density as a function to differentiate, with the rule's gradient."""

    @jax.custom_jvp
    def tilted(x: Position, u: Feature, alpha: Scalar) -> Scalar:
        return _tilted_value(*value_and_score(x), u, alpha)

    @tilted.defjvp
    def tilted_jvp(
        primals: tuple[Position, Feature, Scalar], tangents: tuple[Position, Feature, Scalar]
    ) -> tuple[Scalar, Scalar]:
        x, u, alpha = primals
        x_dot, u_dot, alpha_dot = tangents
        (value, s), (out, gradient) = fresh(x, u, alpha)
        out_dot = (
            optax.tree.vdot(gradient, x_dot)
            - alpha.astype(value.dtype) * optax.tree.vdot(s, u_dot)
            - alpha_dot.astype(value.dtype) * optax.tree.vdot(s, u).astype(value.dtype)
        )
        return out, out_dot.astype(out.dtype)

    return tilted


def _tilted_value(value: Scalar, s: Score, u: Feature, alpha: Scalar) -> Scalar:
    """log pi - alpha u·s, or -inf, which every kernel rejects, where that is not finite."""
    out = value - alpha.astype(value.dtype) * optax.tree.vdot(s, u).astype(value.dtype)
    finite: Scalar = jnp.where(jnp.isfinite(out), out, -jnp.inf)
    return finite


# From the score function, x, s(x), u, alpha and eps to the gradient of the tilt.
_ScoreFn: TypeAlias = Callable[[Position], Score]
_Rule: TypeAlias = Callable[[_ScoreFn, Position, Score, Feature, Scalar, float | str], Score]


def _forward(
    score: _ScoreFn, x: Position, s: Score, u: Feature, alpha: Scalar, eps: float | str
) -> Score:
    return move(s, -alpha, jax.jvp(score, (x,), (u,))[1])


def _one_sided(
    score: _ScoreFn, x: Position, s: Score, u: Feature, alpha: Scalar, eps: float | str
) -> Score:
    length, ratio = _lengths(alpha, eps)
    return move(s, -ratio, optax.tree.sub(score(move(x, length, u)), s))


def _central(
    score: _ScoreFn, x: Position, s: Score, u: Feature, alpha: Scalar, eps: float | str
) -> Score:
    length, ratio = _lengths(alpha, eps)
    ahead, behind = (score(move(x, half * length, u)) for half in (0.5, -0.5))
    return move(s, -ratio, optax.tree.sub(ahead, behind))


def _shifted(
    score: _ScoreFn, x: Position, s: Score, u: Feature, alpha: Scalar, eps: float | str
) -> Score:
    return score(move(x, -alpha, u))


def _lengths(alpha: Scalar, eps: float | str) -> tuple[Scalar, Scalar]:
    """eps and alpha / eps; with eps = alpha the latter is 1, also where alpha is 0."""
    if isinstance(eps, str):
        return alpha, jnp.ones_like(alpha)
    return jnp.asarray(eps, alpha.dtype), alpha / eps


class _Priced(NamedTuple):
    """A rule, and its gradients and products: where the score is known, and where it is not."""

    rule: _Rule
    again: tuple[int, int]
    fresh: tuple[int, int]


_RULES: dict[tuple[str, bool], _Priced] = {
    ("forward", False): _Priced(_forward, (1, 1), (1, 1)),
    ("finite-difference", False): _Priced(_one_sided, (1, 0), (2, 0)),
    ("finite-difference", True): _Priced(_central, (2, 0), (3, 0)),
    ("shifted", False): _Priced(_shifted, (1, 0), (2, 0)),
}
