"""NumPyro models: log densities, names and data."""

import inspect
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from traceback import extract_tb
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from srmc._checks import as_numbers, short
from srmc._programs import Code, parted, pinned, remembered
from srmc.models.problem import Inverse, Labels, Problem
from srmc.models.starts import find_starts, scatter
from srmc.types import Array, LogDensity, Position, PRNGKey, Scalar


def has_sites(model: Callable[..., Any]) -> bool:
    """Whether this is a NumPyro model without arguments.

    A log density has one, which is seen without NumPyro: its import takes a second, and warns in
    a notebook without ipywidgets.
    """
    try:
        inspect.signature(model).bind()
    except TypeError:
        return False
    except ValueError:  # a built-in function, say
        pass
    try:
        from numpyro import handlers
    except ImportError:
        return False
    try:
        trace = handlers.trace(handlers.seed(model, jax.random.key(0))).get_trace()
    except TypeError:  # it takes arguments, as a log density does
        return False
    except (AssertionError, ValueError):  # raised by NumPyro for an invalid model
        return True
    return any(site["type"] == "sample" for site in trace.values())


def from_numpyro(model: Callable[..., Any], data: Any, start: str | Any) -> Problem:
    """A NumPyro model with its arguments; chains start from the prior if `start` is "prior"."""
    try:
        from numpyro import handlers, infer
        from numpyro.infer.util import initialize_model
    except ImportError as error:
        raise ImportError("a NumPyro model needs numpyro: pip install 'srmc[models]'") from error
    args, kwargs = _arguments(model, data)
    seeded = handlers.seed(model, jax.random.key(0))
    try:
        trace = handlers.trace(seeded).get_trace(*args, **kwargs)
    except (AssertionError, TypeError, ValueError) as error:
        if not _is_refused(error):
            raise  # an error of the user's own code
        given = "" if data is None else f" with data, {short(data)}"
        raise ValueError(f"model must run{given}, but NumPyro refuses it: {error}") from error
    for name, site in trace.items():
        if site["type"] == "sample" and site["is_observed"]:
            as_numbers(f"what data give the observed site {name}", site["value"])
    discrete = _check_continuous(trace)
    prior = isinstance(start, str) and start == "prior"
    strategy = infer.init_to_sample if prior else infer.init_to_uniform

    def set_up(key: PRNGKey) -> Any:
        return initialize_model(
            key,
            model,
            init_strategy=strategy,
            model_args=args,
            model_kwargs=dict(kwargs),
            validate_grad=False,
        )

    found = as_functions(model, args, kwargs, trace, set_up)
    logdensity_fn = found.logdensity_fn

    def starts(key: PRNGKey, num_chains: int) -> Position:
        if prior:
            one = lambda key: set_up(key).param_info.z
            drawn = [one(k) for k in jax.random.split(key, num_chains)]
            return find_starts(logdensity_fn, drawn, key, num_chains)
        return scatter(logdensity_fn, key, found.zero, num_chains)

    def log_likelihood(values: dict[str, Array]) -> dict[str, Array]:
        return infer.util.log_likelihood(seeded, values, *args, batch_ndims=0, **kwargs)

    inverse = Inverse(
        tuple(found.zero),
        lambda values: infer.util.unconstrain_fn(seeded, args, dict(kwargs), values),
        None if discrete else log_likelihood,
        shapes={name: jnp.shape(trace[name]["value"]) for name in found.zero},
    )
    name = getattr(model, "__name__", "model")
    values = jax.eval_shape(found.values, found.zero)
    labels = _labels(trace, values, _by_name(model, args, kwargs))
    return Problem(name, logdensity_fn, starts, found.values, inverse, labels)


def _is_refused(error: Exception) -> bool:
    """Whether an error was raised in NumPyro or in its calls of JAX."""
    files = [Path(frame.filename).parts for frame in extract_tb(error.__traceback__)]
    return "numpyro" in next(parts for parts in reversed(files) if "jax" not in parts)


def _arguments(model: Callable[..., Any], data: Any) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """The arguments of a model, by position or by name; raise for those that it does not take."""
    if data is not None and not isinstance(data, tuple | list | Mapping):
        raise TypeError(
            "data must be the arguments of a NumPyro model, a tuple or a dictionary, such as "
            f"data=(y,) for a model of y, got {short(data)}"
        )
    args, kwargs = ((), data) if isinstance(data, Mapping) else (tuple(data or ()), {})
    try:
        inspect.signature(model).bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"data must be the arguments of the NumPyro model: {error}") from None
    return args, kwargs


def _labels(
    trace: Mapping[str, Any], values: Mapping[str, Any], arguments: Mapping[str, Any]
) -> Labels:
    """The plates of the sites, observed values, and the arguments that are other numbers."""
    sites = {k: v for k, v in trace.items() if v["type"] in ("sample", "deterministic")}
    observed = {
        name: np.asarray(site["value"])
        for name, site in sites.items()
        if site["type"] == "sample" and site["is_observed"] and jnp.size(site["value"])
    }
    constant = {
        name: np.asarray(x)
        for name, x in arguments.items()
        if isinstance(x, np.ndarray | jax.Array | float | int)
        and not isinstance(x, bool)
        and not any(np.array_equal(x, y) for y in observed.values())
    }
    shapes = {name: x.shape for name, x in {**values, **observed}.items()}
    dims = {
        name: _axes(name, site)
        for name, site in sites.items()
        if shapes.get(name) == jnp.shape(site["value"])
    }
    return Labels({k: axes for k, axes in dims.items() if axes}, {}, observed, constant)


