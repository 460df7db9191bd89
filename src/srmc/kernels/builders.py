"""The paper's samplers by name. Each takes the keywords of `repel`; alpha=0 is the plain one."""

from collections.abc import Callable
from typing import Any

import blackjax
import jax.numpy as jnp
import numpy as np
from blackjax.base import SamplingAlgorithm
from jax.flatten_util import ravel_pytree

from srmc._checks import check_count, check_flag, check_number, check_option
from srmc.kernels import plain
from srmc.kernels.discrete.space import Space
from srmc.repel.field import Field
from srmc.repel.history import gain
from srmc.repel.kernel import as_algorithm
from srmc.repel.repel import repel
from srmc.repel.strength import Strength, as_strength
from srmc.repel.surrogate import Surrogate, tilt
from srmc.types import (
    Array,
    ArrayLike,
    Float,
    KernelInfo,
    KernelState,
    LogDensity,
    Position,
    PRNGKey,
)


def rescaled(
    algorithm: Callable[..., SamplingAlgorithm], scale: Float[Array, " d"]
) -> Callable[..., SamplingAlgorithm]:
    """The algorithm in the coordinates x / scale, with `scale` over the flattened position."""

    def times(x: Position, power: int) -> Position:
        flat, unravel = ravel_pytree(x)
        if scale.shape not in ((), flat.shape):
            raise ValueError(
                f"scale must be a number or a vector of {flat.size} numbers, one for each "
                f"coordinate, got shape {scale.shape}"
            )
        return unravel(flat * scale.astype(flat.dtype) ** power)

    def change(state: KernelState, power: int) -> KernelState:
        new = {"position": times(state.position, power)}
        if hasattr(state, "logdensity_grad"):
            new["logdensity_grad"] = times(state.logdensity_grad, -power)
        return state._replace(**new)

    def build(logdensity_fn: LogDensity, *args: Any, **kwargs: Any) -> SamplingAlgorithm:
        inner = algorithm(lambda z: logdensity_fn(times(z, 1)), *args, **kwargs)
        inner = as_algorithm(algorithm, inner)

        def init(position: Position, rng_key: PRNGKey | None = None) -> KernelState:
            return change(inner.init(times(position, -1), rng_key), 1)

        def step(rng_key: PRNGKey, state: KernelState) -> tuple[KernelState, KernelInfo]:
            state, info = inner.step(rng_key, change(state, -1))
            return change(state, 1), info

        return SamplingAlgorithm(init, step)

    build.__wrapped__ = algorithm  # type: ignore[attr-defined]
    return build


# One entry broadcasts to every dimension; single precision promotes no dtype.
_UNIT_MASS = np.ones(1, np.float32)
_HVPS = {
    "exact": tilt(),
    "finite-difference": tilt("finite-difference", eps="alpha"),
    "shifted": tilt("shifted"),
}


def paper_settings(
    alpha: float | Array | Strength = 1.0,
    rho: float = 0.6,
    *,
    hvp: str = "exact",
    discrete: bool = False,
) -> dict[str, Any]:
    """The keywords of `repel` that run Algorithm 1 as the paper prints it.

    `hvp` is how the surrogate score s + alpha (Hess U) theta is computed: "exact", by automatic
    differentiation; "finite-difference", with epsilon = alpha, as the paper's tuning guide has it
    (eq:hessian_approximation); or "shifted", s(x - alpha theta) in place of the whole. With
    `discrete=True` the keywords are for a kernel on a discrete space (alg:sr_discrete), whose
    score is the gradient of the relaxed log density: `srmc.gwg` and `srmc.dlp` propose by the
    surrogate score.

    On the paper's own Gaussian, HMC with these settings overflows from alpha = 1 on;
    docs/explanation/theory.md has the condition for stability; `info.is_stable` reports violations.
    """
    check_option("hvp", hvp, _HVPS)
    check_flag("discrete", discrete)
    as_strength(alpha)  # raises unless it is a strength or a number
    settings = {
        "alpha": alpha,
        "gain": gain(rho),
        "surrogate": _HVPS[hvp],
        "history_average": False,
    }
    return settings | ({"feature": "relaxed"} if discrete else {"frame": "fixed"})


def _in_units(algorithm: Any, scale: ArrayLike | None) -> Any:
    """The algorithm, with steps in units of `scale`, a vector over the flattened position."""
    if scale is None:
        return algorithm
    check_number("scale", scale, above=0.0, scalar=False)
    return rescaled(algorithm, jnp.asarray(scale))


