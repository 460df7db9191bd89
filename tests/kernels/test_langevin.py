import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc


@pytest.mark.usefixtures("x64")
def test_ula_is_the_formula():
    logp = lambda x: -0.5 * jnp.sum(x**2)
    algorithm = srmc.kernels.plain.ula(logp, 0.1)
    x, key = jnp.array([1.0, -2.0]), jax.random.key(0)
    state, info = algorithm.step(key, algorithm.init(x))
    noise = jax.random.normal(key, (2,))
    np.testing.assert_allclose(state.position, x - 0.1 * x + np.sqrt(0.2) * noise, rtol=1e-12)
    assert info.acceptance_rate == 1


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("friction", [0.3, 3.0])
def test_uld_has_the_stationary_law_of_baoab_on_a_gaussian(friction):
    """BAOAB is exact for the positions of a Gaussian at any stable step, and p is independent."""
    scale, n = np.array([1.0, 2.0]), 40_000
    algorithm = srmc.kernels.plain.uld(lambda x: -0.5 * jnp.sum((x / scale) ** 2), 0.8, friction)

    @jax.jit
    @jax.vmap
    def run(key):
        x_key, p_key, run_key = jax.random.split(key, 3)
        x = scale * jax.random.normal(x_key, (2,))
        state = algorithm.init(x, p_key)
        one = lambda s, k: (algorithm.step(k, s)[0], None)
        return jax.lax.scan(one, state, jax.random.split(run_key, 60))[0].position

    ends = np.asarray(run(jax.random.split(jax.random.key(0), n)))
    z = (ends.var(axis=0) / scale**2 - 1) / np.sqrt(2 / n)
    assert np.all(np.abs(z) < 5), z
    assert np.all(np.abs(ends.mean(axis=0) / scale) < 5 / np.sqrt(n))


def test_uld_starts_at_rest_without_a_key():
    algorithm = srmc.uld(lambda x: -0.5 * jnp.sum(x**2), 0.1)
    state = algorithm.init(jnp.ones(2))
    np.testing.assert_array_equal(state.inner_state.momentum, 0)
    with pytest.raises(ValueError, match="friction must be finite and > 0"):
        srmc.uld(lambda x: 0.0, 0.1, friction=0.0)


@pytest.mark.parametrize("kernel", ["ula", "uld"])
def test_a_move_that_is_not_finite_is_refused(kernel):
    wall = lambda x: jnp.where(x[0] > 1.1, jnp.nan, -0.5 * jnp.sum(x**2))
    algorithm = getattr(srmc.kernels.plain, kernel)(wall, 0.5)
    state = algorithm.init(jnp.ones(2))
    rates = []
    for n in range(100):
        state, info = algorithm.step(jax.random.key(n), state)
        rates.append(float(info.acceptance_rate))
        assert np.all(np.isfinite(state.position))
    assert 0 < np.mean(rates) < 1
