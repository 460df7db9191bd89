"""What a built-in target is: a log density on a space, a place to start, and its moments."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import logsumexp

from srmc._sites import Changes
from srmc._space import Space
from srmc._target import LogDensity

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
    """The target, with moments from its table if that is small."""
    space: Any = target.space
    if space.num_values ** (target.position.size // space.width) > 2**20:
        return target

    def find():
        table = target.table
        weights = np.exp(table.log_probability)
        mean = np.tensordot(weights, table.states, axes=1)
        square = np.tensordot(weights, table.states**2, axes=1)
        return Moments(mean, square - mean**2, np.zeros_like(mean))

    return dataclasses.replace(target, find_moments=find)


def exact(mean: PyTree, variance: PyTree) -> Callable[[], Moments]:
    """Moments that are known in closed form."""
    return lambda: Moments(mean, variance, jax.tree.map(lambda m: 0.0 * m, mean))
