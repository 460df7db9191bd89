"""Types that all packages share: positions, log densities, keys, draws."""

from collections.abc import Callable
from typing import Any, TypeAlias

from jax import Array
from jax.typing import ArrayLike
from jaxtyping import Bool, Float, Int, PyTree
from jaxtyping import Key as _Key

__all__ = [
    "Array",
    "ArrayLike",
    "Bool",
    "Draws",
    "Feature",
    "Float",
    "Int",
    "KernelInfo",
    "KernelState",
    "LogDensity",
    "PRNGKey",
    "Position",
    "PyTree",
    "Scalar",
    "Score",
    "ScoreFn",
]

PRNGKey: TypeAlias = _Key[Array, ""]
Scalar: TypeAlias = Float[Array, ""]
Position: TypeAlias = PyTree[Float[Array, "..."]]
Score: TypeAlias = Position  # the gradient of a log density
Feature: TypeAlias = PyTree[Float[Array, "..."]]  # what the history averages
LogDensity: TypeAlias = Callable[[Any], Scalar]  # of a position of any structure
ScoreFn: TypeAlias = Callable[[Any], Any]  # from a position to the score there
Draws: TypeAlias = Float[Array, "chain draw d"]
KernelState: TypeAlias = Any  # a NamedTuple of the base kernel's own making
KernelInfo: TypeAlias = Any
