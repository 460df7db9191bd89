"""The type of the built-in targets: a log density on a space, a start, and moments."""

import dataclasses
import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from srmc._checks import check_number
from srmc.kernels.discrete.changes import Differences
from srmc.kernels.discrete.space import Space
from srmc.types import Array, Float, LogDensity, Position, PRNGKey, PyTree, Scalar


class Table(NamedTuple):
    """All states of a discrete target, their log probabilities, and the log normaliser."""

    states: Float[np.ndarray, "state ..."]
    log_probability: Float[np.ndarray, " state"]
    log_normalizer: float


class Moments(NamedTuple):
    """Mean and variance of each coordinate; `error` is the mean's standard error, 0 if exact."""

    mean: PyTree[Float[np.ndarray, "..."]]
    variance: PyTree[Float[np.ndarray, "..."]]
    error: PyTree[Float[np.ndarray, "..."]]


@dataclasses.dataclass(frozen=True)
class Target:
    """A distribution to test a sampler on.

    name, about
        A name, and a one-line description.
    logdensity_fn
        The log density, up to a constant.
    position
        A starting point, with the structure of a draw.
    find_moments
        Computes the moments; None if they are unknown. The property `moments` caches its result.
    sample
        Makes an exact draw, given a key; None if there is no exact sampler.
    space
        The discrete space of the target; None if it is continuous.
    differences
        All one-site changes of the log density at the cost of one gradient; None if not available.
    values
        Named arrays of a position, in the parameters that users know; None for the position itself.
    """

    name: str
    about: str
    logdensity_fn: LogDensity
    position: Position
    find_moments: Callable[[], Moments] | None = None
    sample: Callable[[PRNGKey], Position] | None = None
    space: Space | None = None
    differences: Differences | None = None
    values: Callable[[Position], dict[str, Array]] | None = None

    @functools.cached_property
    def moments(self) -> Moments | None:
        """The exact moments, or reference values with their errors; None if unknown."""
        return None if self.find_moments is None else self.find_moments()

    @functools.cached_property
    def expectations(self) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "n n"]]:
        """E[x] and E[x x^T] of a discrete target with n numbers per state, by enumeration."""
        return _sums_over_states(self)

    @property
    def second_moments(self) -> Float[np.ndarray, "n n"]:
        """E[x x^T] of a discrete target with n numbers per state, by enumeration."""
        return self.expectations[1]

    @functools.cached_property
    def table(self) -> Table:
        """All states of a discrete target with their probabilities, for at most 2^20 states."""
        space = _space(self)
        shape = self.position.shape[:-1] if space.one_hot else self.position.shape
        states = space.all_states(shape)
        with jax.enable_x64(True):
            values = jax.lax.map(self.logdensity_fn, jnp.asarray(states), batch_size=2**12)
        values = np.asarray(values, float)
        total = float(logsumexp(values))
        return Table(states, values - total, total)


def enumerated(target: Target) -> Target:
    """Return the discrete target with moments by enumeration, if it has at most 2^25 states."""
    space = _space(target)
    if space.num_values ** (target.position.size // space.width) > 2**25:
        return target

    def find() -> Moments:
        mean = target.expectations[0]
        square = np.diag(target.second_moments).reshape(mean.shape)
        return Moments(mean, square - mean**2, np.zeros_like(mean))

    return dataclasses.replace(target, find_moments=find)


def spread(name: str, value: ArrayLike, shape: tuple[int, ...]) -> Float[np.ndarray, "..."]:
    """Broadcast a number, or an array, to `shape`."""
    check_number(name, value, scalar=False)
    try:
        return np.broadcast_to(np.asarray(value, float), shape)
    except ValueError:
        raise ValueError(
            f"{name} must be a number or have shape {shape}, got {np.shape(value)}"
        ) from None


def exact(
    mean: Float[np.ndarray, " d"], variance: Float[np.ndarray, " d"]
) -> Callable[[], Moments]:
    """Return a `find_moments` for moments that are known in closed form."""
    return lambda: Moments(mean, variance, np.zeros_like(mean))


def _space(target: Target) -> Space:
    if target.space is None:
        raise ValueError(f"target must be discrete, got {target.name!r}")
    return target.space


def _sums_over_states(target: Target) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "n n"]]:
    """E[x] and E[x x^T] in double precision, summed over blocks of states."""
    space = _space(target)
    shape = target.position.shape
    sites = target.position.size // space.width
    digits = space.num_values ** np.arange(sites)
    values = np.eye(space.num_values) if space.one_hot else np.arange(space.num_values)
    size = target.position.size
    top, total, mean, square = -np.inf, 0.0, np.zeros(size), np.zeros((size, size))
    with jax.enable_x64(True):
        logdensity = jax.jit(jax.vmap(target.logdensity_fn))
        for first in range(0, space.num_values**sites, 2**16):
            index = np.arange(first, min(first + 2**16, space.num_values**sites))
            states = values[index[:, None] // digits % space.num_values].astype(float)
            log_weights = np.asarray(logdensity(states.reshape(-1, *shape)))
            new_top = max(top, log_weights.max())
            weights, keep = np.exp(log_weights - new_top), np.exp(top - new_top)
            flat = states.reshape(len(index), -1)
            total = keep * total + weights.sum()
            mean = keep * mean + weights @ flat
            square = keep * square + (weights[:, None] * flat).T @ flat
            top = new_top
    return (mean / total).reshape(shape), square / total


def importance_moments(
    logdensity_fn: LogDensity, dim: int, log2_draws: int = 14, replicates: int = 16
) -> Moments:
    """Estimate the moments with a Student t proposal at the mode and scrambled Sobol points.

    The proposal has 8 degrees of freedom. The error is the standard error over independent
    scramblings.
    """
    from scipy.optimize import minimize
    from scipy.stats import norm, qmc

    def energy(x: Float[Array, " d"]) -> Scalar:
        return -logdensity_fn(x)

    value_and_grad = jax.jit(jax.value_and_grad(energy))

    def objective(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = value_and_grad(x)
        return float(value), np.asarray(gradient, float)

    fit = minimize(objective, np.zeros(dim), jac=True)
    precision = np.asarray(jax.hessian(energy)(fit.x), float)
    root = np.linalg.cholesky(np.linalg.inv(precision))
    log_target = jax.jit(jax.vmap(logdensity_fn))
    degrees = 8

    def replicate(seed: int) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
        u = qmc.Sobol(dim + degrees // 2, seed=seed).random_base2(log2_draws)
        chi_square = -2 * np.sum(np.log1p(-u[:, dim:]), axis=1, keepdims=True)
        z = norm.ppf(u[:, :dim]) / np.sqrt(chi_square / degrees)
        x = fit.x + z @ root.T
        log_proposal = -0.5 * (degrees + dim) * np.log1p(np.sum(z**2, axis=1) / degrees)
        log_weight = np.asarray(log_target(jnp.asarray(x)), float) - log_proposal
        weight = np.exp(log_weight - np.max(log_weight))
        weight /= weight.sum()
        mean = weight @ x
        return mean, weight @ x**2 - mean**2

    means, variances = map(np.array, zip(*map(replicate, range(replicates)), strict=True))
    error = means.std(axis=0, ddof=1) / np.sqrt(replicates)
    return Moments(means.mean(axis=0), variances.mean(axis=0), error)
