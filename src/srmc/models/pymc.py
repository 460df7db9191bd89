"""PyMC models, and Bambi models with the intercepts that Bambi reports."""

import os
from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from srmc._programs import pinned
from srmc.models.problem import Inverse, Labels, Problem
from srmc.models.starts import find_starts, scatter
from srmc.types import Array, Position, PRNGKey, Scalar


def from_pymc(model: Any, start: str | Any) -> Problem:
    """A PyMC model; chains start from the prior if `start` is "prior"."""
    from pymc.initial_point import make_initial_point_fn
    from pymc.util import get_default_varnames

    discrete = ", ".join(v.name for v in model.discrete_value_vars)
    if discrete:
        raise ValueError(f"model must have continuous variables alone, but not so {discrete}")
    if not model.value_vars:
        raise ValueError(f"model must have a free variable to sample, got {model.name or model!r}")
    kept = get_default_varnames(model.unobserved_value_vars, include_transformed=False)
    names = tuple(v.name for v in model.value_vars)
    logp, graph = _graphs(model, kept)
    zero = jax.tree.map(jnp.zeros_like, _floats(model.initial_point()))
    logdensity_fn = pinned(Partial(_log_density, names, *logp.with_data()), zero)
    values = pinned(Partial(_values, names, tuple(v.name for v in kept), *graph.with_data()), zero)

    def starts(key: PRNGKey, num_chains: int) -> Position:
        if isinstance(start, str) and start == "prior":
            draw = make_initial_point_fn(model=model, default_strategy="prior")
            seeds = [int(s) for s in jax.random.randint(key, (num_chains,), 0, 2**31 - 1)]
            return find_starts(logdensity_fn, [_floats(draw(s)) for s in seeds], key, num_chains)
        return scatter(logdensity_fn, key, zero, num_chains)

    free = tuple(v.name for v in model.free_RVs)
    shapes = jax.eval_shape(values, zero)
    inverse = Inverse(
        free,
        lambda given: _unconstrain(model, given),
        lambda given: _log_likelihood(model, given),
        shapes={name: shapes[name].shape for name in free},
    )
    labels = _labels(model, [v.name for v in kept])
    return Problem(model.name or "model", logdensity_fn, starts, values, inverse, labels)


def _log_density(names: tuple[str, ...], graph: Any, data: list[Any], position: Any) -> Scalar:
    (value,) = graph(*(position[name] for name in names), *data)
    return jnp.asarray(value).astype(float)


def _values(
    names: tuple[str, ...], kept: tuple[str, ...], graph: Any, data: list[Any], position: Any
) -> dict[str, Array]:
    out = graph(*(position[name] for name in names), *data)
    return {name: jnp.asarray(x) for name, x in zip(kept, out, strict=True)}


class Graph(NamedTuple):
    """A function of the value variables and of shared data, such as `pm.Data`."""

    function: Callable[..., Any]
    shared: list[Any]

    def with_data(self) -> tuple[Callable[..., Any], list[Any]]:
        """The function, and the current data."""
        return self.function, [jnp.asarray(v.get_value()) for v in self.shared]


_KNOWN: WeakKeyDictionary[Any, tuple[Any, tuple[Graph, Graph]]] = WeakKeyDictionary()


def _graphs(model: Any, kept: list[Any]) -> tuple[Graph, Graph]:
    """The log density and the values of a model, translated once."""
    parts = [*model.basic_RVs, *model.potentials, *model.deterministics]
    rest = [v.get_value() for v in _shared(parts) if not _is_data(v)]
    numbers = [x.tolist() for x in rest if isinstance(x, np.ndarray)]
    seen = [parts, list(model.rvs_to_values.items()), numbers]
    if model not in _KNOWN or _KNOWN[model][0] != seen:
        logp, values = (_translated(model.value_vars, out) for out in ([model.logp()], kept))
        _KNOWN[model] = seen, (logp, values)
    return _KNOWN[model][1]


def _translated(inputs: list[Any], outputs: list[Any]) -> Graph:
    from pytensor.graph.replace import clone_replace

    shared = [v for v in _shared(outputs) if _is_data(v)]
    stand_ins = {v: v.type(name=v.name) for v in shared}
    outputs = clone_replace(outputs, replace=stand_ins)
    return Graph(_pymc_to_jax()([*inputs, *stand_ins.values()], outputs), shared)


def _shared(outputs: list[Any]) -> list[Any]:
    from pytensor.compile.sharedvalue import SharedVariable

    try:
        from pytensor.graph.traversal import graph_inputs
    except ImportError:  # before PyTensor 2.32
        from pytensor.graph.basic import graph_inputs  # type: ignore[no-redef]
    return [v for v in graph_inputs(outputs) if isinstance(v, SharedVariable)]


def _is_data(variable: Any) -> bool:
    """Whether a shared variable is an array of data, and not a length or a generator."""
    value = variable.get_value(borrow=True)
    return isinstance(value, np.ndarray) and (value.ndim > 0 or value.dtype.kind == "f")


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
    return get_jaxified_graph


def _floats(point: dict[str, Any]) -> dict[str, Array]:
    return {name: jnp.asarray(x, float) for name, x in point.items()}


class Centred(NamedTuple):
    """An intercept, the terms whose predictors were centred, and the means of these."""

    intercept: str
    terms: tuple[str, ...]
    means: np.ndarray

    def shift(self, values: dict[str, Array]) -> Array:
        """By how much the intercept of centred predictors is larger."""
        shape = jnp.shape(values[self.intercept])
        slopes = [jnp.reshape(values[name], (-1, *shape)) for name in self.terms]
        return jnp.tensordot(jnp.asarray(self.means, float), jnp.concatenate(slopes), 1)


def is_bambi(model: Any) -> bool:
    return type(model).__module__.partition(".")[0] == "bambi"


def from_bambi(model: Any, start: str | Any) -> Problem:
    """A Bambi model, built if necessary.

    Its PyMC model has the intercepts for centred predictors; Bambi's traces have the intercepts
    for the original predictors.
    """
    if not model.built:
        model.build()
    problem = from_pymc(model.backend.model, start)
    centred, inverse = _centred(model), problem.inverse
    assert inverse is not None
    if not centred:
        return problem

    def values(position: Position) -> dict[str, Array]:
        return _moved(centred, problem.values(position), -1)

    to_pymc = lambda given: _moved(centred, given, 1)
    likelihood = inverse.log_likelihood
    assert likelihood is not None
    back = Inverse(
        inverse.names,
        lambda given: inverse.unconstrain(to_pymc(given)),
        lambda given: likelihood(to_pymc(given)),
        shapes=inverse.shapes,
    )
    return problem._replace(values=values, inverse=back)


def _moved(centred: list[Centred], values: dict[str, Array], sign: int) -> dict[str, Array]:
    moved = {one.intercept: values[one.intercept] + sign * one.shift(values) for one in centred}
    return values | moved


def _centred(model: Any) -> list[Centred]:
    if not model.center_predictors:
        return []
    found = []
    for built in model.backend.distributional_components.values():
        part = built.component
        if part.intercept_term and part.common_terms:
            means = np.asarray(built.design_matrix_without_intercept).mean(axis=0)
            terms = tuple(_name(term) for term in part.common_terms.values())
            found.append(Centred(_name(part.intercept_term), terms, means))
    return found


def _name(term: Any) -> str:
    return str(term.alias or term.name)
