"""The paper's samplers by name; each takes the keywords of `repel`; alpha=0 is the plain one."""

from typing import Any

import blackjax
import jax.numpy as jnp
import numpy as np
from blackjax.base import SamplingAlgorithm

from srmc import kernels
from srmc._checks import check_count, check_number
from srmc._history import gain
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


def mh(logdensity_fn: LogDensity, step_size: Any, **options: Any) -> SamplingAlgorithm:
    """Repelled random-walk Metropolis-Hastings (alg:sr_mh): proposals N(x, step_size^2 I).

    `step_size` may be a vector or the Cholesky factor of a proposal covariance.
    """
    above = 0.0 if jnp.ndim(step_size) < 2 else -np.inf
    check_number("step_size", step_size, above=above, scalar=False)
    random_walk = blackjax.additive_step_random_walk.normal_random_walk
    return repel(random_walk, logdensity_fn, sigma=step_size, **options)


def ula(logdensity_fn: LogDensity, step_size: float, **options: Any) -> SamplingAlgorithm:
    """Repelled unadjusted Langevin (alg:sr_ula): x + eta s(x) + sqrt(2 eta) xi, eta the step."""
    return repel(kernels.ula, logdensity_fn, step_size=step_size, **options)


def uld(
    logdensity_fn: LogDensity, step_size: float, friction: float = 1.0, **options: Any
) -> SamplingAlgorithm:
    """Repelled underdamped Langevin, unadjusted. `init` takes a key, to draw the momentum."""
    check_number("friction", friction, above=0.0)
    return repel(kernels.uld, logdensity_fn, step_size=step_size, friction=friction, **options)


def mala(logdensity_fn: LogDensity, step_size: float, **options: Any) -> SamplingAlgorithm:
    """Repelled Metropolis-adjusted Langevin (alg:sr_mala): drift eta s(x), noise sqrt(2 eta)."""
    return repel(blackjax.mala, logdensity_fn, step_size=step_size, **options)


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