def _local(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a kernel with short steps, which can follow a moving target."""
    surrogate = options.get("surrogate")
    moves_only = isinstance(surrogate, Field) or (
        isinstance(surrogate, Surrogate) and not surrogate.bends
    )
    if options.get("frame") is not None or moves_only or options.get("feedback_every", 1) != 1:
        return options
    return options | {"frame": "fixed"}


def mh(
    logdensity_fn: LogDensity, step_size: ArrayLike, scale: ArrayLike | None = None, **options: Any
) -> SamplingAlgorithm:
    """Repelled random-walk Metropolis-Hastings (alg:sr_mh): proposals N(x, step_size^2 I).

    `step_size` may be a vector or the Cholesky factor of a proposal covariance. Here and below,
    `scale` is a vector of units in which the coordinates are measured: a diagonal metric. The
    frame of `mh`, `ula`, `uld` and `mala` is "fixed" unless given, or moved along a field.
    """
    above = 0.0 if np.ndim(step_size) < 2 else -np.inf
    check_number("step_size", step_size, above=above, scalar=False)
    random_walk = blackjax.additive_step_random_walk.normal_random_walk
    return repel(_in_units(random_walk, scale), logdensity_fn, sigma=step_size, **_local(options))


def ula(
    logdensity_fn: LogDensity | None = None,
    step_size: ArrayLike | None = None,
    scale: ArrayLike | None = None,
    **options: Any,
) -> SamplingAlgorithm:
    """Repelled unadjusted Langevin (alg:sr_ula): x + eta s(x) + sqrt(2 eta) xi, eta the step.

    `ula` and `uld` need no log density: `srmc.ula(score_fn=s, step_size=eta)`.
    """
    if step_size is None:
        raise TypeError("step_size must be given")
    algorithm = _in_units(plain.ula, scale)
    return repel(algorithm, logdensity_fn, step_size=step_size, **_local(options))


def uld(
    logdensity_fn: LogDensity | None = None,
    step_size: ArrayLike | None = None,
    friction: ArrayLike = 1.0,
    scale: ArrayLike | None = None,
    **options: Any,
) -> SamplingAlgorithm:
    """Repelled underdamped Langevin, unadjusted. `init` takes a key, to draw the momentum."""
    if step_size is None:
        raise TypeError("step_size must be given")
    check_number("friction", friction, above=0.0)
    algorithm = _in_units(plain.uld, scale)
    return repel(
        algorithm, logdensity_fn, step_size=step_size, friction=friction, **_local(options)
    )


def mala(
    logdensity_fn: LogDensity, step_size: ArrayLike, scale: ArrayLike | None = None, **options: Any
) -> SamplingAlgorithm:
    """Repelled Metropolis-adjusted Langevin (alg:sr_mala): drift eta s(x), noise sqrt(2 eta)."""
    algorithm = _in_units(plain.mala, scale)
    return repel(algorithm, logdensity_fn, step_size=step_size, **_local(options))


def hmc(
    logdensity_fn: LogDensity,
    step_size: ArrayLike,
    num_integration_steps: int,
    inverse_mass_matrix: ArrayLike | None = None,
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
    logdensity_fn: LogDensity,
    step_size: ArrayLike,
    inverse_mass_matrix: ArrayLike | None = None,
    **options: Any,
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
    """Repelled Metropolis with one-site flips: a site and a new value drawn uniformly.

    Here and below, in addition to the keywords of `repel`:

    - `feature`: what the history averages. "gibbs": E[x_i given the rest] - x_i, from the changes
      of all one-site flips; "stein": the paper's pi(x with x_i reversed) / pi(x) - 1; both have
      mean zero. "relaxed-gibbs": as "gibbs", from one gradient, and with mean zero if the log
      density is linear in each site (Ising and Potts models). "relaxed": the gradient, whose mean
      is not zero, so that the limit is wrong. The default is "gibbs" where `differences` are given
      or a state has at most 64 neighbours, else "relaxed-gibbs". A biased feature warns.
    - `differences`: a function of a state that returns log pi(x with site i at value k) - log pi(x)
      for all sites and values, at about the cost of a gradient; of shape (site, value), or for
      two values the changes of the flips in the shape of the state. A
      `srmc.kernels.SiteDifferences` also has the changes of one site, which `flip_mh` and
      `gibbs` then use. Without it, changes are evaluations of the log density, in chunks of bounded
      memory.
    - `preconditioner`: a number, a vector, a matrix, or a function of theta.
    - `bend`: "sites", log pi_theta(x) = log pi(x) + alpha (A theta)·x, the default for the
      features "gibbs" and "relaxed-gibbs"; or "feature", log pi(x) - alpha (A theta)·phi(x). By
      sites each entry of theta is driven by its own site alone, all changes of the surrogate are
      exact and free, and the feature is evaluated only where the history takes it.
    - `history_every`: the steps per update of the history. By default, as many as keep features
      from taking more than one evaluation per step, and a quarter of the sites if a step changes
      one; 1 if the target is bent by the feature.
    - `surrogate`: `srmc.tilt()`, for feature="relaxed". `gwg` and `dlp` then propose by the tilt's
      gradient, as the paper prints it, for a Hessian-vector product at either end. Without it they
      take the gradient of the target and the effect of a site on its own feature, at no cost.

    The log density takes floats, in one-hot rows if the space is `Categorical`.
    """
    return repel(plain.flip_mh, logdensity_fn, space, **options)


def gibbs(
    logdensity_fn: LogDensity, space: Space, scan: str = "random", **options: Any
) -> SamplingAlgorithm:
    """Repelled Gibbs sampler: one site per step, at random or in turn ("systematic")."""
    return repel(plain.gibbs, logdensity_fn, space, scan, **options)


def locally_balanced(
    logdensity_fn: LogDensity, space: Space, balancing: str = "sqrt", **options: Any
) -> SamplingAlgorithm:
    """Repelled locally balanced proposals from exact ratios: "sqrt", "barker" or "max".

    With `bend="feature"`, the ratios of the surrogate take the feature of every neighbour of a
    state, twice per step.
    """
    return repel(plain.locally_balanced, logdensity_fn, space, balancing, **options)


def gwg(
    logdensity_fn: LogDensity,
    space: Space,
    temperature: ArrayLike = 2.0,
    num_sites: int = 1,
    **options: Any,
) -> SamplingAlgorithm:
    """Repelled Gibbs with gradients: sites and values drawn by the changes a gradient predicts.

    `num_sites` of them change in one step.
    """
    return repel(plain.gwg, logdensity_fn, space, temperature, num_sites, **options)


def dlp(
    logdensity_fn: LogDensity,
    space: Space,
    step_size: ArrayLike,
    adjusted: bool = True,
    **options: Any,
) -> SamplingAlgorithm:
    """Repelled discrete Langevin proposal, all sites at once.

    `adjusted=False` skips the Metropolis correction.
    """
    return repel(plain.dlp, logdensity_fn, space, step_size, adjusted, **options)


def acs(
    logdensity_fn: LogDensity,
    space: Space,
    step_size: ArrayLike,
    period: int = 8,
    span: ArrayLike = 4.0,
    **options: Any,
) -> SamplingAlgorithm:
    """Repelled DLP by automatic cyclical scheduling: long steps to explore, then short ones.

    Of each `period` steps the first is `span` times as long as `step_size`, and the last as many
    times shorter; the share of the gradient in a proposal follows from the step.
    """
    return repel(plain.acs, logdensity_fn, space, step_size, period, span, **options)


def path_auxiliary(
    logdensity_fn: LogDensity,
    space: Space,
    path_length: ArrayLike,
    balancing: str = "sqrt",
    **options: Any,
) -> SamplingAlgorithm:
    """Repelled path auxiliary sampler: one-site changes along a path, accepted as a whole.

    Paths of `path_length` sites on average, between half of it and half as much again, are drawn
    by the changes that a gradient predicts.
    """
    return repel(plain.path_auxiliary, logdensity_fn, space, path_length, balancing, **options)


def dlmc(
    logdensity_fn: LogDensity,
    space: Space,
    step_size: ArrayLike,
    balancing: str = "sqrt",
    **options: Any,
) -> SamplingAlgorithm:
    """Repelled discrete Langevin Monte Carlo: a continuous-time chain of each site, for a time.

    The time is `step_size`, in which all sites move independently by the changes that a gradient
    predicts.
    """
    return repel(plain.dlmc, logdensity_fn, space, step_size, balancing, **options)


def block_gibbs(
    logdensity_fn: LogDensity, space: Space, graph: ArrayLike, **options: Any
) -> SamplingAlgorithm:
    """Repelled Gibbs sampler of blocks: all sites of one colour of a graph per step, in turn.

    `graph` has the pairs of sites that the log density couples, (edge, 2), as in
    `srmc.targets.lattice`. Where the log density is linear in each site and couples no others, all
    blocks are accepted; otherwise a Metropolis correction keeps the step exact.
    """
    return repel(plain.block_gibbs, logdensity_fn, space, graph, **options)
