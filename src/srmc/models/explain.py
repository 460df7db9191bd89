"""Is this the model that made the trace? Its draws as positions of the model, or a clear error."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from srmc.models.callback import from_stan, is_stan
from srmc.models.draws import all_values, over_draws, recovered
from srmc.models.model import Model, as_problem
from srmc.models.numpyro import has_sites
from srmc.models.problem import Inverse, Problem, name_leaves
from srmc.rebalance.traces import Dataset, values_of
from srmc.targets import Target
from srmc.types import Array, Float, Position

CHECKED = 200  # number of draws at which the model is compared with the trace

Unravel = Callable[[Array], Position]
Constrain = Callable[[Position], dict[str, Array]]
Unconstrain = Callable[[dict[str, Array]], Position]


def explain(
    plain: Dataset,
    model: Any,
    data: Any,
    unconstrain: Unconstrain | None,
    constrain: Constrain | None,
) -> Problem:
    """The model as a problem whose positions can be had from the variables of the trace."""
    whole = model if isinstance(model, Model) else Model(model, data=data)
    model = whole.model
    if whole.own_space is not None:
        raise ValueError(f"model must be continuous, got one on {whole.own_space}")
    if (unconstrain is None) != (constrain is None):
        raise ValueError("unconstrain and constrain must be given together")
    for name, function in (("unconstrain", unconstrain), ("constrain", constrain)):
        if function is not None and not callable(function):
            raise TypeError(f"{name} must be a function of a draw, got {function!r}")
    if is_stan(model):
        problem = from_stan(model, generated=True)
    elif isinstance(model, Target) or _is_density(model, whole.data):
        return _density(plain, model, unconstrain, constrain)
    else:
        problem = as_problem(whole)
    if unconstrain is not None:
        raise ValueError("unconstrain and constrain are for a log density; a model has its own")
    return problem


def _is_density(model: Any, data: Any) -> bool:
    is_function = callable(model) and not type(model).__module__.startswith("pymc.")
    return is_function and data is None and not has_sites(model)


def _density(
    plain: Dataset, model: Any, unconstrain: Unconstrain | None, constrain: Constrain | None
) -> Problem:
    """A log density, with its transforms, or of the trace's variables."""
    names = tuple(values_of(plain))
    density = model.logdensity_fn if isinstance(model, Target) else model
    if unconstrain is None or constrain is None:
        constrain = name_leaves
        if isinstance(model, Target):
            structure = jax.tree.structure(model.position)
            names = tuple(name_leaves(model.position))
            unconstrain = lambda values: jax.tree.unflatten(structure, [values[k] for k in names])
        else:
            unconstrain = lambda values: values["x"] if names == ("x",) else values
    starts: Any = None  # no chain is started
    return Problem("model", density, starts, constrain, Inverse(names, unconstrain))


def positions_of(
    problem: Problem, plain: Dataset
) -> tuple[Float[np.ndarray, "chain draw d"], Unravel]:
    """The draws in unconstrained space, and the way from a vector to a position."""
    assert problem.inverse is not None
    names, unconstrain = problem.inverse.names, problem.inverse.unconstrain
    given = values_of(plain)
    given |= recovered(problem, given)
    missing = [name for name in names if name not in given]
    if missing:
        raise ValueError(
            f"trace must have all variables of the model, but lacks {', '.join(missing)}; it has "
            f"{', '.join(given)}"
        )
    draws = {name: given[name] for name in names}
    for name, shape in problem.inverse.shapes.items():
        if draws[name].shape[2:] != shape:
            raise ValueError(
                f"trace does not fit the model: {name} has shape {draws[name].shape[2:]} in trace "
                f"and {shape} in the model"
            )
    for name, x in draws.items():
        if not np.issubdtype(x.dtype, np.floating):
            raise ValueError(
                f"{name} must be continuous to be improved, got {x.dtype}; leave discrete "
                "variables out of the model, or sum over them"
            )
        bad = int(np.sum(~np.isfinite(x)))
        if bad:
            raise ValueError(f"{name} must be finite in trace, got {bad} NaN or inf")
    shape = next(iter(draws.values())).shape[:2]
    one = {name: jnp.asarray(x[0, 0], float) for name, x in draws.items()}
    try:
        like = jax.eval_shape(unconstrain, one)
        _, unravel = ravel_pytree(jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), like))
        flat = over_draws(lambda values: ravel_pytree(unconstrain(values))[0], draws)
    except (TypeError, ValueError, KeyError, AssertionError) as error:
        shapes = {name: x.shape[2:] for name, x in draws.items()}
        raise ValueError(
            f"trace does not fit the model, whose variables have other shapes than {shapes}: "
            f"{error}"
        ) from error
    lost = int(np.sum(~np.all(np.isfinite(flat), axis=-1)))
    if lost:
        raise ValueError(
            f"{lost} of {flat[..., 0].size} draws lie outside or on the edge of the model's "
            "support: give the model that made the trace, or run it in double precision"
        )
    return flat.reshape(*shape, -1), unravel


def check_values(problem: Problem, plain: Dataset, flat: np.ndarray, unravel: Unravel) -> None:
    """Raise for a model that computes other values from the draws than the trace has."""
    assert problem.inverse is not None
    some = np.linspace(0, flat.shape[1] - 1, min(CHECKED, flat.shape[1])).astype(int)
    found = over_draws(lambda z: all_values(problem, unravel(z)), flat[:1, some])
    for name, x in values_of(plain).items():
        if name not in found or name in problem.inverse.random:
            continue
        old, new = np.asarray(x[:1, some], float), np.asarray(found[name], float)
        if new.shape != old.shape:
            raise ValueError(
                f"trace does not fit the model: {name} has shape {old.shape[2:]} in trace and "
                f"{new.shape[2:]} in the model"
            )
        off = np.abs(new - old) > 1e-2 * np.nanstd(old, axis=(0, 1)) + 1e-4 * np.abs(old)
        if np.any(off):
            where = tuple(np.argwhere(off)[0])
            raise ValueError(
                f"trace is of another model, or of other data: {name} is {old[where]:.6g} in a "
                f"draw of trace, and the model computes {new[where]:.6g}"
            )


def check_log_density(
    problem: Problem, groups: dict[str, Dataset], flat: np.ndarray, unravel: Unravel
) -> None:
    """Raise for a model whose log density differs from that which the sampler stored.

    It may differ by a constant, and by its sign: PyMC's JAX samplers store the potential.
    """
    about, stats = groups["posterior"].attrs, groups.get("sample_stats")
    stored = None if stats is None else values_of(stats).get("lp")
    if about.get("inference_library") not in ("pymc", "numpyro") or stored is None:
        return
    some = np.linspace(0, flat.shape[1] - 1, min(CHECKED, flat.shape[1])).astype(int)
    new = over_draws(lambda z: problem.logdensity_fn(unravel(z)), flat[:, some]).ravel()
    old = np.asarray(stored, float)[:, some].ravel()
    allowed = 1e-2 * np.std(new) + 1e-5 * np.max(np.abs(new))
    off = lambda sign: float(np.max(np.abs(sign * (old - old.mean()) - (new - new.mean()))))
    if not min(off(1), off(-1)) <= allowed and np.all(np.isfinite(old)):
        advice = "Give the model and the data that made the trace"
        if about.get("modeling_interface") == "bambi":
            advice = "Give the Bambi model itself, since Bambi changes intercepts in its traces"
        raise ValueError(
            "trace is of another model, or of other data: its log density, lp in sample_stats, "
            f"differs from the model's by up to {min(off(1), off(-1)):.3g}, apart from a constant. "
            f"{advice}"
        )
