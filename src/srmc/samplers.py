"""The paper's samplers by name; each takes the keywords of `repel`; alpha=0 is the plain one."""

from typing import Any

import blackjax
import jax.numpy as jnp
import numpy as np
from blackjax.base import SamplingAlgorithm

from srmc import kernels
from srmc._checks import check_count, check_number
from srmc.core.history import gain
from srmc.core.repel import repel
from srmc.core.strength import Strength
from srmc.core.surrogate import tilt
from srmc.core.target import LogDensity
from srmc.discrete import kernels as discrete_kernels
from srmc.discrete.space import Space
from srmc.kernels.rescaled import rescaled

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


def flip_mh(logdensity_fn: LogDensity, space: Space, **options: Any) -> SamplingAlgorithm:
    """Repelled Metropolis-Hastings on a discrete space: a random site, a random other value.

    Here and below, `options` are `feature`, `differences` and `preconditioner`, which say what
    the history averages, and the keywords of `repel` on the history and its strength:

    - `feature="gibbs"`: E[x_i given the rest] - x_i, of mean zero, and bounded by the range of x_i;
      "stein": pi(x with x_i reversed) / pi(x) - 1, the paper's, of mean zero, but unbounded;
      "relaxed-gibbs": as "gibbs" with the changes from one gradient, of mean zero if the log
      density is linear in each site (Ising and Potts models); "relaxed": the gradient,
      whose mean is not zero, so that the limit is wrong. If not given, "gibbs" where
      `differences` are given or a state has at most 64 neighbours, else "relaxed-gibbs". A feature
      that is biased warns.
    - `differences`: a function of a state that returns log pi(x with site i at value k) - log pi(x)
      for all sites and values, at about the cost of a gradient; of shape (site, value), or for
      two values the changes of the flips in the shape of the state. If not given, they are
      evaluations of the log density, in chunks of bounded memory.
    - `preconditioner`: a number, a vector, a matrix, or a function of theta.

    The log density takes floats, in one-hot rows if the space is `Categorical`.
    """
    return repel(discrete_kernels.flip_mh, logdensity_fn, space, **options)


def gibbs(
    logdensity_fn: LogDensity, space: Space, scan: str = "random", **options: Any
) -> SamplingAlgorithm:
    """Repelled Gibbs sampler: one site a step, at random or in turn ("systematic")."""
    return repel(discrete_kernels.gibbs, logdensity_fn, space, scan, **options)


def locally_balanced(
    logdensity_fn: LogDensity, space: Space, balancing: str = "sqrt", **options: Any
) -> SamplingAlgorithm:
    """Repelled locally balanced proposals, by exact ratios: "sqrt", "barker" or "max".

    The surrogate's ratios take the feature of every neighbour of a state, twice a step.
    """
    return repel(discrete_kernels.locally_balanced, logdensity_fn, space, balancing, **options)


def gwg(
    logdensity_fn: LogDensity,
    space: Space,
    temperature: float = 2.0,
    num_sites: int = 1,
    **options: Any,
) -> SamplingAlgorithm:
    """Repelled Gibbs with gradients: sites and values drawn by the changes a gradient predicts.

    `num_sites` of them change in one step.
    """
    return repel(discrete_kernels.gwg, logdensity_fn, space, temperature, num_sites, **options)


def dlp(
    logdensity_fn: LogDensity,
    space: Space,
    step_size: float,
    adjusted: bool = True,
    **options: Any,
) -> SamplingAlgorithm:
    """Repelled discrete Langevin proposal: all sites at once; unadjusted if so wished."""
    return repel(discrete_kernels.dlp, logdensity_fn, space, step_size, adjusted, **options)
