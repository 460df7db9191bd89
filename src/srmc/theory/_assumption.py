"""Whether a target's tails are such as the limit theorem assumes, as far as numbers can tell."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from srmc._checks import check_count, check_number
from srmc.core.target import LogDensity

PyTree = Any
RADII = 10.0 ** np.arange(0.0, 4.51, 0.5)
NEAR = 0.05  # relatively; what counts as settled


class Tails(NamedTuple):
    """What was found on rays from the centre (ass:Z-finite).

    exponent
        p of the growth U(r x) ~ r^p far out, the smallest over directions.
    lipschitz
        The largest norm of U's Hessian that was met: a lower bound on the score's Lipschitz
        constant.
    limits
        The eigenvalues of r^(2-p) Hess U(r x) far out, (direction, d).
    holds, reasons
        Whether nothing speaks against the assumption, and what does.
    """

    exponent: float
    lipschitz: float
    limits: np.ndarray
    holds: bool
    reasons: tuple[str, ...]


def check_tails(
    logdensity_fn: LogDensity,
    center: PyTree,
    *,
    scale: float = 1.0,
    num_directions: int = 16,
    seed: int = 0,
) -> Tails:
    """Check assumption 1 by numbers: Lipschitz scores, tails with p in (1, 2], a settling Hessian.

    Looks along random rays from `center`, at distances of 1 to 30,000 times `scale`, with d x d
    Hessians. A target that passes may still misbehave where nobody looked.
    """
    check_number("scale", scale, above=0.0)
    check_count("num_directions", num_directions)
    origin, unravel = ravel_pytree(center)
    energy = lambda x: -logdensity_fn(unravel(x))
    directions = jax.random.normal(jax.random.key(seed), (num_directions, origin.size))
    directions = directions / jnp.linalg.norm(directions, axis=1, keepdims=True)
    radii = scale * jnp.asarray(RADII)

    def look(direction, radius):
        x = origin + radius * direction
        eigenvalues = jnp.linalg.eigvalsh(jax.hessian(energy)(x))
        return energy(x) - energy(origin), eigenvalues, jnp.dot(direction, jax.grad(energy)(x))

    over_radii = jax.vmap(look, (None, 0))
    growth, eigenvalues, slope = (
        np.asarray(x, float) for x in jax.jit(jax.vmap(over_radii, (0, None)))(directions, radii)
    )
    return _judge(growth, eigenvalues, slope, np.asarray(radii, float))


def _judge(growth, eigenvalues, slope, radii) -> Tails:
    """From energies, eigenvalues of Hessians and slopes dU/dr, all (direction, radius)."""
    if not (np.all(np.isfinite(growth)) and np.all(np.isfinite(eigenvalues))):
        reason = "the energy or its Hessian is not finite somewhere"
        return Tails(np.nan, np.inf, eigenvalues[:, -1], False, (reason,))
    reasons = []
    # p = d log U / d log r, of the last three radii
    exponent = float(np.min(np.median((radii * slope / growth)[:, -3:], axis=1)))
    norms = np.max(np.abs(eigenvalues), axis=(0, 2))
    if not exponent > 1 + NEAR:
        reasons.append(f"the energy grows as r^{exponent:.2f}, not faster than r")
    if exponent > 2 + NEAR or norms[-1] > (1 + NEAR) * np.max(norms[:-1]):
        reasons.append("the Hessian grows without bound, so that scores are not Lipschitz")
    p = 2.0 if abs(exponent - 2) < NEAR else min(max(exponent, 1.0), 2.0)
    scaled = eigenvalues * radii[None, :, None] ** (2 - p)
    limits, before = scaled[:, -1], scaled[:, -2]
    size = np.max(np.abs(limits), axis=1, keepdims=True)
    if not np.all(np.abs(limits - before) <= NEAR * size):
        reasons.append("the Hessian far out does not settle along some ray")
    elif not np.all(limits > 1e-6 * size):
        reasons.append("the Hessian far out is not positive definite along some ray")
    return Tails(exponent, float(np.max(norms)), limits, not reasons, tuple(reasons))
