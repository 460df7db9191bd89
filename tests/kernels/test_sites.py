"""Discrete targets as kernels see them: features, changes, and what is refused."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc
from srmc.kernels.discrete import changes
from srmc.kernels.discrete.sites import Sites
from srmc.repel.strength import Strength

SPACES = {
    "binary": (srmc.Binary(), (4,)),
    "ordinal": (srmc.Ordinal(3), (3,)),
    "categorical": (srmc.Categorical(3), (3,)),
}


def random_target(space, shape, seed=0):
    """A smooth function of the relaxed state that is linear in nothing."""
    rng = np.random.default_rng(seed)
    size = int(np.prod(shape)) * space.width
    a, b = rng.normal(size=(6, size)), rng.normal(size=6)
    return lambda x: jnp.sum(b * jnp.sin(a @ x.ravel()))


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("where", "feature"),
    [*((where, "gibbs") for where in SPACES), ("binary", "stein"), ("ordinal", "stein")],
)
@pytest.mark.parametrize("seed", range(3))
def test_exact_features_have_mean_zero(where, feature, seed):
    space, shape = SPACES[where]
    states = jnp.asarray(space.all_states(shape))
    logdensity_fn = random_target(space, shape, seed)
    sites = Sites(logdensity_fn, space, feature=feature)
    phi = jax.lax.map(lambda x: sites.look(x).feature, states)
    pi = jax.nn.softmax(jax.vmap(logdensity_fn)(states))
    mean = jnp.tensordot(pi, phi, axes=1)
    assert np.max(np.abs(phi)) > 0.1
    assert np.max(np.abs(mean)) < 1e-12 * max(1.0, float(np.max(np.abs(phi))))


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("where", SPACES)
def test_the_residual_is_the_conditional_mean(where):
    space, shape = SPACES[where]
    logdensity_fn = random_target(space, shape)
    sites = Sites(logdensity_fn, space, feature="gibbs")
    x = space.random(jax.random.key(1), jnp.zeros(jnp.asarray(space.all_states(shape))[0].shape))
    given = [space.place(x, 1, k) for k in range(space.num_values)]
    p = jax.nn.softmax(jnp.array([logdensity_fn(y) for y in given]))
    mean = sum(p[k] * space.rows(y)[1] for k, y in enumerate(given))
    found = space.rows(sites.look(x).feature)[1]
    np.testing.assert_allclose(found, mean - space.rows(x)[1], atol=1e-12)


@pytest.mark.usefixtures("x64")
def test_large_states_are_evaluated_in_chunks(monkeypatch):
    space, shape = SPACES["categorical"]
    x = jnp.asarray(space.all_states(shape))[7]
    target = random_target(space, shape)
    sizes = []

    @jax.custom_batching.custom_vmap
    def measured(x):
        return target(x)

    @measured.def_vmap
    def batch(axis_size, in_batched, x):
        sizes.append(axis_size)
        return jax.vmap(target)(x), True

    guide = lambda: Sites(measured, space, "exact", "gibbs").look(x).guide
    whole = guide()
    assert max(sizes) == space.num_neighbours(x) == 6
    sizes.clear()
    monkeypatch.setattr(changes, "CHUNK", 2 * x.size)
    np.testing.assert_allclose(guide(), whole, rtol=1e-12)
    assert max(sizes) == 2


@pytest.mark.usefixtures("x64")
def test_differences_may_be_given_as_flips_or_for_all_values():
    target = srmc.targets.rbm(num_visible=5, num_hidden=3, scale=1.0)
    x = jnp.array([1.0, 0, 0, 1, 1])
    expected = Sites(target.logdensity_fn, target.space, "exact", "gibbs").look(x).guide
    given = Sites(target.logdensity_fn, target.space, "exact", "gibbs", target.differences)
    np.testing.assert_allclose(given.look(x).guide, expected, atol=1e-12)
    assert given.bent(x, jnp.ones(())).evaluations(x)[0] == 1 + target.differences.cost
    everywhere = target.differences.everywhere
    counted = Sites(target.logdensity_fn, target.space, "exact", "gibbs", everywhere)
    assert counted.bent(x, jnp.ones(())).evaluations(x)[0] == 2
    assert Sites(target.logdensity_fn, target.space, None, "gibbs").bent(x, 1.0).evaluations(x)[
        0
    ] == (1 + 5)
    wrong = Sites(target.logdensity_fn, target.space, None, "gibbs", lambda x: x[:2])
    with pytest.raises(ValueError, match=r"differences must return changes of shape \(5, 2\)"):
        wrong.look(x)


def test_the_default_feature_is_exact_where_it_is_affordable():
    space = srmc.Binary()
    sites = Sites(lambda x: jnp.sum(x), space)
    assert sites.chosen(jnp.zeros(64)) == "gibbs"
    assert sites.chosen(jnp.zeros(65)) == "relaxed-gibbs"
    assert Sites(jnp.sum, space, differences=lambda x: 1 - 2 * x).chosen(jnp.zeros(65)) == "gibbs"


def test_biased_features_warn_and_exact_ones_do_not():
    linear = srmc.targets.ising()
    curved = lambda x: jnp.sum(jnp.sin(3 * x)) + x[0] * x[1]
    relaxed = lambda f, feature: srmc.gwg(f, srmc.Binary(), feature=feature, alpha=1.0)
    with pytest.warns(UserWarning, match="feature='relaxed' has no zero mean") as seen:
        relaxed(linear.logdensity_fn, "relaxed").init(linear.position)
    assert seen[0].filename == __file__  # where `init` was called
    with pytest.warns(UserWarning, match="zero mean only if the log density is linear in each"):
        jax.vmap(relaxed(curved, "relaxed-gibbs").init)(jnp.zeros((2, 3)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jax.vmap(relaxed(linear.logdensity_fn, "relaxed-gibbs").init)(jnp.zeros((2, 16)))
        relaxed(curved, "gibbs").init(jnp.zeros(3))


@pytest.mark.filterwarnings("ignore:feature=")
def test_the_relaxed_feature_converges_to_the_wrong_mean():
    """Why it warns: theta settles where it is not 0, and the target stays bent."""
    target = srmc.targets.ising(srmc.targets.lattice(1, 3, periodic=False), 0.3, 0.4)

    def run(feature):
        algorithm = srmc.gwg(
            target.logdensity_fn, target.space, alpha=1.0, feature=feature, gain=srmc.gain(0.8)
        )
        chains, steps = 64, 4000
        states = jax.vmap(algorithm.init)(jnp.zeros((chains, 3)))

        def one(carry, n):
            states, total = carry
            keys = jax.random.split(jax.random.fold_in(jax.random.key(0), n), chains)
            states, _ = jax.vmap(algorithm.step)(keys, states)
            return (states, total + jnp.where(n >= steps // 2, states.position, 0)), None

        start = states, jnp.zeros((chains, 3))
        (states, total), _ = jax.jit(lambda c: jax.lax.scan(one, c, jnp.arange(steps)))(start)
        means = np.asarray(total) / (steps / 2)
        error = means.std(axis=0) / np.sqrt(chains)
        return (means.mean(axis=0) - target.moments.mean) / error, np.asarray(states.theta)

    z, theta = run("relaxed")
    assert np.all(np.abs(z) > 20)
    assert np.all(np.abs(theta.mean(axis=0)) > 0.1)
    z, theta = run("gibbs")
    assert np.all(np.abs(z) < 4.5)
    assert np.all(np.abs(theta.mean(axis=0)) < 0.01)


def opaque(x):
    out = jax.ShapeDtypeStruct((), x.dtype)
    return jax.pure_callback(lambda x: np.sum(x, dtype=x.dtype), out, x, vmap_method="sequential")


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: srmc.Ordinal(1), ValueError, "num_values must be >= 2, got 1"),
        (lambda: srmc.Categorical(1), ValueError, "num_values must be >= 2, got 1"),
        (lambda: srmc.Categorical(2.5), TypeError, "num_values must be a whole number"),
        (lambda: srmc.gwg(jnp.sum, "binary"), TypeError, r"space must be srmc.Binary\(\)"),
        (
            lambda: srmc.gwg(jnp.sum, srmc.Binary()).init(jnp.array([0.0, 2.0])),
            ValueError,
            r"position must be in Binary\(\), got \[0. 2.\]",
        ),
        (
            lambda: srmc.flip_mh(jnp.sum, srmc.Ordinal(3)).init(np.array([0, 3])),
            ValueError,
            r"position must be in Ordinal\(3\)",
        ),
        (
            lambda: srmc.flip_mh(jnp.sum, srmc.Categorical(3)).init(jnp.array([[0.0, 1.0]])),
            ValueError,
            r"position must have rows of 3 numbers for Categorical\(3\), or be integers",
        ),
        (
            lambda: srmc.flip_mh(jnp.sum, srmc.Categorical(2)).init(jnp.array([[0.5, 0.5]])),
            ValueError,
            r"position must be in Categorical\(2\)",
        ),
        (
            lambda: srmc.flip_mh(jnp.sum, srmc.Binary()).init(jnp.array([0.0, np.nan])),
            ValueError,
            r"position must be in Binary\(\)",
        ),
        (
            lambda: srmc.flip_mh(jnp.sum, srmc.Binary()).init(jnp.zeros(0)),
            ValueError,
            "position must hold at least one site",
        ),
        (
            lambda: srmc.flip_mh(lambda x: jnp.log(x[0]), srmc.Binary()).init(jnp.zeros(2)),
            ValueError,
            "logdensity_fn must be finite at the start, got -inf",
        ),
        (
            lambda: srmc.gwg(opaque, srmc.Binary()).init(jnp.zeros(2)),
            TypeError,
            "logdensity_fn must be differentiable",
        ),
        (
            lambda: srmc.gwg(lambda x: jnp.sum(jnp.round(x)), srmc.Binary()).init(jnp.zeros(2)),
            ValueError,
            "logdensity_fn must have a gradient that tells its changes apart, got 0",
        ),
        (
            lambda: srmc.gwg(jnp.sum, srmc.Categorical(3), feature="stein"),
            ValueError,
            r"feature='stein' needs an order of values, which Categorical\(3\) has not",
        ),
        (
            lambda: srmc.gwg(jnp.sum, srmc.Binary(), feature="score"),
            ValueError,
            "feature must be one of 'gibbs', 'stein'",
        ),
        (
            lambda: srmc.gwg(jnp.sum, srmc.Binary(), num_sites=3).step(
                jax.random.key(0), srmc.gwg(jnp.sum, srmc.Binary()).init(jnp.zeros(2))
            ),
            ValueError,
            "num_sites must be at most 2",
        ),
        (
            lambda: srmc.gwg(jnp.sum, srmc.Binary(), temperature=0.0),
            ValueError,
            "temperature must be finite and > 0",
        ),
        (
            lambda: srmc.dlp(jnp.sum, srmc.Binary(), -1.0),
            ValueError,
            "step_size must be finite and > 0",
        ),
        (
            lambda: srmc.locally_balanced(jnp.sum, srmc.Binary(), "root"),
            ValueError,
            "balancing must be one of 'sqrt', 'barker', 'max', got 'root'",
        ),
        (
            lambda: srmc.gwg(jnp.sum, srmc.Binary(), surrogate=srmc.shift()),
            ValueError,
            r"surrogate must be srmc.tilt\(\) on a discrete space",
        ),
        (
            lambda: srmc.gwg(jnp.sum, srmc.Binary(), surrogate=srmc.tilt(), feature="gibbs"),
            ValueError,
            "needs feature='relaxed', the gradient, got 'gibbs'",
        ),
        (
            lambda: srmc.gwg(jnp.sum, srmc.Binary(), surrogate=srmc.tilt(), preconditioner=2.0),
            ValueError,
            r"preconditioner must be given to srmc.tilt\(\)",
        ),
        (
            lambda: srmc.gwg(jnp.sum, srmc.Binary(), frame="fixed"),
            ValueError,
            "frame is for continuous kernels",
        ),
        (
            lambda: srmc.paper_settings(hvp="forward"),
            ValueError,
            "hvp must be one of 'exact', 'finite-difference', 'shifted', got 'forward'",
        ),
        (
            lambda: srmc.gwg(jnp.sum, srmc.Binary(), friction=1.0),
            TypeError,
            "kernel gwg.*friction.*it takes temperature, num_sites",
        ),
    ],
)
def test_bad_input_is_named(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_kernels_without_gradients_take_any_log_density():
    algorithm = srmc.flip_mh(opaque, srmc.Binary(), alpha=0.5, bend="feature")
    state = algorithm.init(np.array([0, 1]))
    for n in range(5):
        state, info = algorithm.step(jax.random.key(n), state)
    assert np.any(state.theta != 0)
    assert int(info.gradients) == 3


def test_a_log_density_may_be_a_callable_without_a_hash():
    class Sum:
        __hash__ = None

        def __call__(self, x):
            return jnp.sum(x)

    algorithm = srmc.gwg(Sum(), srmc.Binary(), alpha=1.0)
    state = algorithm.init(jnp.array([1.0, 0.0, 1.0]))
    assert float(state.inner_state.local.logdensity) == 2
    state, _ = algorithm.step(jax.random.key(0), state)
    assert float(state.inner_state.local.logdensity) == float(jnp.sum(state.position))


def test_one_hot_states_may_be_given_as_integers():
    space = srmc.Categorical(3)
    np.testing.assert_array_equal(space.as_state(np.array([2, 0])), [[0, 0, 1], [1, 0, 0]])
    np.testing.assert_array_equal(space.as_state(jnp.eye(3)[:2]), jnp.eye(3)[:2])


def test_states_without_probability_are_not_entered():
    """A hard constraint: sites 0 and 1 differ."""
    allowed = lambda x: jnp.where(x[0] == x[1], -jnp.inf, 0.3 * x[2])
    for build in (srmc.flip_mh, srmc.locally_balanced, srmc.gibbs):
        algorithm = build(allowed, srmc.Binary(), alpha=0.5)
        state = algorithm.init(jnp.array([0.0, 1.0, 0.0]))
        step = jax.jit(algorithm.step)
        seen = []
        for n in range(40):
            state, _ = step(jax.random.key(n), state)
            seen.append(np.asarray(state.position))
        assert np.all(np.stack(seen)[:, 0] != np.stack(seen)[:, 1])
        assert len(np.unique(np.stack(seen)[:, 2])) == 2


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("where", ["binary", "ordinal"])
def test_residuals_answer_to_their_own_site_alone(where):
    """E[phi_i x_j] = 0 for i != j, and -E[phi_i^2] for i = j, on which `bend="sites"` rests."""
    space, shape = SPACES[where]
    states = jnp.asarray(space.all_states(shape))
    logdensity_fn = random_target(space, shape)
    sites = Sites(logdensity_fn, space, feature="gibbs")
    phi = jax.lax.map(lambda x: sites.look(x).feature, states)
    pi = jax.nn.softmax(jax.vmap(logdensity_fn)(states))
    across = jnp.einsum("s,si,sj->ij", pi, phi, states)
    np.testing.assert_allclose(across, -jnp.diag(pi @ phi**2), atol=1e-12)


@pytest.mark.parametrize("guide", ["flip_mh", "gwg", "locally_balanced"])
def test_bent_by_sites_the_feature_is_evaluated_where_the_history_takes_it(guide):
    target = srmc.targets.ising()
    build = getattr(srmc, guide)
    options = {"differences": target.differences, "bend": "sites", "history_every": 3}
    algorithm = build(target.logdensity_fn, target.space, alpha=2.0, **options)
    plain = build(target.logdensity_fn, target.space, alpha=0.0, differences=target.differences)
    feature = Sites(target.logdensity_fn, target.space, None, "gibbs", target.differences)
    init, step = (jax.jit(jax.vmap(f)) for f in algorithm)
    state = init(jnp.zeros((2, 16)))
    _, plainly = plain.step(jax.random.key(0), plain.init(jnp.zeros(16)))
    extra = 0 if guide == "locally_balanced" else 1  # whose proposals go by the same changes
    for n in range(1, 7):
        before = state
        state, info = step(jax.random.split(jax.random.key(n), 2), state)
        closes = n % 3 == 0
        assert np.all(info.gradients == plainly.gradients + closes * extra)
        assert bool(jnp.any(state.theta != before.theta)) == closes
        if closes:
            seen = jax.vmap(lambda x: feature.look(x).feature)(state.position)
            np.testing.assert_allclose(state.feature, seen, atol=1e-6)


def test_bent_by_sites_the_steps_of_the_loop_are_the_updates_of_the_history():
    target = srmc.targets.ising()
    counts = Strength(
        lambda: (jnp.zeros(()), jnp.zeros((), int)),
        lambda n, seen: (seen.step.astype(float), n + 1),
    )
    algorithm = srmc.flip_mh(
        target.logdensity_fn, target.space, alpha=counts, bend="sites", history_every=3
    )
    init, step = (jax.jit(jax.vmap(f)) for f in algorithm)
    state = init(jnp.zeros((2, 16)))
    for n in range(1, 8):
        before = state
        state, info = step(jax.random.split(jax.random.key(n), 2), state)
        assert np.all(state.alpha == n // 3)
        assert np.all(state.strength_state == n // 3)
        assert np.all((info.gain > 0) == (n % 3 == 0))
        exponent = before.alpha * jnp.abs(jnp.sum(state.theta * state.feature, axis=1))
        np.testing.assert_allclose(info.exponent, exponent, rtol=1e-5)


@pytest.mark.usefixtures("x64")
def test_changes_of_an_rbm_are_as_exact_as_its_log_density_in_single_precision():
    target = srmc.targets.rbm(num_visible=30, num_hidden=200)
    x = target.space.random(jax.random.key(0), jnp.zeros(30))
    flips = jax.vmap(target.logdensity_fn)(jnp.abs(x[None] - jnp.eye(30)))
    found = target.differences(x.astype(jnp.float32))
    rounded = np.finfo(np.float32).eps * abs(target.logdensity_fn(x))
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(found, flips - target.logdensity_fn(x), atol=rounded)


def test_a_bend_that_would_not_drive_the_feature_is_refused():
    build = lambda **options: srmc.gwg(lambda x: jnp.sum(x), srmc.Binary(), **options)
    with pytest.raises(ValueError, match="bend must be"):
        build(bend="sideways")
    with pytest.raises(ValueError, match="bend='sites' needs feature='gibbs'"):
        build(bend="sites", feature="stein")
