"""Variables that a trace lacks, from those that follow from them."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from srmc.models.over_draws import over_draws
from srmc.models.problem import Problem
from srmc.types import Array, Position

FIRST, SECOND = 0.5, 0.25  # values to try, which most supports have


def all_values(problem: Problem, position: Position) -> dict[str, Array]:
    """The named values and, where the position has names, such as `sigma_log__`, those too."""
    own = position if isinstance(position, dict) else {}
    return {**own, **problem.values(position)}


def recovered(problem: Problem, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Missing variables that a deterministic one in the trace is affine in, element by element.

    Bambi drops `1|g_offset`, say, and keeps `1|g`, which is the offset times a scale.
    """
    inverse = problem.inverse
    assert inverse is not None
    missing = [name for name in inverse.names if name not in given]
    sources = [name for name in given if name not in inverse.names]
    if not missing or not sources or any(name not in inverse.shapes for name in missing):
        return {}
    known = {name: given[name] for name in inverse.names if name in given}

    def follow(values: dict[str, Array]) -> dict[str, Array]:
        found = all_values(problem, inverse.unconstrain(values))
        return {name: found[name] for name in sources if name in found}

    def tried(values: dict[str, Array]) -> dict[str, Any]:
        base = {name: jnp.full(inverse.shapes[name], FIRST) for name in missing}
        other = {name: base | {name: jnp.full_like(base[name], SECOND)} for name in missing}
        return {name: follow(values | fill) for name, fill in ({"": base} | other).items()}

    if not known:
        return {}
    at = over_draws(tried, known)
    found = {}
    for name in missing:
        fits = {k: x for k, x in given.items() if x.shape[2:] == inverse.shapes[name]}
        source = _only_of(name, missing, at, fits)
        if source is not None:
            slope = (at[""][source] - at[name][source]) / (FIRST - SECOND)
            with np.errstate(divide="ignore", invalid="ignore"):
                found[name] = FIRST + (given[source] - at[""][source]) / slope
    if len(found) < len(missing):
        return found
    again = over_draws(follow, known | found)
    close = lambda new, old: np.abs(new - old) <= 1e-3 * np.std(old) + 1e-6 * np.abs(old)
    exact = all(np.all(close(again[name], given[name])) for name in again)
    return found if exact else {}


def _only_of(
    name: str, missing: list[str], at: dict[str, dict[str, np.ndarray]], fits: dict[str, np.ndarray]
) -> str | None:
    """One of `fits` that depends on this missing variable, and on no other missing one."""
    for source, base in at[""].items():
        depends = [other for other in missing if np.any(at[other][source] != base)]
        if depends == [name] and source in fits and base.shape == fits[source].shape:
            return source
    return None
