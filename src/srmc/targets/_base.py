"""What a built-in target is: a log density, a place to start, and its moments."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from srmc._target import LogDensity

PyTree = Any


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
    """

    name: str
    about: str
    logdensity_fn: LogDensity
    position: PyTree
    find_moments: Callable[[], Moments] | None = None
    sample: Callable[[jax.Array], PyTree] | None = None

    @functools.cached_property
    def moments(self) -> Moments | None:
        """The exact moments, or reference values with their error; None if nobody knows."""
        return None if self.find_moments is None else self.find_moments()


def exact(mean: PyTree, variance: PyTree) -> Callable[[], Moments]:
    """Moments that are known in closed form."""
    return lambda: Moments(mean, variance, jax.tree.map(lambda m: 0.0 * m, mean))
