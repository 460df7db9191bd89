import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc

ROOT = jnp.array([[1.3, 0.0], [0.4, 0.7]])
CENTER = jnp.array([0.3, -0.2])
BUILT_IN = {
    "translations": srmc.translations(),
    "whitened translations": srmc.translations(ROOT, limit=1.0),
    "scalings": srmc.scalings(),
    "whitened scalings": srmc.scalings(CENTER, ROOT),
    "diagonal root": srmc.scalings(CENTER, jnp.array([0.5, 2.0])),
    "shears": srmc.shears(CENTER, ROOT),
    "affine": srmc.affine(CENTER, ROOT),
    "full affine": srmc.affine(CENTER, ROOT, full=True),
    "one's own": srmc.field(lambda x: jnp.stack([jnp.sin(x[1]), x[0] * x[1]])),
    "one's own, with a divergence": srmc.field(
        lambda x: jnp.stack([jnp.sin(x[1]), x[0] * x[1]]), lambda x: x[0]
    ),
}


def skewed(x):
    """Neither symmetric nor of independent coordinates, and normalisable."""
    a, b = x[0], x[1] - 0.3 * x[0] ** 2
    return 1.5 * a - jnp.exp(a) - 0.1 * a**2 + 0.5 * b - jnp.log1p(jnp.exp(2 * b)) - 0.2 * b**2


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", BUILT_IN)
def test_features_have_mean_zero(name):
    """By quadrature on a grid that holds all of the mass."""
    field = BUILT_IN[name]
    grid = jnp.stack(jnp.meshgrid(jnp.linspace(-12, 6, 700), jnp.linspace(-16, 30, 1400)), -1)
    points = grid.reshape(-1, 2)
    weight = jnp.exp(jax.vmap(skewed)(points))
    features = jax.vmap(lambda x: field.feature(x, jax.grad(skewed)(x)))(points)
    for feature in jax.tree.leaves(features):
        mean = jnp.tensordot(weight / weight.sum(), feature, axes=1)
        np.testing.assert_allclose(mean, 0, atol=1e-6)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", BUILT_IN)
def test_the_flow_follows_the_field(name):
    """Its derivative at no move, paired with the score, is the feature without its divergence."""
    field = BUILT_IN[name]
    x, s = jnp.array([0.4, -1.1]), jnp.array([0.7, 0.2])
    zero = field.init(x)
    np.testing.assert_array_equal(field.flow(x, zero), x)
    near_zero = jax.tree.map(lambda w: w + 1e-9, zero)
    slope = jax.grad(lambda w: field.flow(x, w) @ s)(near_zero)
    expected = jax.tree.map(jnp.subtract, field.feature(x, s), field.feature(x, 0 * s))
    for found, wanted in zip(jax.tree.leaves(slope), jax.tree.leaves(expected), strict=True):
        symmetric = (found + found.T) / 2 if found.ndim == 2 else found
        np.testing.assert_allclose(symmetric, wanted, atol=1e-7)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("size", [0.1, 1.0, 1e6])
def test_moves_are_bounded_and_invertible(full, size):
    field = srmc.affine(CENTER, ROOT, full=full)
    weights = jax.tree.map(
        lambda w: size * jax.random.normal(jax.random.key(0), w.shape), field.init(CENTER)
    )
    if full:
        weights = ((weights[0] + weights[0].T) / 2, weights[1])
    points = CENTER[None] + 5 * jax.random.normal(jax.random.key(1), (200, 2))
    moved = jax.vmap(lambda x: field.flow(x, weights))(points)
    assert jnp.max(jnp.abs((moved - points) @ jnp.linalg.inv(ROOT).T)) < 20
    determinants = jax.vmap(lambda x: jnp.linalg.det(jax.jacfwd(field.flow)(x, weights)))(points)
    assert jnp.all(determinants > 0)


def test_fields_take_pytrees():
    x = {"a": jnp.array(0.5), "b": jnp.array([1.0, 2.0])}
    field = srmc.affine(full=True)
    weights = jax.tree.map(jnp.ones_like, field.init(x))
    moved = field.flow(x, weights)
    assert jax.tree.structure(moved) == jax.tree.structure(x)
    assert field.feature(x, x)[0].shape == (3, 3)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(
    ("build", "settings"),
    [(srmc.mh, {}), (srmc.mala, {"feedback_every": 5}), (srmc.nuts, {})],
    ids=["mh", "mala", "nuts"],
)
def test_the_base_chain_is_the_plain_one(build, settings, full):
    plain = build(skewed, 0.3, alpha=0.0)
    repelled = build(skewed, 0.3, alpha=2.0, surrogate=srmc.affine(full=full), **settings)

    def run(algorithm, pick):
        def one(state, key):
            state, info = algorithm.step(key, state)
            return state, (pick(state), state.position, info.is_finite)

        keys = jax.random.split(jax.random.key(0), 60)
        return jax.lax.scan(one, algorithm.init(jnp.zeros(2)), keys)[1]

    base, _, _ = jax.jit(lambda: run(plain, lambda s: s.position))()
    again, moved, _ = jax.jit(lambda: run(repelled, lambda s: s.inner_state.position))()
    np.testing.assert_array_equal(again, base)
    assert np.any(np.asarray(moved) != np.asarray(base))
    assert np.all(np.isfinite(moved))


def test_a_field_has_no_fixed_frame():
    with pytest.raises(ValueError, match="frame='fixed' needs"):
        srmc.mala(skewed, 0.1, surrogate=srmc.affine(), frame="fixed")
    with pytest.raises(TypeError, match=r"surrogate must be .* or a field"):
        srmc.mala(skewed, 0.1, surrogate="affine")


def test_wrong_coordinates_are_named():
    with pytest.raises(ValueError, match="root must have 2 entries a side"):
        srmc.scalings(root=jnp.ones(3)).init(jnp.zeros(2))
    with pytest.raises(ValueError, match="center must have 2 entries a side"):
        srmc.scalings(center=jnp.ones(3)).init(jnp.zeros(2))
    with pytest.raises(ValueError, match="root must be a vector or a matrix"):
        srmc.scalings(root=jnp.ones((2, 2, 2)))
    with pytest.raises(TypeError, match="field must be"):
        srmc.along("affine")
    with pytest.raises(ValueError, match=r"root must be square, got shape \(2, 3\)"):
        srmc.shears(root=jnp.ones((2, 3)))
    for root in (jnp.ones((2, 2)), jnp.array([1.0, 0.0]), jnp.array([1.0, jnp.nan])):
        with pytest.raises(ValueError, match="root must be finite and invertible"):
            srmc.scalings(root=root)
    with pytest.raises(ValueError, match="preconditioner must have the structure of theta"):
        srmc.along(srmc.affine(), 1.0).precondition((jnp.ones(2), jnp.ones(2)))


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: srmc.affine(full="yes"), TypeError, "full must be True or False"),
        (lambda: srmc.combined(), TypeError, "fields must be fields, one or more"),
        (lambda: srmc.combined(srmc.shift()), TypeError, "fields must be fields"),
        (lambda: srmc.field(1.0), TypeError, "vector_field must be a function"),
        (lambda: srmc.field(jnp.sin, 1.0), TypeError, "divergence must be a function"),
        (lambda: srmc.field(jnp.sum).init(jnp.ones(2)), ValueError, "vector_field must return"),
        (
            lambda: srmc.field(jnp.sin, jnp.cos).init(jnp.ones(2)),
            ValueError,
            r"divergence must return a scalar, got shape \(2,\)",
        ),
    ],
)
def test_bad_fields_are_named(make, error, words):
    with pytest.raises(error, match=words):
        make()
