"""Parallel tempering on discrete spaces: exact at all temperatures, plain and repelled."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc
from enumerated import ALPHA, SPACES, normalised
from helpers import short_chain
from srmc.kernels import find_temperatures, plain

HEAT = (1.0, 2.5)
CHAIN = np.array([[0, 1], [1, 2]])
KERNELS = {
    "gwg": (plain.gwg, {}),
    "gwg, two sites": (plain.gwg, {"num_sites": 2}),
    "dlp": (plain.dlp, {"step_size": 0.7}),
    "dlmc": (plain.dlmc, {"step_size": 0.8}),
    "path": (plain.path_auxiliary, {"path_length": 1.3}),
    "gibbs": (plain.gibbs, {"scan": "systematic"}),
    "block": (plain.block_gibbs, {"graph": CHAIN[:1]}),
    "flip": (plain.flip_mh, {}),
    "balanced": (plain.locally_balanced, {}),
}
BENDS = {"plain": {"alpha": 0.0}, "sites": {"bend": "sites"}, "feature": {"bend": "feature"}}


def cases():
    yield from itertools.product(("categorical",), KERNELS, ("sites",))
    yield from itertools.product(("categorical",), ("gwg", "gibbs"), ("plain",))
    yield from itertools.product(("binary",), ("gwg", "path"), ("feature",))


@pytest.mark.parametrize(("where", "name", "bend"), list(cases()))
def test_every_level_keeps_its_distribution(where, name, bend):
    """From exact draws at all temperatures, many chains of some steps: a test of chi squared."""
    space, logdensity_fn, shape = SPACES[where]
    kernel, arguments = KERNELS[name]
    options = {"alpha": ALPHA, "feature": "gibbs", "gain": srmc.gain(scale=0.0)} | BENDS[bend]
    algorithm = srmc.repel(
        *(srmc.tempering, logdensity_fn, HEAT),
        **{"kernel": kernel, "space": space} | arguments | options,
    )
    states = jnp.asarray(space.all_states(shape), jnp.float32)
    theta = jnp.asarray(0.4 * np.random.default_rng(5).normal(size=states.shape[1:]), jnp.float32)
    look = jax.vmap(srmc.gwg(logdensity_fn, space, feature="gibbs", alpha=1.0).init)
    phi = np.asarray(look(states).feature)
    by = {"plain": 0 * phi, "sites": -np.asarray(states), "feature": phi}[bend]
    more = np.sum(np.asarray(theta) * by, axis=tuple(range(1, by.ndim)))
    log_pi = np.asarray(jax.vmap(logdensity_fn)(states)) - ALPHA * more
    laws = np.stack([normalised(log_pi / t) for t in HEAT])
    n, steps = 20_000, 8
    at_all = jax.vmap(lambda x: algorithm.init(x, theta=theta).inner_state.levels)(states)

    def one(key):
        draw_key, run_key = jax.random.split(key)
        chosen = jax.random.categorical(draw_key, jnp.log(laws), axis=1)
        levels = jax.tree.map(lambda leaf: leaf[chosen, jnp.arange(len(HEAT))], at_all)
        inner = algorithm.init(states[0], theta=theta).inner_state
        local = jax.tree.map(lambda leaf: leaf[0], levels.local)
        inner = inner._replace(position=levels.position[0], local=local, levels=levels)
        state = algorithm.init(states[0], theta=theta)
        state = state._replace(position=inner.position, inner_state=inner)
        step = lambda state, k: (algorithm.step(k, state)[0], None)
        return jax.lax.scan(step, state, jax.random.split(run_key, steps))[0]

    ends = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(1), n))
    digits = space.num_values ** np.arange(space.num_sites(states[0]))
    labels = jax.vmap(jax.vmap(space.labels))(ends.inner_state.levels.position)
    index = np.asarray(labels) @ digits
    for level, law in enumerate(laws):
        count = np.bincount(index[:, level], minlength=len(law))
        rare = law * n < 20
        count, expected = (np.append(x[~rare], x[rare].sum() + 1e-9) for x in (count, n * law))
        chi = np.sum((count - expected) ** 2 / np.maximum(expected, 1))
        assert chi < len(count) + 5 * np.sqrt(2 * len(count)), (level, chi)
    np.testing.assert_array_equal(ends.position, ends.inner_state.levels.position[:, 0])
    values = jax.vmap(logdensity_fn)(ends.position)
    np.testing.assert_allclose(ends.inner_state.local.logdensity, values, rtol=1e-4, atol=1e-4)
    assert np.mean(ends.inner_state.replica[:, 0]) > 0.1


BIMODAL = srmc.targets.ising(srmc.targets.lattice(4, 4), 0.7, 0.02)


@pytest.mark.parametrize("alpha", [0.0, 5.0])
def test_it_finds_the_weights_of_two_modes_where_the_plain_kernel_stays_in_one(alpha):
    space = BIMODAL.space
    states = jnp.asarray(space.all_states((16,)), jnp.float32)
    pi = normalised(np.asarray(jax.lax.map(BIMODAL.logdensity_fn, states, batch_size=4096)))
    weight = float(pi @ (np.asarray(states).mean(axis=1) > 0.5))
    assert 0.6 < weight < 0.75
    given = {"kernel": plain.gwg, "space": space}
    key, start = jax.random.key(0), jnp.zeros(16)
    found = find_temperatures(key, BIMODAL.logdensity_fn, start, 6.0, num_steps=500, **given)
    options = {"alpha": alpha, "gain": srmc.gain(0.8, scale=0.02)}
    tempered = srmc.repel(srmc.tempering, BIMODAL.logdensity_fn, found, **given, **options)
    keep = lambda state, info: (jnp.mean(state.position) > 0.5, info.inner_info.swap_rate)
    run = jax.jit(jax.vmap(lambda key: short_chain(tempered, key, start, 6000, keep)[1]))
    up, rate = run(jax.random.split(jax.random.key(1), 48))
    share = np.mean(up[:, 1000:], axis=1)
    error = share.std(ddof=1) / np.sqrt(len(share))
    assert error < 0.02
    assert abs(share.mean() - weight) < 4 * error
    assert np.all(np.abs(np.mean(rate[:, 1000:], axis=(0, 1)) - 0.55) < 0.25)
    alone = srmc.gwg(BIMODAL.logdensity_fn, space, alpha=0.0)
    stuck = short_chain(alone, key, start, 2000, lambda state, _: jnp.mean(state.position))[1]
    assert np.mean(stuck > 0.5) < 0.2


def test_plain_tempering_is_repelled_tempering_with_alpha_zero():
    given = {"kernel": plain.path_auxiliary, "space": BIMODAL.space, "path_length": 2.0}
    ways = (
        srmc.tempering(BIMODAL.logdensity_fn, HEAT, **given),
        srmc.repel(srmc.tempering, BIMODAL.logdensity_fn, HEAT, alpha=0.0, **given),
    )
    keys = jax.random.split(jax.random.key(0), 50)
    runs = []
    for algorithm in ways:
        one = lambda state, key, step=algorithm.step: 2 * (step(key, state)[0],)
        runs.append(jax.lax.scan(one, algorithm.init(jnp.zeros(16)), keys)[1].position)
    np.testing.assert_array_equal(*runs)
    _, info = ways[0].step(keys[0], ways[0].init(jnp.zeros(16)))
    assert info.evaluations == len(HEAT)
    assert info.acceptance_rate == info.inner_info.acceptance_rate[0]


def test_bad_arguments_are_named():
    f, space = BIMODAL.logdensity_fn, BIMODAL.space
    with pytest.raises(ValueError, match=r"kernel must be of srmc.kernels.plain on Binary\(\)"):
        srmc.tempering(f, HEAT, srmc.gwg, space=space)
    with pytest.raises(TypeError, match="space must be"):
        srmc.tempering(f, HEAT, plain.gwg)
    with pytest.raises(ValueError, match="temperatures must"):
        srmc.tempering(f, [2.0], plain.gwg, space=space)
    with pytest.raises(ValueError, match="surrogate is for kernels that are not tempered"):
        srmc.repel(srmc.tempering, f, HEAT, kernel=plain.gwg, space=space, surrogate=srmc.tilt())
