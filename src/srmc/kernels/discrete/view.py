"""A discrete target as kernels see it from a state."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from srmc.kernels.discrete.space import Space
from srmc.types import Array, Feature, Float, PyTree, Scalar

# An array, or None, which is the empty pytree, where neither kernel nor feature needs it.
SiteChanges: TypeAlias = PyTree[Float[Array, "site value"]]


class Local(NamedTuple):
    """What is known about the target at a state; none of it depends on theta.

    logdensity
        The log density of the state.
    guide
        The changes of the log density that proposals go by, exact or to first order.
    changes
        The exact changes, where bending needs them beside the guide.
    feature
        What the history averages, in the shape of a state.
    kept
        What changes of one site are found from, if the target supplies these; see
        `SiteDifferences`.
    """

    logdensity: Scalar
    guide: SiteChanges = None
    changes: SiteChanges = None
    feature: Feature = None
    kept: PyTree[Array] = None


class View(NamedTuple):
    """A target on a space.

    look
        Evaluates the target at a state.
    visit
        `(x, local, site, value) -> (y, Local)`: the state with another value at one site, and
        what is known about the target there.
    bend
        `(x, local, site=None) -> Local` under the surrogate; the plain target returns `local`
        unchanged. With a site, states are compared that differ in it alone, so that a term that
        they share may be left out of the log density.
    evaluations
        The cost of a look and of a bend at a state, in values, gradients and sets of differences.
    """

    space: Space
    look: Callable[[Array], Local]
    visit: Callable[..., tuple[Array, Local]]
    bend: Callable[..., Local]
    evaluations: Callable[[Array], tuple[int, int]]
