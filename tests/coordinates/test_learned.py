"""The map is exact: inverse, determinant and scores, whatever the weights."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from srmc.coordinates import Coordinates, rule
from srmc.coordinates.fit import Near, conjugate_gradients
from srmc.coordinates.learned import arrays_of, from_arrays, identity
from srmc.coordinates.triangular import Weights, divergence, mapped

D, Q = 6, 3
ORDER = np.array([4, 1, 3, 0, 2, 5])  # the modulators first


def example(size=1.0):
    """A map with large weights; `size` 4 takes log scales beyond the clip."""
    rng = np.random.default_rng(1)
    empty = Weights.none(D, Q)
    weights = empty.like(0.4 * rng.standard_normal(empty.matrix.shape)).masked()
    weights = weights._replace(slopes=size * weights.slopes)
    back = np.argsort(ORDER)
    rows = {name: jnp.asarray(part[back]) for name, part in weights._asdict().items()}
    center, scale = rng.standard_normal(D), np.exp(rng.standard_normal(D))
    more = {"modulators": jnp.asarray(ORDER[:Q]), "divergence": jnp.ones(2)}
    given = {"center": jnp.asarray(center), "scale": jnp.asarray(scale)} | rows | more
    return Coordinates(**given, explained=jnp.ones(D)), weights


def points(n=20, spread=2.0):
    return spread * np.random.default_rng(2).standard_normal((n, D))


def logdensity(x):
    return -0.5 * jnp.sum(x**2) + jnp.sum(jnp.sin(x)) + x[0] * x[1] / 5


@pytest.mark.parametrize("size", [1.0, 4.0])
def test_the_inverse_undoes_the_map_and_the_determinant_is_its_jacobian(size, x64):
    c, _ = example(size)
    x = jnp.asarray(points())
    u = c.forward(x)
    back, total = jax.jit(jax.vmap(c.inverse_and_log_determinant))(u)
    np.testing.assert_allclose(back, x, rtol=1e-9, atol=1e-9)
    sign, logdet = np.linalg.slogdet(jax.jit(jax.vmap(jax.jacobian(c.inverse)))(u))
    assert np.all(sign == 1)
    np.testing.assert_allclose(total, logdet, rtol=1e-9, atol=1e-9)


def test_single_precision():
    c, _ = example()
    x = jnp.asarray(points(), jnp.float32)
    u = jax.jit(jax.vmap(c.forward))(x)
    assert u.dtype == jnp.float32
    back, total = jax.vmap(c.inverse_and_log_determinant)(u)
    assert back.dtype == total.dtype == jnp.float32
    np.testing.assert_allclose(back, x, rtol=1e-4, atol=1e-3)
    _, logdet = np.linalg.slogdet(np.asarray(jax.vmap(jax.jacobian(c.inverse))(u), float))
    np.testing.assert_allclose(total, logdet, rtol=1e-3, atol=1e-3)


def test_some_log_scales_of_the_example_are_clipped(x64):
    c, weights = example(4.0)
    z = (points() - np.asarray(c.center)) / np.asarray(c.scale)
    assert np.max(np.abs(z[:, ORDER[:Q]] @ weights.slopes.T)) > rule.CLIP + 1


@pytest.mark.parametrize("size", [1.0, 4.0])
def test_scores_are_those_of_the_density_of_u(size, x64):
    c, weights = example(size)
    x = jnp.asarray(points())
    s = jax.vmap(jax.grad(logdensity))(x)
    found = c.scores(x[None], s[None])[0]
    wanted = jax.vmap(jax.grad(c.logdensity(logdensity)))(c.forward(x))
    np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-8)
    z, s_z = np.asarray((x - c.center[None]) / c.scale[None]), np.asarray(s * c.scale[None])
    at = mapped(weights, z[:, ORDER], s_z[:, ORDER])
    np.testing.assert_allclose(at.score, found[:, ORDER], rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(at.u, c.forward(x)[:, ORDER], rtol=1e-8, atol=1e-8)


def test_the_density_of_u_is_that_of_x_with_the_determinant(x64):
    c, _ = example()
    x = jnp.asarray(points())
    u = c.forward(x)
    _, logdet = np.linalg.slogdet(jax.vmap(jax.jacobian(c.forward))(x))
    found = jax.jit(jax.vmap(c.logdensity(logdensity)))(u)
    np.testing.assert_allclose(found, jax.vmap(logdensity)(x) - logdet, rtol=1e-9, atol=1e-9)


def near():
    """Residuals at large weights, and directions of these."""
    _, weights = example(4.0)
    z, s = points(9, 1.0), np.random.default_rng(3).standard_normal((9, D))
    at = lambda w: Near.of(w, z, s)
    rng = np.random.default_rng(4)
    shape = weights.matrix.shape
    ways = [weights.like(rng.standard_normal(shape)).masked() for _ in range(5)]
    return weights, at, ways


def test_derivatives_of_the_fit():
    weights, at, ways = near()
    here = at(weights)
    gradient = here.pull(here.importance * here.residual)
    rows = np.random.default_rng(5).standard_normal((9, D))
    for way in ways:
        ahead, behind = (at(weights.like(weights.matrix + h * way.matrix)) for h in (1e-6, -1e-6))
        pushed = (ahead.residual - behind.residual) / 2e-6
        np.testing.assert_allclose(here.push(way), pushed, rtol=1e-4, atol=1e-4)
        slope = (
            divergence(ahead.at.u, ahead.at.score) - divergence(behind.at.u, behind.at.score)
        ) / 2e-6
        np.testing.assert_allclose(slope, np.vdot(gradient, way.matrix), rtol=1e-4)
        np.testing.assert_allclose(
            np.vdot(here.push(way), rows), np.vdot(here.pull(rows), way.matrix)
        )


def test_blocks_of_the_fit_are_those_of_single_rows():
    weights, at, ways = near()
    here = at(weights)
    blocks = here.blocks()
    for k in range(Q, D):  # rows of coordinates that are no modulators
        way = np.where(np.arange(D)[:, None] == k, ways[0].matrix, 0)
        own = here.push(weights.like(way))[:, k : k + 1]
        wanted = np.sum(here.importance * own**2)
        np.testing.assert_allclose(way[k] @ blocks[k] @ way[k], wanted)


def test_conjugate_gradients():
    rng = np.random.default_rng(0)
    root, right = rng.standard_normal((6, 6)), rng.standard_normal((2, 3))
    matrix = root @ root.T + np.eye(6)
    product = lambda x: (matrix @ x.ravel()).reshape(2, 3)
    found = conjugate_gradients(product, lambda x: x, right)
    off = product(found) - right
    assert np.vdot(off, off) < 1e-2 * np.vdot(right, right)


def test_the_identity_changes_no_bit():
    c = identity(D, 0.1)
    x = jnp.asarray(points(), jnp.float32)
    assert np.array_equal(c.forward(x), x)
    assert np.array_equal(c.inverse(x), x)
    assert np.array_equal(jax.vmap(c.logdensity(logdensity))(x), jax.vmap(logdensity)(x))


def test_padding_and_arrays_keep_the_map(x64):
    c, _ = example()
    x = jnp.asarray(points())
    wide = from_arrays(arrays_of(c.padded(8)))
    u = wide.forward(x)
    np.testing.assert_allclose(u, c.forward(x), rtol=1e-12)
    np.testing.assert_allclose(wide.inverse(u), x, rtol=1e-9, atol=1e-9)


def test_another_fit_is_another_argument_of_the_same_program():
    traces = []

    def density(x):
        traces.append(x)
        return logdensity(x)

    program = jax.jit(lambda c, u: c.logdensity(density)(u))
    for size in (1.0, 2.0):
        c, _ = example(size)
        program(c, jnp.zeros(D))
    assert len(traces) == 1
