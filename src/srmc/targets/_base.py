"""What a built-in target is: a log density on a space, a place to start, and its moments."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import logsumexp

from srmc.core.target import LogDensity
from srmc.discrete.sites import Changes
from srmc.discrete.space import Space

PyTree = Any


class Table(NamedTuple):
    """All states of a discrete target, their log probabilities, and the log normaliser."""

    states: np.ndarray
    log_probability: np.ndarray
    log_normalizer: float


class Moments(NamedTuple):
    """Mean and variance of each coordinate; `error` is the mean's standard error, 0 if exact."""

    mean: PyTree
    variance: PyTree
    error: PyTree


@dataclasses.dataclass(frozen=True)
class Target:
    """A distribution to try a sampler on.

    name, about
        What to call it, and a line that says what it is.
    logdensity_fn
        Its log density, up to a constant.
    position
        A place to start from, in the structure of a draw.
    find_moments
        Computes the moments, if they are known; the property `moments` does it once.
    sample
        Draws from it exactly, given a key; None if nobody knows how.
    space, differences
        The discrete space that it lives on, and its one-site changes at the cost of a gradient.
    """

    name: str
    about: str
    logdensity_fn: LogDensity
    position: PyTree
    find_moments: Callable[[], Moments] | None = None
    sample: Callable[[jax.Array], PyTree] | None = None
    space: Space | None = None
    differences: Changes | None = None

    @functools.cached_property
    def moments(self) -> Moments | None:
        """The exact moments, or reference values with their error; None if nobody knows."""
        return None if self.find_moments is None else self.find_moments()

    @functools.cached_property
    def expectations(self) -> tuple[np.ndarray, np.ndarray]:
        """E[x] and E[x x^T] of a discrete target, over all its states."""
        return _sums_over_states(self)

    @property
    def second_moments(self) -> np.ndarray:
        """E[x x^T] of a discrete target, over the entries of a state."""
        return self.expectations[1]

    @functools.cached_property
    def table(self) -> Table:
        """All states with their probabilities, if these are at most 2^20."""
        if self.space is None:
            raise ValueError(f"target must be discrete for a table, got {self.name!r}")
        shape = self.position.shape[:-1] if self.space.one_hot else self.position.shape
        states = self.space.all_states(shape)
        with jax.enable_x64(True):
            values = jax.lax.map(self.logdensity_fn, jnp.asarray(states), batch_size=2**12)
        values = np.asarray(values, float)
        total = float(logsumexp(values))
        return Table(states, values - total, total)


def enumerated(target: "Target") -> Target:
    """The target, with moments from a sum over all states if these are at most 2^25."""
    space: Any = target.space
    if space.num_values ** (target.position.size // space.width) > 2**25:
        return target

    def find():
        mean = target.expectations[0]
        square = np.diag(target.second_moments).reshape(mean.shape)
        return Moments(mean, square - mean**2, np.zeros_like(mean))

    return dataclasses.replace(target, find_moments=find)


def _sums_over_states(target: "Target") -> tuple[np.ndarray, np.ndarray]:
    """E[x] and E[x x^T] in double precision, in pieces of states."""
    space: Any = target.space
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


def exact(mean: PyTree, variance: PyTree) -> Callable[[], Moments]:
    """Moments that are known in closed form."""
    return lambda: Moments(mean, variance, jax.tree.map(lambda m: 0.0 * m, mean))
