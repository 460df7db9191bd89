"""Warm-up that learns coordinates: a pilot in x, a fit, a stretch in u, a fit, the rest in u."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.tree_util import Partial

from srmc._programs import over_rows
from srmc.coordinates import Coordinates, learn_coordinates
from srmc.models.problem import Problem, name_leaves
from srmc.results.blocks import labels
from srmc.results.kept import Kept
from srmc.sample.plan import LEAST_WARMUP, Plan
from srmc.sample.task import first_of, unraveller
from srmc.types import Array, Float, LogDensity, Position, Scalar

PILOT = 0.4
"""Share of warm-up after which coordinates are learned from its second half."""

STRETCH = 0.2
"""Share of warm-up in the first map, before another is fitted: the pilot of a funnel was hardly in
its neck."""


class Pilot(NamedTuple):
    """Late draws of a warm-up and their scores, (chain, draw, d), last positions, and the cost."""

    draws: Float[np.ndarray, "chain draw d"]
    scores: Float[np.ndarray, "chain draw d"]
    positions: Position
    gradients: int


def is_open(plan: Plan, dim: int, shared: bool) -> bool:
    """Whether coordinates are to be learned, or tried; `shared` says if warm-up can just go on."""
    if plan.coordinates == "plain" or plan.space is not None or dim < 2:
        return False
    if plan.chains is not None:
        return False  # each would learn its own, in which the others could not be rebalanced
    if plan.coordinates == "learned":
        return True
    return shared and plan.rebalances(dim) and plan.num_warmup >= 2 * LEAST_WARMUP


def learned(plan: Plan, pilot: Pilot, names: tuple[str, ...] = ()) -> Coordinates | None:
    """The coordinates that a pilot shows, in a shape that another fit will most likely have."""
    always = plan.coordinates == "learned"
    found = learn_coordinates(pilot.draws, pilot.scores, names=names, always=always)
    if found.is_identity:
        return None
    q = int(found.modulators.size)
    return found.padded(max(2, 1 << (q - 1).bit_length()))


def in_coordinates(problem: Problem, found: Coordinates, positions: Position) -> Problem:
    """The problem whose positions are vectors u; values stay what they are."""
    unravel = unraveller(first_of(positions))
    bare = dataclasses.replace(found, names=())
    return problem._replace(
        logdensity_fn=Partial(_density, problem.logdensity_fn, unravel, bare),
        values=Partial(_values, problem.values, unravel, bare),
    )


def moved(found: Coordinates, positions: Position) -> np.ndarray:
    """Positions (chain, ...) as vectors u."""
    x = jax.vmap(lambda position: ravel_pytree(position)[0])(positions)
    return np.asarray(found.forward(x))


def as_pilot(found: Coordinates, pilot: Pilot, positions: Position) -> Pilot:
    """A pilot in u as one in x, whose positions have the structure of `positions`."""
    back = over_rows(Partial(_back, dataclasses.replace(found, names=())))
    rows = lambda a: jnp.asarray(a).reshape(-1, a.shape[-1])
    x, s, _ = back((rows(pilot.draws), rows(pilot.scores)))
    unravel = unraveller(first_of(positions))
    last = jax.vmap(unravel)(found.inverse(jnp.asarray(pilot.positions)))
    as_chains = lambda a: np.asarray(a).reshape(pilot.draws.shape)
    return pilot._replace(draws=as_chains(x), scores=as_chains(s), positions=last)


def in_model(found: Coordinates, kept: Kept) -> Kept:
    """What was kept in learned coordinates, with the model's scores and log density."""
    scored = kept.scored or {}
    if "score" not in scored:
        return kept
    back = over_rows(Partial(_back, dataclasses.replace(found, names=())))
    u, s = (np.asarray(scored[name]) for name in ("position", "score"))
    rows = lambda a: jnp.asarray(a).reshape(-1, a.shape[-1])
    _, score, total = back((rows(u), rows(s)))
    more = {"model_score": np.asarray(score).reshape(s.shape)}
    stats = dict(kept.stats)
    if stats["lp"].shape == u.shape[:2]:
        change = np.asarray(total).reshape(u.shape[:2])
        stats["lp"] = stats["lp"] - change
        if "energy" in stats:  # -lp and the kinetic energy, which stays
            stats["energy"] = stats["energy"] + change
    return kept._replace(scored={**scored, **more}, stats=stats)


def coordinate_names(positions: Position) -> tuple[str, ...]:
    """The names of the unconstrained coordinates."""
    names: list[str] = []
    for name, leaf in name_leaves(first_of(positions)).items():
        names += [label for label, _ in labels(name, np.shape(leaf))]
    return tuple(names)


def lengths(num_warmup: int) -> tuple[int, int, int]:
    """The steps of the pilot, of the stretch in the first map, and of the rest."""
    pilot, stretch = (round(share * num_warmup) for share in (PILOT, STRETCH))
    if stretch < LEAST_WARMUP:
        pilot, stretch = num_warmup // 2, 0
    return pilot, stretch, num_warmup - pilot - stretch


def described(found: Coordinates | None) -> dict[str, Any]:
    """What a result says about them."""
    if found is None:
        return {"kind": "plain"}
    before, after = (float(value) for value in np.asarray(found.divergence))
    about: dict[str, Any] = {
        "kind": "learned",
        "divergence": [before, after],
        "found": [str(effect) for effect in found.table],
    }
    if found.table:
        first = found.table[0]
        names = first.modulator, first.of[0]
        about["pair"] = {name: found.names.index(name) for name in names}
    return about


def _density(logdensity_fn: LogDensity, unravel: Any, c: Coordinates, u: Array) -> Scalar:
    x, total = c.inverse_and_log_determinant(u)
    return logdensity_fn(unravel(x)) + total


def _values(values: Any, unravel: Any, c: Coordinates, u: Array) -> dict[str, Array]:
    return values(unravel(c.inverse_and_log_determinant(u)[0]))


def _back(c: Coordinates, pair: tuple[Array, Array]) -> tuple[Array, Array, Array]:
    """The draw and its score in x, and log |det dx/du|."""
    return *c.of_scores(*pair), c.inverse_and_log_determinant(pair[0])[1]
