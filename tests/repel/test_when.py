import jax
import jax.numpy as jnp
import numpy as np

from srmc.repel.compute import when


def test_it_is_a_conditional_in_every_lane():
    scale = jnp.arange(1.0, 5.0)

    def lane(predicate, x, scale):
        return when(predicate, lambda v: (v[0] * scale, v[1] + 1), x)

    x = (jnp.ones((4, 2)), jnp.zeros((4,)))
    predicate = jnp.array([True, False, True, False])
    a, b = jax.vmap(lane)(predicate, x, scale)
    np.testing.assert_array_equal(a[:, 0], [1, 1, 3, 1])
    np.testing.assert_array_equal(b, [1, 0, 1, 0])
    nested = jax.vmap(jax.vmap(lane, in_axes=(None, 0, 0)), in_axes=(0, None, None))
    a, _ = jax.jit(nested)(jnp.array([True, False]), x, scale)
    np.testing.assert_array_equal(a[:, :, 0], [[1, 2, 3, 4], [1, 1, 1, 1]])


def test_the_function_is_skipped_when_no_lane_asks():
    calls = []

    def costly(x):
        jax.debug.callback(lambda: calls.append(1))
        return x + 1

    run = jax.jit(jax.vmap(lambda p, x: when(p, costly, x)))
    np.testing.assert_array_equal(run(jnp.zeros(3, bool), jnp.zeros(3)), 0)
    jax.effects_barrier()
    assert not calls
    np.testing.assert_array_equal(run(jnp.array([False, True, False]), jnp.zeros(3)), [0, 1, 0])
    jax.effects_barrier()
    assert calls
