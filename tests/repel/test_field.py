import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc
from srmc.repel import affine, along, combined, field, scalings, shears, translations
from srmc.repel.field import Field

ROOT = jnp.array([[1.3, 0.0], [0.4, 0.7]])
CENTER = jnp.array([0.3, -0.2])
BUILT_IN = {
    "translations": translations(),
    "whitened translations": translations(ROOT, limit=1.0),
    "scalings": scalings(),
    "whitened scalings": scalings(CENTER, ROOT),
    "diagonal root": scalings(CENTER, jnp.array([0.5, 2.0])),
    "shears": shears(CENTER, ROOT),
    "affine": affine(CENTER, ROOT),
    "full affine": affine(CENTER, ROOT, full=True),
    "one's own": field(lambda x: jnp.stack([jnp.sin(x[1]), x[0] * x[1]])),
    "one's own, with a divergence": field(
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
    field = affine(CENTER, ROOT, full=full)
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


@pytest.mark.parametrize(
    "field",
    [affine(full=True), scalings(), field(lambda x: jax.tree.map(jnp.sin, x))],
    ids=["affine", "scalings", "one's own"],
)
def test_fields_take_pytrees(field):
    x = {"a": jnp.array(0.5), "b": jnp.array([1.0, 2.0])}
    s = {"a": jnp.array(-0.2), "b": jnp.array([0.3, 0.7])}
    flat_x, flat_s = (jnp.append(tree["a"], tree["b"]) for tree in (x, s))
    weights = jax.tree.map(lambda w: 0.1 + w, field.init(x))
    moved, flat_moved = field.flow(x, weights), field.flow(flat_x, weights)
    np.testing.assert_allclose(moved["a"], flat_moved[0], rtol=1e-6)
    np.testing.assert_allclose(moved["b"], flat_moved[1:], rtol=1e-6)
    assert np.all(np.asarray(flat_moved) != np.asarray(flat_x))
    jax.tree.map(
        lambda found, wanted: np.testing.assert_allclose(found, wanted, rtol=1e-6),
        field.feature(x, s),
        field.feature(flat_x, flat_s),
    )


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", BUILT_IN)
def test_totals_are_sums_of_features_and_their_bounds_hold(name):
    field = BUILT_IN[name]
    xs, ss = jax.random.normal(jax.random.key(0), (2, 50, 2))
    shares = jax.random.uniform(jax.random.key(1), (50,))
    totals, bounds = field.total(xs, ss, shares)
    jax.tree.map(
        lambda found, wanted: np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-10),
        totals,
        Field.total(field, xs, ss, shares)[0],
    )
    features = jax.vmap(field.feature)(xs, ss)
    within = jax.tree.map(lambda f, bound: jnp.max(jnp.abs(f)) <= bound, features, bounds)
    assert all(jax.tree.leaves(within))


def rotation(x):
    return {"a": -x["b"], "b": x["a"]}


@pytest.mark.parametrize("double", [False, True], ids=["float32", "float64"])
def test_a_flow_of_one_s_own_is_solved_in_both_precisions(double):
    """Rotations and exponentials, backwards too, under `vmap` and `jit`."""
    with jax.enable_x64(double):
        dtype = jnp.float64 if double else jnp.float32
        angles = jnp.linspace(-4, 4, 9, dtype=dtype)
        x = {"a": jnp.array([1.0], dtype), "b": jnp.array([0.0], dtype)}
        turn = jax.jit(jax.vmap(field(rotation).flow, in_axes=(None, 0)))
        turned = turn(x, angles)
        assert turned["a"].dtype == turned["b"].dtype == dtype
        np.testing.assert_allclose(turned["a"][:, 0], np.cos(angles), atol=1e-4)
        np.testing.assert_allclose(turned["b"][:, 0], np.sin(angles), atol=1e-4)
        grow = jax.jit(jax.vmap(field(lambda x: x).flow))
        xs = jnp.linspace(-3, 3, 9, dtype=dtype)
        np.testing.assert_allclose(grow(xs, angles), xs * np.exp(angles), rtol=1e-3)


@pytest.mark.usefixtures("x64")
def test_the_flow_of_a_mixed_pytree_keeps_each_precision():
    x = {"a": jnp.ones((1,), jnp.float32), "b": jnp.zeros((1,), jnp.float64)}
    flow = field(lambda x: {"a": -x["b"].astype(jnp.float32), "b": 1.0 * x["a"]}).flow
    moved = flow(x, jnp.asarray(0.5))
    assert moved["a"].dtype == jnp.float32
    assert moved["b"].dtype == jnp.float64
    np.testing.assert_allclose(moved["a"], np.cos(0.5), rtol=1e-5)
    np.testing.assert_allclose(moved["b"], np.sin(0.5), rtol=1e-5)


def test_a_flow_that_meets_what_is_not_finite_is_nan():
    """In one lane of many it neither hangs nor touches the others."""
    flow = jax.jit(jax.vmap(field(lambda x: -jnp.sqrt(x)).flow, in_axes=(None, 0)))
    weights = jnp.array([0.5, jnp.nan, jnp.inf, -jnp.inf, 10.0, 0.0])  # 10 leaves the domain
    moved = np.asarray(flow(jnp.array([1.0, 2.0]), weights))
    np.testing.assert_allclose(moved[0], (np.sqrt([1.0, 2.0]) - 0.25) ** 2, rtol=1e-4)
    assert np.all(np.isnan(moved[1:5]))
    np.testing.assert_array_equal(moved[5], [1.0, 2.0])


@pytest.mark.parametrize(
    "vector_field",
    [lambda x: x**2, lambda x: -1e6 * x, lambda x: -100 * jnp.sign(x)],
    ids=["explodes", "stiff", "discontinuous"],
)
def test_a_flow_that_cannot_be_followed_ends_far_out(vector_field):
    flow = jax.jit(field(vector_field).flow)
    moved = flow(jnp.array([1.0, 2.0]), jnp.asarray(3.0))
    assert not np.all(np.abs(moved) < 1e6)


def test_a_chain_along_a_field_of_one_s_own_counts_nan_and_goes_on():
    own = field(jnp.sqrt)  # NaN wherever a coordinate is negative
    algorithm = srmc.nuts(skewed, 0.3, alpha=0.5, surrogate=own, frame="moving")

    def one(state, key):
        state, info = algorithm.step(key, state)
        return state, (state.position, state.inner_state.position, state.theta, info.is_finite)

    keys = jax.random.split(jax.random.key(0), 60)
    out = jax.jit(lambda: jax.lax.scan(one, algorithm.init(jnp.ones(2)), keys)[1])()
    positions, base, theta, is_finite = map(np.asarray, out)
    assert np.all(np.isfinite(positions))
    assert np.all(np.isfinite(theta))
    outside = np.any(base < 0, axis=1)
    assert 0 < np.sum(outside) < 60
    np.testing.assert_array_equal(positions[outside], base[outside])
    assert not np.any(is_finite[outside])


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(
    ("build", "settings"),
    [(srmc.mh, {}), (srmc.mala, {"feedback_every": 5}), (srmc.nuts, {})],
    ids=["mh", "mala", "nuts"],
)
def test_the_base_chain_is_the_plain_one(build, settings, full):
    plain = build(skewed, 0.3, alpha=0.0)
    repelled = build(skewed, 0.3, alpha=2.0, surrogate=affine(full=full), **settings)

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
        srmc.mala(skewed, 0.1, surrogate=affine(), frame="fixed")
    with pytest.raises(TypeError, match=r"surrogate must be .* or a field"):
        srmc.mala(skewed, 0.1, surrogate="affine")


def test_wrong_coordinates_are_named():
    with pytest.raises(ValueError, match="root must have 2 entries per axis"):
        scalings(root=jnp.ones(3)).init(jnp.zeros(2))
    with pytest.raises(ValueError, match="center must have 2 entries per axis"):
        scalings(center=jnp.ones(3)).init(jnp.zeros(2))
    with pytest.raises(ValueError, match="root must be a vector or a matrix"):
        scalings(root=jnp.ones((2, 2, 2)))
    with pytest.raises(TypeError, match="field must be"):
        along("affine")
    with pytest.raises(ValueError, match=r"root must be square, got shape \(2, 3\)"):
        shears(root=jnp.ones((2, 3)))
    for root in (jnp.ones((2, 2)), jnp.array([1.0, 0.0]), jnp.array([1.0, jnp.nan])):
        with pytest.raises(ValueError, match="root must be finite and invertible"):
            scalings(root=root)
    with pytest.raises(ValueError, match="preconditioner must have the structure of theta"):
        along(affine(), 1.0).precondition((jnp.ones(2), jnp.ones(2)))


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: affine(full="yes"), TypeError, "full must be True or False"),
        (lambda: combined(), TypeError, "fields must be fields, one or more"),
        (lambda: combined(srmc.shift()), TypeError, "fields must be fields"),
        (lambda: field(1.0), TypeError, "vector_field must be a function"),
        (lambda: field(jnp.sin, 1.0), TypeError, "divergence must be a function"),
        (lambda: field(jnp.sum).init(jnp.ones(2)), ValueError, "vector_field must return"),
        (
            lambda: field(jnp.sin, jnp.cos).init(jnp.ones(2)),
            ValueError,
            r"divergence must return a scalar, got shape \(2,\)",
        ),
    ],
)
def test_bad_fields_are_named(make, error, words):
    with pytest.raises(error, match=words):
        make()
