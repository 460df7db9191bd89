"""Parallel tempering: exact at all temperatures, counted, and a kernel like any other."""

import functools
import re
from pathlib import Path

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import srmc
from helpers import SHAPES, log_gamma, short_chain
from srmc.kernels import find_temperatures

HEAT = (1.0, 2.0, 4.0)
HMC = {
    "kernel": blackjax.hmc,
    "step_size": 0.5,
    "inverse_mass_matrix": np.ones(1, np.float32),
    "num_integration_steps": 3,
}
NUTS = {"step_size": 0.4, "inverse_mass_matrix": np.ones(1, np.float32)}
KERNELS = {
    "hmc": HMC,
    "nuts": NUTS,
    "mala": {"kernel": blackjax.mala, "step_size": 0.2},
    "swaps alone": {"kernel": blackjax.mala, "step_size": 1e-6},
    "rmh": {"kernel": blackjax.additive_step_random_walk.normal_random_walk, "sigma": 0.8},
    "ghmc": {
        "kernel": functools.partial(blackjax.ghmc, alpha=0.5),
        "step_size": 0.4,
        "momentum_inverse_scale": np.ones(2, np.float32),
        "delta": 0.2,
    },
    "dynamic_hmc": {"kernel": blackjax.dynamic_hmc} | NUTS,
}
# Two modes, 10 standard deviations apart: skewed, since one is wide and heavy.
WEIGHTS, CENTRES, WIDTHS = np.array([0.3, 0.7]), np.array([-5.0, 5.0]), np.array([0.5, 1.5])


def two_modes(x):
    parts = jnp.log(WEIGHTS / WIDTHS) - 0.5 * ((x[0] - CENTRES) / WIDTHS) ** 2
    return jax.nn.logsumexp(parts).astype(x.dtype)


@pytest.mark.parametrize("name", KERNELS)
def test_every_level_keeps_its_distribution(name):
    """If exp(x) ~ Gamma(a), then under pi^(1/T) it is T Gamma(a / T); levels are independent."""
    n, steps = 4000, 20
    algorithm = srmc.tempering(log_gamma, HEAT, **KERNELS[name])

    def one(key):
        x_key, init_key, run_key = jax.random.split(key, 3)
        heat = jnp.array(HEAT)[:, None]
        x = jnp.log(heat) + jax.random.loggamma(x_key, SHAPES[None] / heat)
        states = jax.vmap(algorithm.init, in_axes=(0, None))(x, init_key)
        level = jnp.arange(len(HEAT))  # of the state that starts at the draw for this level
        levels = jax.tree.map(lambda leaf: leaf[level, level], states.levels)
        start = jax.tree.map(lambda leaf: leaf[0], states)._replace(levels=levels)
        step = lambda state, k: (algorithm.step(k, state)[0], None)
        return jax.lax.scan(step, start, jax.random.split(run_key, steps))[0]

    ends = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(0), n))
    x = np.asarray(ends.levels.position, float)
    for level, t in enumerate(HEAT):
        for i, shape in enumerate(SHAPES):
            law = stats.loggamma(shape / t, loc=np.log(t))
            assert stats.kstest(x[:, level, i], law.cdf).pvalue > 1e-4, (level, i)
    assert np.all(np.abs(np.corrcoef(x[:, :, 0].T)[0, 1:]) < 5 / np.sqrt(n))
    np.testing.assert_array_equal(ends.position, ends.levels.position[:, 0])
    logs = jax.vmap(jax.vmap(log_gamma))(ends.levels.position) / np.array(HEAT)[None]
    np.testing.assert_allclose(ends.levels.logdensity, logs, rtol=1e-4, atol=1e-4)
    if hasattr(ends.levels, "logdensity_grad"):
        scores = jax.vmap(jax.grad(log_gamma))(ends.position)
        np.testing.assert_allclose(ends.logdensity_grad, scores, rtol=1e-4, atol=1e-4)
    assert np.all(np.mean(ends.replica != np.arange(len(HEAT))[None], axis=0) > 0.1)


