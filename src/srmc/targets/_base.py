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
    """E[x] and E[x x^T], in pieces of states; double precision where sums need it."""
    space: Any = target.space
    size = target.position.size
    sites = size // space.width
    count, piece = space.num_values**sites, 2**14

    def part(first, top):
        index = first + jnp.arange(piece)
        labels = index[:, None] // (space.num_values ** jnp.arange(sites))[None]
        like = jnp.zeros(target.position.shape)
        states = jax.vmap(lambda row: space.state(row % space.num_values, like))(labels)
        values = jax.vmap(target.logdensity_fn)(states)
        values = jnp.where(index < count, values, -jnp.inf)
        new_top = jnp.maximum(top, jnp.max(values))
        weights = jnp.exp(values - new_top)
        flat = states.reshape(piece, size)
        sums = jnp.sum(weights), weights @ flat, (weights[:, None] * flat).T @ flat
        return sums, new_top

    def one(n, carry):
        top, *sums = carry
        new, new_top = part(n * piece, top)
        return new_top, *(jnp.exp(top - new_top) * a + b for a, b in zip(sums, new, strict=True))

    with jax.enable_x64(True):
        start = -jnp.inf, jnp.zeros(()), jnp.zeros(size), jnp.zeros((size, size))
        run = jax.jit(lambda start: jax.lax.fori_loop(0, -(-count // piece), one, start))
        _, total, mean, square = (np.asarray(x) for x in run(start))
    return (mean / total).reshape(target.position.shape), square / total


def exact(mean: PyTree, variance: PyTree) -> Callable[[], Moments]:
    """Moments that are known in closed form."""
    return lambda: Moments(mean, variance, jax.tree.map(lambda m: 0.0 * m, mean))
