"""Models to sample from: a JAX log density, a built-in target, a NumPyro or a PyMC model."""

import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from srmc._checks import check_option
from srmc.core.target import LogDensity
from srmc.discrete.sites import Changes
from srmc.discrete.space import Space
from srmc.models.starts import find_starts, find_states, scatter
from srmc.targets import Target

PyTree = Any


class Model(NamedTuple):
    """A log density, where its chains start, and what its draws are called.

    name
        What to call it.
    logdensity_fn
        Of an unconstrained position.
    starts
        The starts of so many chains, given a key.
    values
        From a position to named arrays, in the user's space.
    space, differences
        Of a discrete model: where it lives, and its one-site changes if it has them.
    """

    name: str
    logdensity_fn: LogDensity
    starts: Callable[[jax.Array, int], PyTree]
    values: Callable[[PyTree], dict[str, jax.Array]]
    space: Space | None = None
    differences: Changes | None = None


def space_of(model: Any, space: Space | None) -> Space | None:
    """The discrete space of a model, if it is on one."""
    if space is not None and not isinstance(space, Space):
        raise TypeError(f"space must be srmc.Binary() or another space, got {space!r}")
    own = model.space if isinstance(model, Target) else None
    if space is not None and own is not None and space != own:
        raise ValueError(f"space must be that of the target, {own}, got {space}")
    return space or own


def as_discrete_model(
    model: Any, space: Space, initial_position: Any = None, differences: Changes | None = None
) -> Model:
    """A log density or a target on a discrete space, with its starts."""
    if isinstance(initial_position, str):
        raise ValueError(f"initial_position must be a state, got {initial_position!r}")
    if isinstance(model, Target):
        name, logdensity_fn = model.name, model.logdensity_fn
        differences = differences or model.differences
        like = model.position
    elif callable(model):
        name, logdensity_fn, like = getattr(model, "__name__", "model"), model, None
        if initial_position is None:
            raise ValueError(
                "initial_position must be given for a log density: a state, a list of one for "
                "each chain, or a function of a key"
            )
    else:
        raise TypeError(f"model must be a log density or a target on {space}, got {model!r}")

    def starts(key, num_chains):
        return find_states(logdensity_fn, space, initial_position, like, key, num_chains)

    return Model(name, logdensity_fn, starts, name_leaves, space, differences)


def as_model(model: Any, initial_position: Any = None, data: Any = None) -> Model:
    """A continuous model of any kind that `srmc.sample` takes, as a log density with its starts."""
    is_text = isinstance(initial_position, str)
    if is_text:
        check_option("initial_position", initial_position, ("uniform", "prior"))
    is_pymc = type(model).__module__.startswith("pymc.")
    if data is not None and (is_pymc or not callable(model)):
        raise ValueError("data is for NumPyro models; this model has its data already")
    if isinstance(model, Target):
        if is_text:
            raise ValueError(
                f"initial_position must be a position for a target, got {initial_position!r}"
            )
        scattered = lambda key, n: scatter(model.logdensity_fn, key, model.position, n)
        found = Model(model.name, model.logdensity_fn, scattered, name_leaves)
    elif is_pymc:
        found = _from_pymc(model, initial_position)
    elif not callable(model):
        raise TypeError(
            f"model must be a log density, a target, a NumPyro model or a PyMC model, got {model!r}"
        )
    elif data is not None or is_text or (initial_position is None and _has_sites(model)):
        found = _from_numpyro(model, data, initial_position)
    elif initial_position is None:
        raise ValueError(
            "initial_position must be given for a log density: a position, a list of one for each "
            "chain, or a function of a key; for a NumPyro model with arguments, give data"
        )
    else:
        given = lambda key, n: find_starts(model, initial_position, key, n)
        return Model(getattr(model, "__name__", "model"), model, given, name_leaves)
    if initial_position is None or is_text:
        return found
    logdensity_fn = found.logdensity_fn
    return found._replace(
        starts=lambda key, n: find_starts(logdensity_fn, initial_position, key, n)
    )


