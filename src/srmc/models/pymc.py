"""PyMC models."""

import os
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from srmc._types import Array, Position, PRNGKey, Scalar
from srmc.models.labels import Labels
from srmc.models.problem import Inverse, Problem
from srmc.models.starts import find_starts, scatter


def from_pymc(model: Any, start: str | Any) -> Problem:
    """A PyMC model; chains start from the prior if `start` is "prior"."""
    from pymc.initial_point import make_initial_point_fn
    from pymc.util import get_default_varnames

    get_jaxified_graph = _pymc_to_jax()
    discrete = ", ".join(v.name for v in model.discrete_value_vars)
    if discrete:
        raise ValueError(f"model must have continuous variables alone, but not so {discrete}")
    names = [v.name for v in model.value_vars]
    logp = get_jaxified_graph(inputs=model.value_vars, outputs=[model.logp()])
    kept = get_default_varnames(model.unobserved_value_vars, include_transformed=False)
    graph = get_jaxified_graph(inputs=model.value_vars, outputs=kept)
    in_order = lambda position: [position[name] for name in names]

    def logdensity_fn(position: Any) -> Scalar:
        return jnp.asarray(logp(*in_order(position))[0]).astype(float)

    def values(position: Any) -> dict[str, Array]:
        out = graph(*in_order(position))
        return {v.name: jnp.asarray(x) for v, x in zip(kept, out, strict=True)}

    def starts(key: PRNGKey, num_chains: int) -> Position:
        if isinstance(start, str) and start == "prior":
            draw = make_initial_point_fn(model=model, default_strategy="prior")
            seeds = [int(s) for s in jax.random.randint(key, (num_chains,), 0, 2**31 - 1)]
            return find_starts(logdensity_fn, [_floats(draw(s)) for s in seeds], key, num_chains)
        zero = jax.tree.map(jnp.zeros_like, _floats(model.initial_point()))
        return scatter(logdensity_fn, key, zero, num_chains)

    free = tuple(v.name for v in model.free_RVs)
    inverse = Inverse(
        free,
        lambda given: _unconstrain(model, given),
        lambda given: _log_likelihood(model, given),
    )
    labels = _labels(model, [v.name for v in kept])
    return Problem(model.name or "model", logdensity_fn, starts, values, inverse, labels)


def _labels(model: Any, values: list[str]) -> Labels:
    """The dims, coords and data of the model, as PyMC puts them into its own traces."""
    from pymc.backends.arviz import (
        coords_and_dims_for_inferencedata,
        find_constants,
        find_observations,
    )

    coords, dims = coords_and_dims_for_inferencedata(model)
    observed, constant = (
        {name: _filled(x) for name, x in find(model).items()}
        for find in (find_observations, find_constants)
    )
    known = {*values, *observed, *constant}
    return Labels(
        {name: tuple(axes) for name, axes in dims.items() if name in known and None not in axes},
        {name: np.asarray(x) for name, x in coords.items()},
        observed,
        constant,
    )


def _filled(x: Any) -> np.ndarray:
    """Data with NaN where they are missing."""
    return np.ma.filled(x.astype(float), np.nan) if np.ma.is_masked(x) else np.asarray(x)


def _log_likelihood(model: Any, given: dict[str, Array]) -> dict[str, Array]:
    """The log likelihood at values of the free variables, as `pm.compute_log_likelihood` has it."""
    from pymc.model.transform.conditioning import remove_value_transforms

    plain = remove_value_transforms(model)
    pointwise = plain.logp(vars=plain.observed_RVs, sum=False)
    graph = _pymc_to_jax()(inputs=plain.value_vars, outputs=pointwise)
    out = graph(*(given[v.name] for v in plain.value_vars))
    return {v.name: jnp.asarray(x) for v, x in zip(plain.observed_RVs, out, strict=True)}


def _unconstrain(model: Any, given: dict[str, Array]) -> dict[str, Array]:
    """The value variables at these values of the free ones, whose transforms may be nested."""
    from pytensor.graph.replace import clone_replace

    moves = [model.rvs_to_transforms[v] for v in model.free_RVs]
    forward = [
        v if move is None else move.forward(v, *v.owner.inputs)
        for v, move in zip(model.free_RVs, moves, strict=True)
    ]
    inputs = {v: v.type(name=v.name) for v in model.free_RVs}
    graph = _pymc_to_jax()(list(inputs.values()), clone_replace(forward, replace=inputs))
    out = graph(*(given[v.name] for v in model.free_RVs))
    names = [model.rvs_to_values[v].name for v in model.free_RVs]
    return {name: jnp.asarray(x) for name, x in zip(names, out, strict=True)}


def _pymc_to_jax() -> Callable[..., Any]:
    """PyMC's translator, whose module asks for 100 devices, in an environment that others share."""
    flags = os.environ.get("XLA_FLAGS")
    from pymc.sampling.jax import get_jaxified_graph

    if flags is None:
        os.environ.pop("XLA_FLAGS", None)
    else:
        os.environ["XLA_FLAGS"] = flags
    translate: Callable[..., Any] = get_jaxified_graph
    return translate


def _floats(point: dict[str, Any]) -> dict[str, Array]:
    return {name: jnp.asarray(x, float) for name, x in point.items()}
