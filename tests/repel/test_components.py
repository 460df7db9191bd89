"""The components of Algorithm 1 are frozen pytrees: data are leaves, and structure is hashable."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc
from helpers import log_gamma
from srmc.repel import Strength, affine, along, combined, scalings, shears, translations

COMPONENTS = {
    "fixed": srmc.fixed(2.0),
    "gain_limited": srmc.gain_limited(2.0),
    "watched": srmc.watched(srmc.capped(2.0, 1000)),
    "guarded": srmc.guarded(2.0, 1000, safe="window"),
    "gain": srmc.gain(0.8),
    "shift": srmc.shift(jnp.eye(2)),
    "tilt": srmc.tilt("finite-difference", eps="alpha", preconditioner=2.0),
    "along": along(affine(jnp.ones(2), full=True), (jnp.ones((2, 2)), jnp.ones(2))),
    "combined": combined(scalings(), shears(), translations(jnp.ones(2), limit=1.0)),
}


@pytest.mark.parametrize("name", COMPONENTS)
def test_a_component_is_its_leaves_and_a_hashable_structure(name):
    component = COMPONENTS[name]
    leaves, structure = jax.tree.flatten(component)
    assert all(isinstance(leaf, float | int | jax.Array) for leaf in leaves)
    hash(structure)
    again = jax.tree.unflatten(structure, leaves)
    assert type(again) is type(component)
    jax.tree.map(np.testing.assert_array_equal, again, component)
    first = dataclasses.fields(component)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(component, first, None)


def test_components_may_be_arguments_of_a_compiled_function():
    """One program serves for other numbers in the same structure."""
    traced = []

    @jax.jit
    def one(strength, surrogate, key):
        traced.append(1)
        algorithm = srmc.mala(log_gamma, 0.1, alpha=strength, surrogate=surrogate)
        return algorithm.step(key, algorithm.init(jnp.ones(2), theta=jnp.ones(2)))[0].position

    key = jax.random.key(0)
    found = [
        one(srmc.fixed(a), srmc.shift(jnp.full(2, b)), key) for a in (0.1, 1.0) for b in (1, 2.0)
    ]
    assert len(traced) == 2  # for whole numbers, and for others
    assert len({tuple(np.asarray(x)) for x in found}) > 1


def test_a_schedule_may_be_a_class():
    class Halved(Strength):
        most = 1.0

        def init(self):
            return jnp.ones(()), ()

        def update(self, state, seen):
            return 0.5 ** seen.step.astype(float), state

    algorithm = srmc.mala(log_gamma, 0.1, alpha=Halved())
    state = algorithm.init(jnp.ones(2))
    for n in range(3):
        assert float(state.alpha) == pytest.approx(0.5**n)
        state, _ = algorithm.step(jax.random.key(n), state)