def _has_sites(model: Callable) -> bool:
    """Whether this is a NumPyro model without arguments."""
    try:
        from numpyro import handlers
    except ImportError:
        return False
    try:
        trace = handlers.trace(handlers.seed(model, jax.random.key(0))).get_trace()
    except TypeError:  # it takes arguments, as a log density does
        return False
    return any(site["type"] == "sample" for site in trace.values())


def name_leaves(position: PyTree) -> dict[str, jax.Array]:
    """The leaves of a position by name; a bare array is called "x".

    >>> list(name_leaves({"a": 1.0, "b": [2.0, 3.0]}))
    ['a', 'b.0', 'b.1']
    """
    leaves = jax.tree.leaves_with_path(position)
    name = lambda path: jax.tree_util.keystr(path, simple=True, separator=".") or "x"
    return {name(path).replace("/", "_"): leaf for path, leaf in leaves}


def _from_numpyro(model: Callable, data: Any, start: Any) -> Model:
    try:
        from numpyro import infer
        from numpyro.infer.util import initialize_model
    except ImportError as error:
        raise ImportError("a NumPyro model needs numpyro: pip install 'srmc[models]'") from error
    args, kwargs = ((), data) if isinstance(data, Mapping) else (tuple(data or ()), {})
    prior = start == "prior"
    strategy = infer.init_to_sample if prior else infer.init_to_uniform

    def set_up(key):
        return initialize_model(
            key,
            model,
            init_strategy=strategy,
            model_args=args,
            model_kwargs=dict(kwargs),
            validate_grad=False,
        )

    try:
        found = set_up(jax.random.key(0))
    except RuntimeError as error:
        raise ValueError(f"model must have a finite log density where it starts: {error}") from None
    if not found.param_info.z:
        raise ValueError(f"model must have a latent variable to sample, got {model!r}")
    logdensity_fn = lambda z: -found.potential_fn(z)

    def starts(key, num_chains):
        if prior:
            one = lambda key: set_up(key).param_info.z
            drawn = [one(k) for k in jax.random.split(key, num_chains)]
            return find_starts(logdensity_fn, drawn, key, num_chains)
        zero = jax.tree.map(jnp.zeros_like, found.param_info.z)
        return scatter(logdensity_fn, key, zero, num_chains)

    return Model(getattr(model, "__name__", "model"), logdensity_fn, starts, found.postprocess_fn)


def _from_pymc(model: Any, start: Any) -> Model:
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
    logdensity_fn = lambda position: jnp.asarray(logp(*in_order(position))[0]).astype(float)

    def values(position):
        out = graph(*in_order(position))
        return {v.name: jnp.asarray(x) for v, x in zip(kept, out, strict=True)}

    def starts(key, num_chains):
        if start == "prior":
            draw = make_initial_point_fn(model=model, default_strategy="prior")
            seeds = [int(s) for s in jax.random.randint(key, (num_chains,), 0, 2**31 - 1)]
            return find_starts(logdensity_fn, [_floats(draw(s)) for s in seeds], key, num_chains)
        zero = jax.tree.map(jnp.zeros_like, _floats(model.initial_point()))
        return scatter(logdensity_fn, key, zero, num_chains)

    return Model(model.name or "model", logdensity_fn, starts, values)


def _pymc_to_jax() -> Callable:
    """PyMC's translator, whose module asks for 100 devices, in an environment that others share."""
    flags = os.environ.get("XLA_FLAGS")
    from pymc.sampling.jax import get_jaxified_graph

    if flags is None:
        os.environ.pop("XLA_FLAGS", None)
    else:
        os.environ["XLA_FLAGS"] = flags
    return get_jaxified_graph


def _floats(point):
    return {name: jnp.asarray(x, float) for name, x in point.items()}
