"""Changes of a log density when one site of a state takes another value, as (site, value)."""

import dataclasses
from collections.abc import Callable
from typing import TypeAlias

import jax
import jax.numpy as jnp

from srmc._checks import check_count, is_numeric, short
from srmc.kernels.discrete.space import Space
from srmc.types import Array, Float, Int, LogDensity, PyTree, Scalar

Differences: TypeAlias = Callable[[Array], Array]  # from a state to all its changes
CHUNK = 2**18  # largest number of state entries per batch of evaluations


@dataclasses.dataclass(frozen=True, eq=False)
class SiteDifferences:
    """One-site changes of a log density: all of them, or the changes of one site at lower cost.

    `differences` may be one of these, as it is for the built-in targets. Kernels that compare the
    values of one site, `flip_mh` and `gibbs`, then evaluate the log density only at the start.

    everywhere
        All changes at a state, as `differences` is described at `srmc.flip_mh`.
    keep
        What is kept of a state so that changes of one site are cheap; any pytree, such as ().
    at
        The changes of one site, (value,), from what is kept, the state and the site.
    move
        What is kept when a site takes another value, from what was kept, the state before, the
        site and the value.
    cost
        The cost of all changes, in gradients.
    """

    everywhere: Callable[[Array], Array]
    keep: Callable[[Array], PyTree[Array]]
    at: Callable[[PyTree[Array], Array, Int[Array, ""]], Float[Array, " value"]]
    move: Callable[[PyTree[Array], Array, Int[Array, ""], Int[Array, ""]], PyTree[Array]]
    cost: int = 1

    def __post_init__(self) -> None:
        for name in ("everywhere", "keep", "at", "move"):
            if not callable(getattr(self, name)):
                raise TypeError(f"{name} must be a function, got {short(getattr(self, name))}")
        check_count("cost", self.cost)

    def __call__(self, x: Array) -> Array:
        """All changes at a state."""
        return self.everywhere(x)


def evaluated_changes(
    target: LogDensity, space: Space, x: Array, value: Scalar
) -> Float[Array, "site value"]:
    """The changes by evaluating every neighbour of a state whose own log density is `value`."""
    return allowed(over_neighbours(space, x, target, value) - value)


def supplied_changes(
    differences: Differences, space: Space, x: Array
) -> Float[Array, "site value"]:
    """The changes that the target supplies; with two values per site it may supply flips alone."""
    changes = differences(x)
    if not is_numeric(changes):
        raise TypeError(f"differences must return an array, got {short(changes)}")
    sites, values = space.num_sites(x), space.num_values
    if values == 2 and changes.shape == x.shape:
        stay = jnp.zeros((sites,), changes.dtype)
        changes = jnp.stack([stay, changes.ravel()], axis=1)
        held = space.labels(x)[:, None]
        changes = jnp.take_along_axis(changes, jnp.concatenate([held, 1 - held], 1), axis=1)
    if changes.shape != (sites, values):
        raise ValueError(
            f"differences must return changes of shape {(sites, values)}, for each site and "
            f"value, got {changes.shape}"
        )
    return allowed(changes)


def one_site_changes(
    differences: SiteDifferences, space: Space, kept: PyTree[Array], x: Array, site: Int[Array, ""]
) -> Float[Array, " value"]:
    """The changes of one site that the target supplies."""
    changes = differences.at(kept, x, site)
    if jnp.shape(changes) != (space.num_values,):
        raise ValueError(
            f"at must return changes of shape {(space.num_values,)}, for each value, got "
            f"{jnp.shape(changes)}"
        )
    return allowed(changes)


def over_neighbours(
    space: Space, x: Array, function: Callable[[Array], Scalar], here: Scalar
) -> Float[Array, "site value"]:
    """A function at the states that differ from x in one site; `here` is its value at x."""
    labels, values = space.labels(x), space.num_values
    sites, count = len(labels), space.num_neighbours(x)

    def at_neighbour(index: Array) -> Scalar:
        site, other = index // (values - 1), 1 + index % (values - 1)
        return function(space.place(x, site, (labels[site] + other) % values))

    batch = min(count, max(1, CHUNK // x.size))
    others = jax.lax.map(at_neighbour, jnp.arange(count), batch_size=batch)
    others = others.reshape(sites, values - 1)
    by_offset = jnp.concatenate([jnp.full((sites, 1), here, others.dtype), others], axis=1)
    offsets = (jnp.arange(values)[None] - labels[:, None]) % values
    return jnp.take_along_axis(by_offset, offsets, axis=1)


def allowed(changes: Float[Array, "site value"]) -> Float[Array, "site value"]:
    """The changes, with -inf, which is never proposed, in place of NaN and +inf."""
    return jnp.where(jnp.isnan(changes) | (changes == jnp.inf), -jnp.inf, changes)