def test_it_finds_the_weights_of_two_modes_where_the_plain_kernel_stays_in_one():
    start, keys = jnp.full(1, -5.0), jax.random.split(jax.random.key(1), 32)
    keep = lambda state, info: (state.position[0], state.replica)
    tempered = srmc.tempering(two_modes, np.geomspace(1, 30, 7), **HMC)
    over = jax.vmap(lambda key: short_chain(tempered, key, start, 4000, keep)[1])
    x, replica = (np.asarray(a)[:, 500:] for a in over(keys))
    right = np.mean(x > 0, axis=1)
    error = right.std(ddof=1) / np.sqrt(len(keys))
    assert error < 0.03
    assert abs(right.mean() - 0.7) < 4 * error
    wide = np.array([np.quantile(run[run > 0], [0.1, 0.5, 0.9]) for run in x])
    expected = stats.norm(5, 1.5).ppf([0.1, 0.5, 0.9])
    z = (wide.mean(axis=0) - expected) / (wide.std(axis=0, ddof=1) / np.sqrt(len(keys)))
    assert np.all(np.abs(z) < 5), z
    assert set(np.unique(replica[:, :, 0])) == set(range(7))  # every replica has been the cold one
    arguments = {k: v for k, v in HMC.items() if k != "kernel"}
    plain = blackjax.hmc(two_modes, **arguments)
    plain = plain._replace(init=lambda x, key, init=plain.init: init(x))
    stuck = short_chain(plain, keys[0], start, 4000, lambda state, info: state.position[0])[1]
    assert np.all(stuck < 0)


def test_gradients_are_counted():
    seen = []

    def counted(x):
        jax.debug.callback(lambda _: seen.append(1), x[0])
        return log_gamma(x)

    algorithm = srmc.tempering(counted, HEAT, **HMC)
    state = algorithm.init(jnp.ones(2))
    jax.effects_barrier()
    seen.clear()
    _, info = algorithm.step(jax.random.key(0), state)
    jax.effects_barrier()
    assert len(seen) == info.num_gradients == len(HEAT) * 3

    plain = srmc.tempering(log_gamma, HEAT, **NUTS)
    _, info = jax.jit(plain.step)(jax.random.key(0), plain.init(jnp.ones(2)))
    assert info.num_gradients == np.sum(info.inner_info.num_integration_steps)
    for options, more in (({"alpha": 0.0}, 0), ({"alpha": 1.0}, 1)):
        for arguments in (HMC, NUTS):
            repelled = srmc.repel(srmc.tempering, log_gamma, HEAT, **options, **arguments)
            _, info = jax.jit(repelled.step)(jax.random.key(0), repelled.init(jnp.ones(2)))
            assert info.gradients == info.inner_info.num_gradients + more


@pytest.mark.parametrize("name", ["hmc", "rmh"])
def test_alpha_zero_and_the_moving_base_chain_are_the_tempered_chain(name):
    def positions(algorithm, keep):
        state, kept = algorithm.init(jnp.ones(2)), []
        for n in range(4):
            state, _ = algorithm.step(jax.random.key(n), state)
            kept.append(keep(state))
        return np.array(kept)

    tempered = srmc.tempering(log_gamma, HEAT, **KERNELS[name])
    expected = positions(tempered, lambda s: s.position)
    repel = functools.partial(srmc.repel, srmc.tempering, log_gamma, HEAT, **KERNELS[name])
    np.testing.assert_array_equal(positions(repel(alpha=0.0), lambda s: s.position), expected)
    moving = repel(alpha=5.0, gain=srmc.gain(0.8, delay=9))
    moved = positions(moving, lambda s: (s.position, s.inner_state.position))
    np.testing.assert_array_equal(moved[:, 1], expected)
    assert np.abs(moved[:, 0] - expected).max() > 0.01


def test_its_draws_can_be_rebalanced():
    algorithm = srmc.tempering(log_gamma, HEAT, **HMC)
    keep = lambda state, info: (state.position, state.logdensity_grad)
    over = jax.vmap(lambda key: short_chain(algorithm, key, jnp.ones(2), 600, keep)[1])
    draws, scores = over(jax.random.split(jax.random.key(3), 4))
    moved = srmc.rebalance(draws, jax.grad(log_gamma), scores=scores, progress=False)
    before, after = (
        np.abs(np.mean(jax.vmap(jax.vmap(jax.grad(log_gamma)))(x), axis=(0, 1)))
        for x in (draws, moved)
    )
    assert moved.shape == draws.shape
    assert np.linalg.norm(after) < 0.5 * np.linalg.norm(before)


