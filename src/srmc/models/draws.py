"""Draws of another program: functions of them, stored scores, and variables that are missing."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from srmc._checks import as_numbers
from srmc.models.problem import Problem
from srmc.rebalance.traces import Dataset, values_of
from srmc.types import Array, Float, Position

AT_ONCE = 1024  # number of draws that are transformed together


def over_draws(function: Callable[[Any], Any], draws: Any) -> Any:
    """A function of one draw at all draws, (chain, draw, ...)."""
    leaves, structure = jax.tree.flatten(draws)
    shape = leaves[0].shape[:2]
    rows = [np.asarray(x, float).reshape(-1, *x.shape[2:]) for x in leaves]
    count = len(rows[0])
    size = min(AT_ONCE, 1 << (count - 1).bit_length())
    program = jax.jit(jax.vmap(lambda leaves: function(jax.tree.unflatten(structure, leaves))))
    parts = []
    for start in range(0, count, size):  # all of one size, so that one program serves
        some = np.minimum(np.arange(start, start + size), count - 1)
        out = program([jnp.asarray(x[some]) for x in rows])
        parts.append(jax.tree.map(lambda x, n=count - start: np.asarray(x)[:n], out))
    whole = jax.tree.map(lambda *x: np.concatenate(x), *parts)
    return jax.tree.map(lambda x: x.reshape(*shape, *x.shape[1:]), whole)


Flat = Float[np.ndarray, "chain draw d"]


def stored_scores(groups: dict[str, Dataset], z_grad: Any = None) -> tuple[Flat, Flat]:
    """Unconstrained draws and the gradients of their log density.

    nutpie stores both. NumPyro stores gradients of the potential, minus the log density, by site.
    """
    if z_grad is not None:
        return _of_numpyro(values_of(groups["posterior"]), z_grad)
    stats = groups.get("sample_stats")
    found = {} if stats is None else values_of(stats)
    if "gradient" in found and "unconstrained_draw" in found:
        draws, scores = found["unconstrained_draw"], found["gradient"]
        return np.asarray(draws, float), np.asarray(scores, float)
    if "gradient" in found:
        raise ValueError(
            "trace has gradients, but not the unconstrained draws that they belong to: run "
            "nutpie.sample(..., store_gradient=True, store_unconstrained=True), or give model"
        )
    raise ValueError(
        "model must be given, since trace has no stored gradients: srmc.improve(trace, model). "
        "nutpie stores them with store_gradient=True and store_unconstrained=True; of NumPyro, "
        "give z_grad"
    )


def _of_numpyro(posterior: dict[str, np.ndarray], z_grad: Any) -> tuple[Flat, Flat]:
    if not isinstance(z_grad, Mapping):
        raise TypeError(
            'z_grad must be mcmc.get_extra_fields(group_by_chain=True)["z_grad"], a dictionary of '
            f"arrays by site, got {type(z_grad).__name__}"
        )
    draws, scores = [], []
    for name, gradient in z_grad.items():
        x, g = posterior.get(name), as_numbers(f"z_grad of {name}", gradient)
        if x is None:
            raise ValueError(f"z_grad has {name!r}, which trace has not")
        if x.shape != g.shape:
            raise ValueError(
                f"z_grad of {name} must have the shape of its draws, {x.shape}, got {g.shape}; a "
                "site with a constraint has other draws than gradients: give model instead"
            )
        draws.append(x.reshape(*x.shape[:2], -1).astype(float))
        scores.append(-g.reshape(*x.shape[:2], -1))
    if not draws:
        raise ValueError("z_grad must have the gradient of one site at least, got {}")
    return np.concatenate(draws, axis=2), np.concatenate(scores, axis=2)


def resampled(weights: Float[np.ndarray, "chain draw"], draws: Flat) -> np.ndarray:
    """Systematic resampling: which draws are taken, with repetition, in their order.

    Draws are lined up along their first principal axis, so that one that is left out is replaced
    by one that is near.
    """
    x = draws.reshape(-1, draws.shape[2])
    z = (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-300)
    line = np.argsort(z @ np.linalg.svd(z, full_matrices=False)[2][0])
    sums = np.cumsum(weights.ravel()[line])
    places = (np.arange(len(x)) + 0.5) / len(x) * sums[-1]
    return np.sort(line[np.searchsorted(sums, places)]).reshape(weights.shape)


FIRST, SECOND = 0.5, 0.25  # trial values, inside most supports


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
