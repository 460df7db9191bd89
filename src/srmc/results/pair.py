"""A modulator and a coordinate that follows it: in the model's parameters, and as sampled."""

from typing import NamedTuple

import numpy as np

from srmc.results.blocks import blocks
from srmc.results.result import Result
from srmc.types import Float

POINTS = 1000  # points per panel


class Pair(NamedTuple):
    """The names of both, and draws of the plain chains (draw, 2) in either coordinates."""

    names: tuple[str, str]
    before: Float[np.ndarray, "draw 2"]
    after: Float[np.ndarray, "draw 2"]


def pair_of(result: Result) -> Pair | None:
    """The pair with the strongest effect, if coordinates were learned and draws were kept."""
    places = result.about.get("coordinates", {}).get("pair")
    u = (result.kept.scored or {}).get("position")
    draws = result.base or result.kept.draws
    if not places or u is None or draws is None:
        return None
    known = {
        name: block[..., k]
        for whole, array in draws.items()
        for names, block in blocks(whole, array)
        for k, name in enumerate(names)
        if name in places
    }
    if len(known) < 2:  # the model has them in other shapes than the sampler
        return None
    first, second = places
    before = np.stack([known[first], known[second]], axis=-1)
    after = np.asarray(u, float)[..., [places[first], places[second]]]
    return Pair((first, second), _thinned(before), _thinned(after))


def _thinned(x: Float[np.ndarray, "chain draw 2"]) -> Float[np.ndarray, "draw 2"]:
    rows = x.reshape(-1, 2)
    return rows[:: -(-len(rows) // POINTS)]