def test_temperatures_may_be_traced_and_the_log_density_is_not_traced_again():
    traces = []

    def logdensity(x):
        traces.append(1)
        return log_gamma(x)

    @jax.jit
    def run(heat, key):
        algorithm = srmc.tempering(logdensity, heat, **HMC)
        one = lambda state, k: algorithm.step(k, state)
        return jax.lax.scan(one, algorithm.init(jnp.ones(2)), jax.random.split(key, 5))[1]

    run(jnp.array(HEAT), jax.random.key(0))
    size = len(traces)
    assert size <= 12
    run(jnp.array([1.0, 3.0, 9.0]), jax.random.key(1))
    assert len(traces) == size


def test_a_proposal_that_is_not_finite_is_refused_and_counted():
    wall = lambda x: jnp.where(x[0] > 1.1, jnp.nan, -0.5 * jnp.sum(x**2))
    algorithm = srmc.tempering(wall, HEAT, blackjax.mala, step_size=0.5)
    keep = lambda state, info: (state.levels, info.is_finite)
    _, (levels, is_finite) = short_chain(algorithm, jax.random.key(0), jnp.ones(2), 200, keep)
    assert np.all(np.isfinite(levels.position))
    assert np.all(np.isfinite(levels.logdensity))
    assert 0 < np.mean(is_finite) < 1


def test_found_temperatures_refuse_about_half_of_the_swaps():
    """For a Gaussian in d dimensions the barrier from 1 to T grows as log T sqrt(d)."""
    logp = lambda x: -0.5 * jnp.sum(x**2)
    found = {}
    for dim in (2, 20):
        arguments = HMC | {"step_size": 0.7}
        found[dim] = find_temperatures(
            jax.random.key(0), logp, jnp.zeros(dim), 50.0, rounds=3, num_steps=400, **arguments
        )
        assert found[dim][0] == 1
        assert found[dim][-1] == 50
        algorithm = srmc.tempering(logp, found[dim], **arguments)
        keep = lambda state, info: info.swap_rate
        rates = short_chain(algorithm, jax.random.key(1), jnp.zeros(dim), 800, keep)[1]
        rates = np.mean(rates[200:], axis=0)
        assert np.all((rates > 0.35) & (rates < 0.75)), rates
    assert len(found[20]) > 2 * len(found[2])


@pytest.mark.parametrize(
    ("temperatures", "match"),
    [
        ([], "hold one number"),
        ([2.0, 4.0], "begin with 1"),
        ([1.0, 1.0], "increase"),
        ([1.0, np.inf], "finite"),
        ([[1.0, 2.0]], "increase"),
    ],
)
def test_bad_temperatures_are_named(temperatures, match):
    with pytest.raises(ValueError, match=f"temperatures must.*{match}"):
        srmc.tempering(log_gamma, temperatures, **HMC)


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="step_size must be"):
        srmc.tempering(log_gamma, HEAT, blackjax.mala, step_size=-1.0)
    with pytest.raises(TypeError, match="stepsize"):
        srmc.tempering(log_gamma, HEAT, blackjax.mala, step_size=0.1, stepsize=0.1)
    with pytest.raises(ValueError, match="finite at the start"):
        srmc.tempering(lambda x: x[0] * jnp.nan, HEAT, **HMC).init(jnp.ones(2))
    with pytest.raises(TypeError, match="floating point"):
        srmc.tempering(log_gamma, HEAT, **HMC).init(jnp.ones(2, int))
    with pytest.raises(ValueError, match="hottest must be"):
        find_temperatures(jax.random.key(0), log_gamma, jnp.ones(2), 1.0, **HMC)
    fixed = srmc.repel(srmc.tempering, log_gamma, HEAT, alpha=1.0, frame="fixed", **HMC)
    with pytest.raises(ValueError, match="frame must be 'moving' for tempering"):
        fixed.step(jax.random.key(0), fixed.init(jnp.ones(2)))


def test_the_page_runs():
    page = (Path(__file__).parents[2] / "docs" / "howto" / "tempering.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    scope: dict = {}
    exec(block, scope)
    assert scope["info"].num_gradients == 4 * len(scope["temperatures"])
