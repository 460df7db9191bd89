"""The reported number of gradients is what an instrumented log density sees."""

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc
from helpers import KERNELS, MODES, log_gamma

L = 7


def spent(build, options, steps=10):
    """Gradients and products that the steps report, and calls that the log density saw."""
    seen = []

    def counted(x):
        jax.debug.callback(lambda: seen.append(1))
        return log_gamma(x)

    algorithm = build(counted, **options)
    state = algorithm.init(jnp.ones(2), jax.random.key(0))
    step = jax.jit(algorithm.step)
    jax.block_until_ready(step(jax.random.key(0), state))
    jax.effects_barrier()
    seen.clear()
    gradients = hvps = 0
    for n in range(steps):
        state, info = step(jax.random.key(n), state)
        gradients, hvps = gradients + int(info.gradients), hvps + int(info.hvps)
    jax.effects_barrier()
    return gradients, hvps, len(seen)


def mala(f, **kw):
    return srmc.mala(f, 0.25, **kw)


def scaled(f, **kw):
    return srmc.mala(f, 0.25, scale=np.ones(2), **kw)


def ula(f, **kw):
    return srmc.ula(f, 0.1, **kw)


def uld(f, **kw):
    return srmc.uld(f, 0.1, **kw)


def hmc(f, **kw):
    return srmc.hmc(f, 0.3, L, **kw)


@pytest.mark.parametrize(
    ("build", "options", "per_ten_steps", "products"),
    [
        (mala, {"alpha": 0.0}, 10, 0),
        (mala, MODES["shift-fixed"], 30, 0),
        (mala, MODES["shift-moving"], 20, 0),
        (mala, MODES["shift-fixed"] | {"history_every": 5}, 14, 0),
        (mala, MODES["shift-moving"] | {"history_every": 5}, 12, 0),
        (mala, MODES["shift-moving"] | {"feedback_every": 5}, 12, 0),
        (mala, {"surrogate": srmc.tilt()}, 20, 20),
        (mala, {"surrogate": srmc.tilt("finite-difference")}, 30, 0),
        (mala, {"surrogate": srmc.tilt("finite-difference", central=True)}, 50, 0),
        (mala, {"surrogate": srmc.tilt("shifted")}, 30, 0),
        (mala, {"surrogate": srmc.tilt("finite-difference"), "history_every": 5}, 26, 0),
        (scaled, {"surrogate": srmc.tilt("finite-difference")}, 50, 0),
        (ula, {"surrogate": srmc.tilt()}, 20, 10),
        (ula, {"surrogate": srmc.tilt("finite-difference")}, 20, 0),
        (uld, {"surrogate": srmc.tilt("finite-difference")}, 30, 0),
        (hmc, {"alpha": 0.0}, 10 * L, 0),
        (hmc, MODES["shift-fixed"], 10 * (L + 2), 0),
        (hmc, MODES["shift-moving"], 10 * (L + 1), 0),
        (hmc, {"surrogate": srmc.tilt()}, 10 * (L + 2), 10 * (L + 1)),
    ],
)
def test_the_cost_of_a_step(build, options, per_ten_steps, products):
    options = {"alpha": 0.3} | options
    assert spent(build, options) == (per_ten_steps, products, per_ten_steps)


@pytest.mark.parametrize("mode", ["tilt", "shift-moving"])
@pytest.mark.parametrize("name", [name for name in KERNELS if name != "rmh"])
def test_reported_equals_seen_for_every_kernel(name, mode):
    gradients, _, seen = spent(KERNELS[name], {"alpha": 0.3} | MODES[mode])
    assert gradients == seen


def test_random_walks_take_gradients_for_the_history_alone():
    assert spent(KERNELS["rmh"], {"alpha": 0.0})[0] == 0
    assert spent(KERNELS["rmh"], {"alpha": 0.3} | MODES["shift-fixed"])[0] == 10
    assert spent(KERNELS["rmh"], {"alpha": 0.3} | MODES["tilt"])[0] == 30


def test_proposals_in_a_batch_are_all_counted():
    def multiple_try(logdensity_fn, step_size):
        base = blackjax.mala(logdensity_fn, step_size)

        def step(key, state):
            state, info = base.step(key, state)
            jax.vmap(jax.grad(logdensity_fn))(jnp.stack([state.position] * 4))
            return state, info

        return blackjax.SamplingAlgorithm(base.init, step)

    algorithm = srmc.repel(multiple_try, log_gamma, step_size=0.1, alpha=0.0)
    _, info = algorithm.step(jax.random.key(0), algorithm.init(jnp.ones(2)))
    assert int(info.gradients) == 5


def test_a_kernel_that_hides_its_loops_is_reported_as_unknown():
    def secretive(logdensity_fn, step_size):
        base = blackjax.nuts(logdensity_fn, step_size, jnp.ones(2))

        def step(key, state):
            return base.step(key, state)[0], None

        return blackjax.SamplingAlgorithm(base.init, step)

    algorithm = srmc.repel(secretive, log_gamma, step_size=0.3, alpha=0.3, surrogate=srmc.tilt())
    _, info = algorithm.step(jax.random.key(0), algorithm.init(jnp.ones(2)))
    assert int(info.gradients) == int(info.hvps) == -1
    assert np.all(np.isfinite(info.exponent))