def _axes(name: str, site: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of a site's axes, from plates and `event_dims`; empty if there are none."""
    shape, plates = jnp.shape(site["value"]), site["cond_indep_stack"]
    events = (site.get("infer") or {}).get("event_dims", ())
    if not plates and not events:
        return ()
    batch = max((-plate.dim for plate in plates), default=0)
    own = site["fn"].event_dim if site["type"] == "sample" else max(0, len(shape) - batch)
    first = len(shape) - own
    axes = [f"{name}_dim_{n}" for n in range(len(shape))]
    for plate in plates:
        if first + plate.dim >= 0 and shape[first + plate.dim] == plate.size:
            axes[first + plate.dim] = plate.name
    axes[first : first + len(events)] = events
    return tuple(axes)


def _by_name(
    model: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Mapping[str, Any]:
    try:
        return inspect.signature(model).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):  # a callable without a signature
        return kwargs


def _check_continuous(trace: Mapping[str, Any]) -> str:
    """Raise for discrete latent variables, unless NumPyro can sum over them; return their names."""
    latent = [site for site in trace.values() if site["type"] == "sample"]
    latent = [site for site in latent if not site["is_observed"]]
    discrete = ", ".join(site["name"] for site in latent if site["fn"].support.is_discrete)
    if discrete and find_spec("funsor") is None:
        raise ValueError(
            f"model must have continuous variables alone, but not so {discrete}; NumPyro sums over "
            "discrete ones if funsor is installed"
        )
    return discrete


SAME = 1e-4  # largest relative difference of log densities attributed to rounding of data


class Functions(NamedTuple):
    """The origin of unconstrained positions, the log density there, and values by name."""

    zero: Position
    logdensity_fn: LogDensity
    values: Callable[[Position], dict[str, Array]]


def as_functions(
    model: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    trace: Mapping[str, Any],
    set_up: Callable[[PRNGKey], Any],
) -> Functions:
    """The functions of a model; `set_up` is NumPyro's own way, for which data are constants.

    NumPyro's own way is used for models that cannot be traced without the values of their data,
    that sum over discrete variables, or that draw random numbers.
    """
    zero = _origin(trace)
    density, values = (
        pinned(Partial(f, model, args, dict(kwargs)), zero) for f in (_density, _values)
    )
    as_arguments = isinstance(density, Partial) and isinstance(values, Partial)
    as_arguments = as_arguments and _is_as_precise(model, args, kwargs)
    known = _notes(parted(density)[0]) if as_arguments else []
    if known:
        return Functions(zero, density, values)
    try:
        found = set_up(jax.random.key(0))
    except RuntimeError as error:
        raise ValueError(f"model must have a finite log density where it starts: {error}") from None
    theirs = jax.tree.map(jnp.zeros_like, found.param_info.z)
    if not theirs:
        raise ValueError(f"model must have a latent variable to sample, got {model!r}")
    shapes = lambda zero, f: (jax.tree.map(jnp.shape, zero), jax.eval_shape(f, zero))
    if as_arguments and shapes(zero, values) == shapes(theirs, found.postprocess_fn):
        known.append("NumPyro has found a place to start")
        return Functions(zero, density, values)
    return Functions(theirs, lambda z: -found.potential_fn(z), found.postprocess_fn)


def _density(
    model: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], z: Position
) -> Scalar:
    from numpyro.infer.util import potential_energy

    energy: Scalar = potential_energy(model, args, kwargs, z)
    return -energy


def _values(
    model: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], z: Position
) -> dict[str, Array]:
    from numpyro.infer.util import constrain_fn

    return constrain_fn(model, args, kwargs, z, return_deterministic=True)


@remembered
def _notes(code: Code) -> list[str]:
    """Facts about a model that are found once; empty at first."""
    return []


def _origin(trace: Mapping[str, Any]) -> dict[str, Array]:
    """The origin of the unconstrained positions of a model with this trace."""
    from numpyro.distributions import biject_to

    return {
        name: jnp.zeros(biject_to(site["fn"].support).inverse_shape(jnp.shape(site["value"])))
        for name, site in trace.items()
        if site["type"] == "sample"
        and not site["is_observed"]
        and not site["fn"].support.is_discrete
    }


def _is_as_precise(
    model: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> bool:
    """Whether the model computes the same from data in the precision of JAX.

    For example, a model that subtracts the mean of NumPy arrays does so in double precision if
    they are constants, and in JAX's precision if they are arguments.
    """
    from numpyro import handlers
    from numpyro.infer.util import compute_log_probs

    rounded, is_exact = [], True
    leaves, structure = jax.tree.flatten((args, dict(kwargs)))
    for leaf in leaves:
        is_array = isinstance(leaf, np.ndarray) and leaf.dtype.kind in "iuf"
        rounded.append(jnp.asarray(leaf) if is_array else leaf)
        is_exact &= not is_array or rounded[-1].dtype == leaf.dtype
    if is_exact:
        return True
    seeded = handlers.seed(model, jax.random.key(0))
    given, _ = compute_log_probs(seeded, args, dict(kwargs), {})
    ours, _ = compute_log_probs(seeded, *jax.tree.unflatten(structure, rounded), {})
    close = lambda a, b: np.allclose(a, b, rtol=SAME, atol=SAME, equal_nan=True)
    return all(close(np.asarray(given[name]), np.asarray(ours[name])) for name in given)
