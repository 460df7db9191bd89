"""The checks of the assumption know the rounding of the density that they test."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

from srmc.after.assumption import check_assumption
from srmc.after.batched import Batched

HITS = jnp.array([18, 17, 16, 15, 14, 14, 13, 12, 11, 11, 10, 10, 10, 10, 10, 9, 8, 7.0])


def baseball(z):
    """Efron and Morris's batting averages, summed over those of players: terms that cancel."""
    m, kappa = jax.nn.sigmoid(z[0]), 1 + jnp.exp(z[1])
    a, b = m * kappa, (1 - m) * kappa
    beta = lambda a, b: gammaln(a) + gammaln(b) - gammaln(a + b)
    prior = jnp.log(m) + jnp.log1p(-m) - 2.5 * jnp.log(kappa) + z[1]
    return prior + jnp.sum(beta(a + HITS, b + 45 - HITS) - beta(a, b))


def draws_near(seed):
    rng = np.random.default_rng(seed)
    x = np.stack([rng.normal(-1.0, 0.1, (4, 250)), rng.normal(5.0, 1.5, (4, 250))], axis=2)
    return x.astype(np.float32).astype(float)


def segments(logp, slope, x):
    density, score = Batched("density", logp, x, ()), Batched("score", slope, x, x.shape[2:])
    scores = score(x.reshape(-1, x.shape[2])).reshape(x.shape)
    found = check_assumption(x, scores, score, density, exact=False)
    return next(f for f in found if f.name == "segments")


def test_rounding_of_terms_that_cancel_is_no_jump():
    for seed in range(20):
        found = segments(baseball, jax.grad(baseball), draws_near(seed))
        assert not found.failed, found


def test_jumps_and_wrong_gradients_are_found_beside_such_rounding():
    jump = lambda z: baseball(z) + 0.5 * (z[0] > -1)
    found = segments(jump, jax.grad(jump), draws_near(0))
    assert found.failed
    assert "more than rounding explains" in found.text
    assert segments(baseball, lambda z: 1.1 * jax.grad(baseball)(z), draws_near(0)).failed
