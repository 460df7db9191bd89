"""With alpha=0 a step is the base kernel's: the same operations, whatever is compiled of them."""

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc
from srmc.kernels.plain import ula

TARGETS = {
    "gaussian": srmc.targets.gaussian(),
    "logistic": srmc.targets.logistic(),
    "funnel": srmc.targets.funnel(),
    "student": srmc.targets.student_t(5),
}
# The plain kernel as we build it, and the base kernel as BlackJAX does, of a density and its d.
PAIRS = {
    "mh": (
        lambda f, d: srmc.mh(f, 0.05, alpha=0.0),
        lambda f, d: blackjax.additive_step_random_walk.normal_random_walk(f, 0.05),
    ),
    "mala": (lambda f, d: srmc.mala(f, 0.05, alpha=0.0), lambda f, d: blackjax.mala(f, 0.05)),
    "ula": (
        lambda f, d: srmc.ula(f, 0.05, alpha=0.0),
        lambda f, d: ula(f, 0.05),
    ),
    "hmc": (
        lambda f, d: srmc.hmc(f, 0.1, 4, alpha=0.0),
        lambda f, d: blackjax.hmc(f, 0.1, jnp.ones(d), 4),
    ),
    "nuts": (
        lambda f, d: srmc.nuts(f, 0.2, alpha=0.0),
        lambda f, d: blackjax.nuts(f, 0.2, jnp.ones(d)),
    ),
}
WITH_LOOPS = ("hmc", "nuts")


# Every kernel on one target, and every target with one kernel.
ON_ONE = [("logistic", name) for name in PAIRS]
BY_ONE = [(where, "mala") for where in TARGETS if where != "logistic"]


def density_and_start(where):
    found = TARGETS[where]
    return found.logdensity_fn, jnp.full(found.position.shape, 0.3)


@pytest.mark.parametrize(("where", "name"), [*ON_ONE, *BY_ONE])
def test_op_by_op_the_draws_are_the_same_bit_for_bit(where, name):
    density, start = density_and_start(where)
    plain, base = (build(density, start.size) for build in PAIRS[name])
    state, expected = plain.init(start), base.init(start)
    for n in range(2 if name in WITH_LOOPS else 6):
        with jax.disable_jit(name in WITH_LOOPS):  # which would be compiled otherwise
            state, _ = plain.step(jax.random.key(n), state)
            expected, _ = base.step(jax.random.key(n), expected)
        np.testing.assert_array_equal(state.position, expected.position)
    assert np.any(np.asarray(state.position) != np.asarray(start))


@pytest.mark.parametrize(("where", "name"), [*ON_ONE, *BY_ONE])
def test_compiled_they_are_the_same_up_to_rounding(where, name):
    """From each state of a compiled chain, both take the same step."""
    density, start = density_and_start(where)
    plain, base = (build(density, start.size) for build in PAIRS[name])

    @jax.jit
    def run(state):
        def one(state, key):
            ours, _ = plain.step(key, state)
            theirs, _ = base.step(key, state.inner_state)
            return ours, (ours.position, theirs.position)

        return jax.lax.scan(one, state, jax.random.split(jax.random.key(0), 50))[1]

    ours, theirs = run(plain.init(start))
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
