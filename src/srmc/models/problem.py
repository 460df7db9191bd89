"""A log density, where its chains start, and the names of its draws."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
from jax.tree_util import Partial

from srmc.models.labels import Labels
from srmc.types import Array, LogDensity, Position, PRNGKey, PyTree


class Inverse(NamedTuple):
    """The way back from named values to a position, for draws that another program made.

    names
        The variables that determine the position.
    unconstrain
        From these variables at one draw to the position.
    log_likelihood
        From these variables at one draw to the log likelihood of each observation, by name; None
        if unknown.
    random
        Names in `values` that are drawn anew each time, such as predictions.
    shapes
        The shapes of these variables, where they are known.
    """

    names: tuple[str, ...]
    unconstrain: Callable[[dict[str, Array]], Position]
    log_likelihood: Callable[[dict[str, Array]], dict[str, Array]] | None = None
    random: tuple[str, ...] = ()
    shapes: Mapping[str, tuple[int, ...]] = {}


class Problem(NamedTuple):
    """What `srmc.sample` samples from, for a model of any kind.

    name
        The name of the model.
    logdensity_fn
        The log density of an unconstrained position.
    starts
        From a key and a number of chains to their starts, (chain, ...).
    values
        From a position to named arrays, in the user's space.
    inverse
        From named arrays to a position, where that is known.
    labels
        The names of the axes of the named arrays, and the data of the model.
    """

    name: str
    logdensity_fn: LogDensity
    starts: Callable[[PRNGKey, int], Position]
    values: Callable[[Position], dict[str, Array]]
    inverse: Inverse | None = None
    labels: Labels = Labels()


def without_slashes(problem: Problem, position: Position) -> Problem:
    """The problem with `.` for `/` in all names, since `/` separates groups in ArviZ and in files.

    NumPyro's `scope` makes such names.
    """
    names = list(jax.eval_shape(problem.values, position))
    if not any("/" in name for name in names):
        return problem
    new = {name: name for name in names if "/" not in name}
    for name in names:
        if name not in new:
            own = name.replace("/", ".")
            while own in new.values():
                own += "_"
            new[name] = own
    inverse, labels = problem.inverse, problem.labels
    named = lambda arrays: {new.get(k, k.replace("/", ".")): x for k, x in arrays.items()}
    dims = {k: tuple(axis.replace("/", ".") for axis in axes) for k, axes in labels.dims.items()}
    if inverse is not None:
        old = {new[name]: name for name in inverse.names}
        back = lambda values: {old.get(k, k): x for k, x in values.items()}
        likelihood, unconstrain = inverse.log_likelihood, inverse.unconstrain
        inverse = Inverse(
            tuple(old),
            lambda values: unconstrain(back(values)),
            None if likelihood is None else lambda values: named(likelihood(back(values))),
            tuple(new.get(name, name) for name in inverse.random),
        )
    return problem._replace(
        values=Partial(_renamed, problem.values, tuple(new.items())),
        inverse=inverse,
        labels=Labels(*(named(part) for part in (dims, *labels[1:]))),
    )


def _renamed(
    values: Callable[[Position], dict[str, Array]],
    names: tuple[tuple[str, str], ...],
    position: Position,
) -> dict[str, Array]:
    found = values(position)
    return {new: found[old] for old, new in names}


def name_leaves(position: PyTree[Array]) -> dict[str, Array]:
    """The leaves of a position by name; a bare array is called "x".

    >>> list(name_leaves({"a": 1.0, "b": [2.0, 3.0]}))
    ['a', 'b.0', 'b.1']
    """
    leaves = jax.tree.leaves_with_path(position)
    name = lambda path: jax.tree_util.keystr(path, simple=True, separator=".") or "x"
    return {name(path).replace("/", "_"): leaf for path, leaf in leaves}
