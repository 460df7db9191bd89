"""What warm-up missed: the guard, and bounds on moves, keep draws near those of the plain chain."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import helpers
import srmc
from helpers import MEAN, VARIANCE, log_gamma
from srmc.sample.tune import measure
from srmc.sample.tune.measure import settings


def run(algorithm, positions, steps, seed=0):
    draws, stats, _ = helpers.run(algorithm, jax.random.key(seed), positions, steps)
    return draws, stats


@functools.cache
def loop_of(logdensity_fn, start, steps=400):
    """The loop as it is measured on plain NUTS, from four chains."""
    positions = jnp.tile(jnp.asarray(start, float), (4, 1))
    draws = jnp.asarray(run(srmc.nuts(logdensity_fn, 0.5, alpha=0.0), positions, steps)[0])
    scores = jax.vmap(jax.vmap(jax.grad(logdensity_fn)))(draws)
    return measure.measure(draws, scores, 1000)


@pytest.mark.parametrize(
    ("build", "options"),
    [(srmc.nuts, {}), (srmc.mala, {"feedback_every": 20}), (srmc.mh, {})],
    ids=["nuts", "mala", "mh"],
)
def test_a_metric_that_is_off_by_ten(build, options):
    loop = loop_of(log_gamma, tuple(MEAN))
    starts = jnp.tile(jnp.asarray(MEAN, float), (32, 1))
    base, _ = run(build(log_gamma, 0.5, alpha=0.0), starts, 1000)
    every = 10 if build is srmc.mh else 1

    @jax.jit
    def repelled(factor):
        wrong = loop._replace(root=factor * loop.root)
        tuned = settings(wrong, 1000, history_every=every)
        algorithm = build(log_gamma, 0.5, **tuned, **options)
        keys = jax.random.split(jax.random.key(0), 32)
        one = lambda states, key: (
            2 * (jax.vmap(algorithm.step)(jax.random.split(key, 32), states)[0],)
        )
        _, states = jax.lax.scan(
            one, jax.vmap(algorithm.init)(starts, keys), jax.random.split(jax.random.key(1), 1000)
        )
        return jnp.swapaxes(states.position, 0, 1)

    for factor in (0.1, 10.0):
        draws = np.asarray(repelled(factor))
        assert np.all(np.isfinite(draws))
        off, plain = (np.mean((x.mean(axis=1) - MEAN) ** 2 / VARIANCE) for x in (draws, base))
        assert off < 2 * plain
        spread = draws.var(axis=(0, 1)) / VARIANCE
        assert np.all((spread > 0.7) & (spread < 1.4)), spread


def test_a_mode_found_later():
    """Warm-up saw the narrow mode alone; the wide one, a hundred times as heavy, comes later."""

    def two_modes(x):
        narrow = -0.5 * jnp.sum(x**2) / 0.05**2 - 2 * jnp.log(0.05) - jnp.log(100.0)
        wide = -0.5 * jnp.sum((x - 0.5) ** 2)
        return jnp.logaddexp(narrow, wide)

    narrow = lambda x: -0.5 * jnp.sum(x**2) / 0.05**2
    loop = loop_of(narrow, (0.0, 0.0))
    algorithm = srmc.nuts(two_modes, 0.7, **settings(loop, 1000))
    starts = 0.5 + jax.random.normal(jax.random.key(5), (48, 2))
    draws, _ = run(algorithm, starts, 1000)
    assert np.all(np.isfinite(draws))
    assert np.max(np.abs(draws.mean(axis=(0, 1)) - 0.495)) < 0.03
    np.testing.assert_allclose(draws.var(axis=(0, 1)), 1, atol=0.1)


def test_lock_in_is_broken():
    """In the fixed frame NUTS cannot climb back when the target moves away, and rejects all."""
    target = srmc.targets.eight_schools()
    start = jax.flatten_util.ravel_pytree(target.position)
    logdensity_fn = lambda x: target.logdensity_fn(start[1](x))
    starts = 0.1 * jax.random.normal(jax.random.key(0), (64, 10))
    options = {"surrogate": srmc.shift(), "frame": "fixed", "gain": srmc.gain(0.6)}
    bare, _ = run(srmc.nuts(logdensity_fn, 0.4, alpha=10.0, **options), starts, 400)
    guarded, stats = run(
        srmc.nuts(logdensity_fn, 0.4, alpha=srmc.watched(10.0), **options), starts, 400
    )
    moves = lambda draws: np.mean(np.any(np.diff(draws[:, 200:], axis=1) != 0, axis=2), axis=1)
    assert np.mean(moves(bare)) < 0.1
    assert np.mean(moves(guarded)) > 0.9
    assert np.sum(moves(guarded) < 0.1) <= 1  # of 64 chains
    assert stats.is_hot.mean() > 0.01
