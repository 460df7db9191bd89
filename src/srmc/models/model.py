"""From a model of any kind to a `Problem`."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from srmc._checks import check_option, is_concrete
from srmc._programs import pinned
from srmc.kernels.discrete.changes import Differences
from srmc.kernels.discrete.space import Space
from srmc.kernels.mixed import check_spaces
from srmc.models.callback import from_stan, is_stan
from srmc.models.numpyro import from_numpyro, has_sites
from srmc.models.problem import Problem, given_labels, name_leaves
from srmc.models.pymc import from_bambi, from_pymc, is_bambi
from srmc.models.starts import find_starts, find_states, scatter
from srmc.repel.target import all_finite
from srmc.targets import Target


@dataclasses.dataclass(frozen=True)
class Model:
    """A model with its data, labels and space, for `srmc.sample`.

    model
        A JAX log density of a position, a model of NumPyro, PyMC, Bambi or BridgeStan, or a
        `srmc.targets.Target`.
    data
        The arguments of a NumPyro model, a tuple or a dictionary.
    space
        The discrete space of a log density, such as `srmc.Binary()`; a target has its own. Or, by
        name, the spaces of the discrete blocks of a position.
    differences
        The one-site changes of a discrete log density, if there is a cheap way to compute them;
        see `srmc.flip_mh`.
    feature
        What the history averages on a discrete space; see `srmc.flip_mh`.
    dims, coords
        Names of the axes of variables, such as {"mu": "city"}, and of the positions along them,
        {"city": ["london", "paris"]}, for summaries and ArviZ. Those that a PyMC model has, and the
        plates of a NumPyro model, are known.
    """

    model: Any
    data: Any = None
    space: Space | Mapping[str, Space | None] | None = None
    differences: Differences | None = None
    feature: str | None = None
    dims: Mapping[str, Any] | None = None
    coords: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.model, Model):
            raise TypeError("model must not be a srmc.Model itself; give all its parts at once")
        if self.model is None:
            raise TypeError("model must be a log density, a target or a model, got None")
        for name in ("dims", "coords"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, Mapping):
                raise TypeError(f"{name} must be a dictionary, got {value!r}")
        if isinstance(self.space, Mapping):
            check_spaces(self.space)
        elif self.space is not None and not isinstance(self.space, Space):
            raise TypeError(f"space must be srmc.Binary() or another space, got {self.space!r}")
        if self.differences is not None and not callable(self.differences):
            raise TypeError(f"differences must be a function of a state, got {self.differences!r}")
        own = self.own_space
        if self.differences is not None and own is None:
            raise ValueError("differences are for a discrete space; say which with space")
        if self.space is not None and own is not None and self.space != own:
            raise ValueError(f"space must be that of the target, {own}, got {self.space}")
        if self.feature is not None and own is None:
            raise ValueError(f"feature is for discrete spaces, got {self.feature!r} without one")

    @property
    def own_space(self) -> Space | None:
        """The discrete space of the model, if it has one."""
        if isinstance(self.model, Target):
            return self.model.space
        return self.space if isinstance(self.space, Space) else None

    @property
    def own_differences(self) -> Differences | None:
        """The one-site changes of the model, if it has any."""
        if self.differences is None and isinstance(self.model, Target):
            return self.model.differences
        return self.differences


def as_problem(model: Model, initial_position: Any = None) -> Problem:
    """A model of any kind that `srmc.sample` takes, as a log density with its starts.

    `initial_position` is a position, a list of one per chain, a function of a key, and for
    NumPyro and PyMC models "uniform" or "prior". A position of such a model has the values of its
    variables, by name.
    """
    if model.own_space is None:
        found = _continuous(model.model, initial_position, model.data)
    else:
        found = _discrete(model, model.own_space, initial_position)
    return found._replace(labels=given_labels(found.labels, model.dims, model.coords))


def _discrete(model: Model, space: Space, initial_position: Any) -> Problem:
    if isinstance(initial_position, str):
        raise ValueError(f"initial_position must be a state, got {initial_position!r}")
    density, like = model.model, None
    if isinstance(density, Target):
        name, like, density = density.name, density.position, density.logdensity_fn
    elif not callable(density):
        raise TypeError(f"model must be a log density or a target on {space}, got {density!r}")
    elif initial_position is None:
        raise ValueError(
            "initial_position must be given for a log density: a state, a list of one for "
            "each chain, or a function of a key"
        )
    else:
        name, density = _name(density), _pinned(density, initial_position)
    starts = lambda key, n: find_states(density, space, initial_position, like, key, n)
    return Problem(name, density, starts, name_leaves)


def _continuous(model: Any, initial_position: Any, data: Any) -> Problem:
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
        found = Problem(model.name, model.logdensity_fn, scattered, model.values or name_leaves)
    elif is_pymc:
        found = from_pymc(model, initial_position)
    elif is_bambi(model):
        found = from_bambi(model, initial_position)
    elif is_stan(model):
        found = from_stan(model)
    elif not callable(model):
        raise TypeError(
            "model must be a log density, a target, or a model of NumPyro, PyMC, Bambi or "
            f"BridgeStan, got {model!r}"
        )
    elif is_text and data is None and not has_sites(model):
        raise ValueError(
            f"initial_position={initial_position!r} is for models of NumPyro and PyMC; for a "
            "NumPyro model with arguments, give data"
        )
    elif data is not None or has_sites(model):
        found = from_numpyro(model, data, initial_position)
    elif initial_position is None:
        raise ValueError(
            "initial_position must be given for a log density: a position, a list of one for each "
            "chain, or a function of a key; for a NumPyro model with arguments, give data"
        )
    else:
        density = _pinned(model, initial_position)
        found = Problem(_name(model), density, _never, name_leaves)
    if initial_position is None or is_text:
        return found
    given = initial_position
    if found.inverse is not None:
        given = _each(lambda values: _unconstrained(found, values), given)
    density = found.logdensity_fn
    return found._replace(starts=lambda key, n: find_starts(density, given, key, n))


def _name(model: Any) -> str:
    return str(getattr(getattr(model, "func", model), "__name__", "model"))


def _pinned(density: Any, initial_position: Any) -> Any:
    """A log density that is identified by its jaxpr at the start of the chains; see `pinned`."""
    try:
        one = initial_position[0] if isinstance(initial_position, list) else initial_position
        if callable(one):
            one = jax.eval_shape(one, jax.random.key(0))
        else:
            one = jax.tree.map(lambda x: jnp.asarray(x, float), one)
    except Exception:  # an invalid start, for which `find_starts` raises
        return density
    return pinned(density, one)


def _each(change: Callable[[Any], Any], initial_position: Any) -> Any:
    """A start, a list of starts or a function that draws one, with each start changed."""
    if callable(initial_position):
        return lambda key: change(initial_position(key))
    if isinstance(initial_position, list):
        return [change(position) for position in initial_position]
    return change(initial_position)


def _unconstrained(problem: Problem, values: Any) -> Any:
    """A start that is given as values of the model's variables, in unconstrained space.

    PyMC's names of transformed variables, such as `tau_log__`, stand for themselves.
    """
    inverse = problem.inverse
    assert inverse is not None
    wanted = ", ".join(inverse.names)
    if not isinstance(values, Mapping):
        raise TypeError(f"initial_position must be values by name, of {wanted}, got {values!r}")
    if set(values) != set(inverse.names):
        try:
            jax.eval_shape(problem.logdensity_fn, dict(values))
        except Exception as error:
            raise ValueError(
                f"initial_position must have values of {wanted}, got {', '.join(values)}"
            ) from error
        return dict(values)
    given = {name: jnp.asarray(values[name], float) for name in inverse.names}
    for name, shape in inverse.shapes.items():
        if given[name].shape != shape:
            raise ValueError(
                f"initial_position of {name} must have shape {shape}, got {given[name].shape}"
            )
    outside = (
        "initial_position must be values of the model's variables inside their supports, got "
        f"{dict(values)!r}"
    )
    try:
        found = inverse.unconstrain(given)
    except ValueError as error:  # NumPyro checks the parameters of distributions
        raise ValueError(f"{outside}: {error}") from None
    if is_concrete(found) and not all_finite(found):
        raise ValueError(outside)
    return found


def _never(*_: Any) -> Any:
    raise AssertionError("a log density starts from its initial_position")
