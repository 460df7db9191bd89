"""A numerical check of the assumption that the limit theorem makes about a target's tails."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from srmc._checks import check_count, check_number, check_seed
from srmc.repel.target import as_position, check_density
from srmc.types import Array, Float, LogDensity, Position, Scalar

RADII = 10.0 ** np.arange(0.0, 4.51, 0.5)  # tested radii, in units of `scale`
TAIL_TOLERANCE = 0.05  # smallest relative difference that counts


class Tails(NamedTuple):
    """Behaviour of the energy U = -log pi along rays from the centre (ass:Z-finite).

    exponent
        The power p in U(r x) ~ r^p for large r, smallest over the directions.
    lipschitz
        The largest norm of the Hessian of U found on the rays, which is a lower bound on the
        Lipschitz constant of the score.
    limits
        The eigenvalues of r^(2-p) Hess U(r x) at the largest radius, for each direction.
    holds
        Whether no evidence against the assumption was found.
    reasons
        The evidence that was found.
    """

    exponent: float
    lipschitz: float
    limits: Float[np.ndarray, "direction d"]
    holds: bool
    reasons: tuple[str, ...]


def check_tails(
    logdensity_fn: LogDensity,
    center: Position,
    *,
    scale: float = 1.0,
    num_directions: int = 16,
    seed: int = 0,
) -> Tails:
    """Check assumption 1 numerically: Lipschitz score, tails with p in (1, 2], convergent Hessian.

    The log density is evaluated along random rays from `center`, at distances from 1 to 30,000
    times `scale`, with d x d Hessians. A target that passes may still violate the assumption in
    regions that these rays miss.
    """
    check_number("scale", scale, above=0.0)
    check_count("num_directions", num_directions)
    check_seed("seed", seed)
    center = as_position(center, "center")
    check_density(logdensity_fn, center)
    origin, unravel = ravel_pytree(center)
    directions = jax.random.normal(jax.random.key(seed), (num_directions, origin.size))
    directions = directions / jnp.linalg.norm(directions, axis=1, keepdims=True)
    radii = scale * jnp.asarray(RADII)

    def energy(x: Float[Array, " d"]) -> Scalar:
        return -logdensity_fn(unravel(x))

    def look(
        direction: Float[Array, " d"], radius: Scalar
    ) -> tuple[Scalar, Float[Array, " d"], Scalar]:
        x = origin + radius * direction
        eigenvalues = jnp.linalg.eigvalsh(jax.hessian(energy)(x))
        return energy(x) - energy(origin), eigenvalues, jnp.dot(direction, jax.grad(energy)(x))

    over_radii = jax.vmap(look, (None, 0))
    growth, eigenvalues, slope = (
        np.asarray(x, float) for x in jax.jit(jax.vmap(over_radii, (0, None)))(directions, radii)
    )
    return _judge(growth, eigenvalues, slope, np.asarray(radii, float))


def _judge(
    growth: Float[np.ndarray, "direction radius"],
    eigenvalues: Float[np.ndarray, "direction radius d"],
    slope: Float[np.ndarray, "direction radius"],
    radii: Float[np.ndarray, " radius"],
) -> Tails:
    """Judge from energies, eigenvalues of Hessians and slopes dU/dr along the rays."""
    if not (np.all(np.isfinite(growth)) and np.all(np.isfinite(eigenvalues))):
        reason = "the energy or its Hessian is not finite somewhere"
        return Tails(np.nan, np.inf, eigenvalues[:, -1], False, (reason,))
    reasons = []
    # p = d log U / d log r, at the last three radii
    exponent = float(np.min(np.median((radii * slope / growth)[:, -3:], axis=1)))
    norms = np.max(np.abs(eigenvalues), axis=(0, 2))
    if not exponent > 1 + TAIL_TOLERANCE:
        reasons.append(f"the energy grows as r^{exponent:.2f}, not faster than r")
    if exponent > 2 + TAIL_TOLERANCE or norms[-1] > (1 + TAIL_TOLERANCE) * np.max(norms[:-1]):
        reasons.append("the Hessian grows without bound, so that scores are not Lipschitz")
    p = 2.0 if abs(exponent - 2) < TAIL_TOLERANCE else min(max(exponent, 1.0), 2.0)
    scaled = eigenvalues * radii[None, :, None] ** (2 - p)
    limits, before = scaled[:, -1], scaled[:, -2]
    size = np.max(np.abs(limits), axis=1, keepdims=True)
    if not np.all(np.abs(limits - before) <= TAIL_TOLERANCE * size):
        reasons.append("the Hessian far out does not settle along some ray")
    elif not np.all(limits > 1e-6 * size):
        reasons.append("the Hessian far out is not positive definite along some ray")
    return Tails(exponent, float(np.max(norms)), limits, not reasons, tuple(reasons))
