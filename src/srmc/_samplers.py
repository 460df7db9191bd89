"""The paper's samplers by name; each takes the keywords of `repel`; alpha=0 is the plain one."""

from typing import Any

import blackjax
import jax.numpy as jnp
import numpy as np
from blackjax.base import SamplingAlgorithm

from srmc import kernels
from srmc._checks import check_count, check_number
from srmc._history import gain
from srmc._kernel import rescaled
from srmc._repel import repel
from srmc._strength import Strength
from srmc._surrogate import tilt
from srmc._target import LogDensity

# One entry serves every dimension, and single precision promotes nothing.
_UNIT_MASS = np.ones(1, np.float32)


def paper_settings(alpha: float | Strength = 1.0, rho: float = 0.6) -> dict[str, Any]:
    """The keywords of `repel` that run Algorithm 1 as the paper prints it."""
    return {
        "alpha": alpha,
        "gain": gain(rho),
        "surrogate": tilt(),
        "frame": "fixed",
        "history_average": False,
    }


def _in_units(algorithm: Any, scale: Any) -> Any:
    """The algorithm, with steps in units of `scale`, a vector over the flattened position."""
    if scale is None:
        return algorithm
    check_number("scale", scale, above=0.0, scalar=False)
    return rescaled(algorithm, jnp.asarray(scale))


def mh(
    logdensity_fn: LogDensity, step_size: Any, scale: Any = None, **options: Any
) -> SamplingAlgorithm:
    """Repelled random-walk Metropolis-Hastings (alg:sr_mh): proposals N(x, step_size^2 I).

    `step_size` may be a vector or the Cholesky factor of a proposal covariance. Here and below,
    `scale` is a vector of units in which the coordinates are measured: a diagonal metric.
    """
    above = 0.0 if jnp.ndim(step_size) < 2 else -np.inf
    check_number("step_size", step_size, above=above, scalar=False)
    random_walk = blackjax.additive_step_random_walk.normal_random_walk
    return repel(_in_units(random_walk, scale), logdensity_fn, sigma=step_size, **options)


def ula(
    logdensity_fn: LogDensity, step_size: float, scale: Any = None, **options: Any
) -> SamplingAlgorithm:
    """Repelled unadjusted Langevin (alg:sr_ula): x + eta s(x) + sqrt(2 eta) xi, eta the step."""
    return repel(_in_units(kernels.ula, scale), logdensity_fn, step_size=step_size, **options)


def uld(
    logdensity_fn: LogDensity,
    step_size: float,
    friction: float = 1.0,
    scale: Any = None,
    **options: Any,
) -> SamplingAlgorithm:
    """Repelled underdamped Langevin, unadjusted. `init` takes a key, to draw the momentum."""
    check_number("friction", friction, above=0.0)
    algorithm = _in_units(kernels.uld, scale)
    return repel(algorithm, logdensity_fn, step_size=step_size, friction=friction, **options)


def mala(
    logdensity_fn: LogDensity, step_size: float, scale: Any = None, **options: Any
) -> SamplingAlgorithm:
    """Repelled Metropolis-adjusted Langevin (alg:sr_mala): drift eta s(x), noise sqrt(2 eta)."""
    return repel(_in_units(blackjax.mala, scale), logdensity_fn, step_size=step_size, **options)


def hmc(
    logdensity_fn: LogDensity,
    step_size: float,
    num_integration_steps: int,
    inverse_mass_matrix: Any = None,
    **options: Any,
) -> SamplingAlgorithm:
    """Repelled Hamiltonian Monte Carlo (alg:sr_hmc); unit mass unless a metric is given."""
    check_count("num_integration_steps", num_integration_steps)
    return repel(
        blackjax.hmc,
        logdensity_fn,
        step_size=step_size,
        num_integration_steps=num_integration_steps,
        inverse_mass_matrix=_UNIT_MASS if inverse_mass_matrix is None else inverse_mass_matrix,
        **options,
    )


def nuts(
    logdensity_fn: LogDensity, step_size: float, inverse_mass_matrix: Any = None, **options: Any
) -> SamplingAlgorithm:
    """Repelled No-U-Turn sampler; unit mass unless a metric is given."""
    return repel(
        blackjax.nuts,
        logdensity_fn,
        step_size=step_size,
        inverse_mass_matrix=_UNIT_MASS if inverse_mass_matrix is None else inverse_mass_matrix,
        **options,
    )
