"""Bambi models: PyMC models, with the intercepts that Bambi reports."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from srmc.models.problem import Inverse, Problem
from srmc.models.pymc import from_pymc
from srmc.types import Array, Position


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

    Its PyMC model has the intercepts of centred predictors, and Bambi's traces those of the
    original predictors.
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
