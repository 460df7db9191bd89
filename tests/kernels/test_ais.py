import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc
from srmc.kernels.ais import log_mean

TARGETS = {
    "ising": srmc.targets.ising(coupling=0.3),
    "rbm": srmc.targets.rbm(num_visible=10, num_hidden=6, scale=1.0),
}


def anneal(target, seed=0, alpha=0.0, history_every=None, **options):
    repelled = {} if history_every is None else {"history_every": history_every}
    return srmc.ais(
        jax.random.key(seed),
        target.logdensity_fn,
        lambda f: srmc.gwg(f, target.space, alpha=alpha, **repelled),
        lambda key: target.space.random(key, target.position),
        lambda x: 0.0 * jnp.sum(x),
        log_base_normalizer=target.position.size * np.log(2),
        progress=False,
        **options,
    )


@pytest.mark.parametrize("name", TARGETS)
def test_the_normaliser_is_within_its_error(name):
    """Sixty replicates of fifty particles each: 95% of them within two errors."""
    target = TARGETS[name]
    out = anneal(target, schedule=200, num_particles=3000)
    truth = target.table.log_normalizer
    assert abs(out.log_normalizer - truth) < 4 * out.error
    base = target.position.size * np.log(2)
    z = [(v + base - truth) / e for v, e in map(log_mean, out.log_weights.reshape(60, 50))]
    assert np.mean(np.abs(z) < 1.96) >= 0.85  # three errors of sixty replicates below 0.95
    weights = np.exp(out.log_weights - out.log_weights.max())
    mean = np.average(out.samples, axis=0, weights=weights)
    np.testing.assert_allclose(mean, target.moments.mean, atol=0.05)
    assert out.is_exact
    assert out.samples.shape == (3000, target.position.size)
    assert out.acceptance_rate.shape == (200,)
    assert 1000 < out.effective_sample_size <= 3000


def test_chunks_change_nothing():
    whole, parts = (
        anneal(TARGETS["rbm"], schedule=20, num_particles=10, chunk_size=size) for size in (10, 4)
    )
    np.testing.assert_allclose(whole.log_weights, parts.log_weights, rtol=1e-5)
    np.testing.assert_array_equal(whole.samples, parts.samples)


def test_repelled_transitions_say_that_weights_are_not_exact():
    with pytest.warns(UserWarning, match="weights are not exact"):
        out = anneal(TARGETS["rbm"], alpha=1.0, schedule=20, num_particles=10)
    assert not out.is_exact
    assert np.isfinite(out.log_normalizer)


def test_a_strength_that_rises_later_is_noticed_too():
    strength = srmc.gain_limited(1.0)
    with pytest.warns(UserWarning, match="weights are not exact"):
        anneal(
            TARGETS["rbm"],
            alpha=strength,
            history_every=1,  # by default it is not updated in so few steps
            schedule=5,
            num_particles=4,
            num_steps=2,
        )


def test_continuous_targets_anneal_too():
    """exp(-2 x^2) has the normaliser sqrt(pi / 2)."""
    out = srmc.ais(
        jax.random.key(0),
        lambda x: -2 * jnp.sum(x**2),
        lambda f: srmc.mala(f, 0.1, alpha=0.0),
        lambda key: jax.random.normal(key, (1,)),
        lambda x: -0.5 * jnp.sum(x**2),
        log_base_normalizer=0.5 * np.log(2 * np.pi),
        schedule=np.linspace(0, 1, 50) ** 2,
        num_particles=500,
        progress=False,
    )
    assert abs(out.log_normalizer - 0.5 * np.log(np.pi / 2)) < 4 * out.error


@pytest.mark.parametrize("schedule", [0, [0.0, 0.5], [0.0, 0.7, 0.6, 1.0], [[0.0, 1.0]]])
def test_bad_schedules_are_named(schedule):
    with pytest.raises(ValueError, match="schedule must"):
        anneal(TARGETS["rbm"], schedule=schedule)


@pytest.mark.parametrize("last", [1.0, 0.5])
def test_base_states_must_be_in_the_space(last):
    """A state of the base that is none of the space would have a weight all the same."""
    half = lambda key: jnp.where(jax.random.uniform(key, (10,)) < 0.5, 0.0, last)
    run = lambda: srmc.ais(
        jax.random.key(0),
        TARGETS["rbm"].logdensity_fn,
        lambda f: srmc.gwg(f, srmc.Binary(), alpha=0.0),
        half,
        lambda x: 0.0 * jnp.sum(x),
        schedule=2,
        num_particles=4,
        progress=False,
    )
    if last == 1.0:
        assert np.isfinite(run().log_normalizer)
        return
    with pytest.raises(ValueError, match=r"sample_base must draw .*Binary\(\)"):
        run()
