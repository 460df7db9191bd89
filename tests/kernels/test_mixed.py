"""Discrete and continuous blocks in one position, against a posterior that is known exactly."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc

Y = np.array([-2.3, -0.4, 0.3, 0.9, 2.8])
PRIOR = np.array([-1.0, 1.5])
START = {"z": np.zeros(5, np.float32), "mu": PRIOR.astype(np.float32)}


def logdensity(position):
    """A mixture of two normals with unknown means, whose labels are kept; z_i = 1 has odds 1/2."""
    z, mu = position["z"], position["mu"]
    centre = jnp.where(z > 0.5, mu[1], mu[0])
    likelihood = -0.5 * jnp.sum((Y - centre) ** 2)
    return likelihood - 0.5 * jnp.sum((mu - PRIOR) ** 2) - jnp.log(2) * jnp.sum(z)


def exact():
    """E z and E mu: a sum over all z, in which mu is integrated out."""
    weights, z_of, mu_of = [], [], []
    for z in itertools.product((0.0, 1.0), repeat=len(Y)):
        z = np.array(z)
        log_weight, means = -np.log(2) * z.sum(), []
        for k, prior in enumerate(PRIOR):
            own = Y[z == k]
            precision = 1 + len(own)
            mean = (prior + own.sum()) / precision
            log_weight -= 0.5 * (np.sum(own**2) + prior**2 - precision * mean**2)
            log_weight -= 0.5 * np.log(precision)
            means.append(mean)
        weights.append(log_weight)
        z_of.append(z)
        mu_of.append(means)
    p = np.exp(np.array(weights) - max(weights))
    p /= p.sum()
    return p @ np.array(z_of), p @ np.array(mu_of)


def test_blocks_have_the_exact_posterior():
    result = srmc.sample(
        logdensity,
        space={"z": srmc.Binary(), "mu": None},
        initial_position=START,
        num_warmup=300,
        num_samples=1500,
        progress=False,
    )
    assert set(np.unique(result.draws["z"])) == {0.0, 1.0}
    for name, truth in zip(("z", "mu"), exact(), strict=True):
        mean, error = result.estimate(lambda draws, name=name: draws[name])
        assert np.all(error < 0.06)
        assert np.all(np.abs(mean - truth) < 4 * error)
    assert not result.is_rebalanced
    assert np.mean(result.stats["acceptance_rate"]) > 0.5


def test_a_step_draws_each_block_given_the_others():
    """With the continuous block held by a tiny step, sites have their conditional probabilities."""
    kernel = srmc.kernels.mixed(
        logdensity, 1e-6, np.ones(7), space={"z": srmc.Binary()}, continuous=held
    )
    state = kernel.init(START)
    keys = jax.random.split(jax.random.key(0), 4000)
    z = jax.jit(jax.vmap(lambda key: kernel.step(key, state)[0].position["z"]))(keys)
    odds = np.exp(-0.5 * (Y - PRIOR[1]) ** 2 + 0.5 * (Y - PRIOR[0]) ** 2) / 2
    p = odds / (1 + odds)
    error = np.sqrt(p * (1 - p) / len(keys))
    assert np.all(np.abs(np.mean(z, axis=0) - p) < 4 * error)


def held(logdensity_fn, step_size, inverse_mass_matrix):
    """A kernel that stands still, and sees its own entries of the metric alone."""
    assert inverse_mass_matrix.shape == (2,)
    algorithm = srmc.kernels.plain.mala(logdensity_fn, step_size)
    return algorithm._replace(step=lambda key, state: (state, algorithm.step(key, state)[1]))


@pytest.mark.parametrize(
    ("space", "options", "words"),
    [
        ({"z": None}, {}, "at least one discrete block"),
        ({"z": 2}, {}, "space of z"),
        ({"w": srmc.Binary()}, {}, "position must be a dictionary with w"),
        ({"z": srmc.Binary()}, {"alpha": 3.0}, "alpha must be 0"),
        ({"z": srmc.Binary()}, {"kernel": "gwg"}, "is not for several blocks"),
    ],
)
def test_what_does_not_fit_is_named(space, options, words):
    with pytest.raises((ValueError, TypeError), match=words):
        srmc.sample(logdensity, space=space, initial_position=START, progress=False, **options)
