"""Kernels on discrete spaces: exact invariance of the surrogate, from their own probabilities."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc

TABLE = np.random.default_rng(3).normal(size=(3, 3))
ALPHA = 1.5


def binary(x):
    """Linear in no site: what a gradient says of a flip is wrong."""
    return jnp.sum(jnp.sin(2 * x[:-1] + 3 * x[1:])) + 0.4 * x[0] - 0.8 * x[2] ** 2 * x[1]


def ordinal(x):
    return 0.5 * jnp.cos(x[0] * x[1]) - 0.3 * (x[0] - 1.2) ** 2 + 0.2 * x[1]


def categorical(x):
    weights = jnp.asarray(TABLE, x.dtype)
    return x[0] @ weights @ x[1] + jnp.sum(jnp.tanh(2 * x[0])) * x[1, 2]


SPACES = {
    "binary": (srmc.Binary(), binary, (3,)),
    "ordinal": (srmc.Ordinal(3), ordinal, (2,)),
    "categorical": (srmc.Categorical(3), categorical, (2,)),
}
KERNELS = {
    "flip_mh": srmc.flip_mh,
    "gibbs": srmc.gibbs,
    "gibbs-systematic": lambda f, space, **kw: srmc.gibbs(f, space, "systematic", **kw),
    "balanced": srmc.locally_balanced,
    "balanced-barker": lambda f, space, **kw: srmc.locally_balanced(f, space, "barker", **kw),
    "balanced-max": lambda f, space, **kw: srmc.locally_balanced(f, space, "max", **kw),
    "gwg": lambda f, space, **kw: srmc.gwg(f, space, 1.7, **kw),
    "dlp": lambda f, space, **kw: srmc.dlp(f, space, 0.7, **kw),
}
FEATURES = ("gibbs", "stein", "relaxed-gibbs", "relaxed")


def cases():
    for space in SPACES:
        for kernel in KERNELS:
            yield space, kernel, None
    for kernel in ("flip_mh", "gibbs", "balanced", "gwg", "dlp"):
        for feature in FEATURES:
            yield "binary", kernel, feature
    for kernel in ("flip_mh", "balanced", "gwg", "dlp"):
        yield "ordinal", kernel, "stein"
        yield "categorical", kernel, "gibbs"
    for kernel in ("flip_mh", "gibbs", "balanced", "gwg", "dlp"):
        yield "binary", kernel, "sites"
    yield "ordinal", "dlp", "sites"
    for kernel in ("flip_mh", "gibbs", "gwg"):
        yield "categorical", kernel, "sites"


def repelled(build, logdensity_fn, space, feature):
    """The sampler with a history that stands still, or the plain one if there is no feature."""
    options = {"alpha": 0.0}
    if feature == "sites":
        options = {"alpha": ALPHA, "bend": "sites", "gain": srmc.gain(scale=0.0)}
    elif feature is not None:
        options = {"alpha": ALPHA, "feature": feature, "bend": "feature"}
        options["gain"] = srmc.gain(scale=0.0)
    return build(logdensity_fn, space, **options)


def observed(algorithm, space, states, theta, num_keys):
    """From each state, many single steps: indices of proposals, and the kernel's own numbers."""
    digits = space.num_values ** jnp.arange(len(space.labels(states[0])))
    index = lambda x: jnp.sum(space.labels(x) * digits)

    def one(x, key):
        state = algorithm.init(x, theta=theta)
        after, info = algorithm.step(key, state)
        inner = info.inner_info
        return (
            *(index(inner.proposal), inner.log_proposal, inner.acceptance_rate),
            *(index(after.position), state.feature),
        )

    program = jax.vmap(jax.vmap(one, (None, 0)), (0, None))
    keys = jax.random.split(jax.random.key(0), num_keys)
    return map(np.asarray, jax.jit(program)(states, keys))


def surrogate(space, logdensity_fn, shape, theta, feature):
    states = jnp.asarray(space.all_states(shape))
    values = np.asarray(jax.vmap(logdensity_fn)(states))
    return states, values - ALPHA * np.sum(
        np.asarray(theta) * feature, axis=tuple(range(1, feature.ndim))
    )


def normalised(log_values):
    weights = np.exp(log_values - log_values.max())
    return weights / weights.sum()


@pytest.mark.usefixtures("x64")
@pytest.mark.filterwarnings("ignore:feature=")
@pytest.mark.parametrize(("where", "kernel", "feature"), list(cases()))
def test_the_surrogate_is_invariant(where, kernel, feature):
    """The transition matrix, from the kernel's own probabilities, leaves pi_theta alone."""
    space, logdensity_fn, shape = SPACES[where]
    algorithm = repelled(KERNELS[kernel], logdensity_fn, space, feature)
    states = jnp.asarray(space.all_states(shape))
    bounded = (None, "gibbs", "relaxed-gibbs", "sites")
    size = 0.4 if feature in bounded else 0.05
    theta = jnp.asarray(size * np.random.default_rng(5).normal(size=states.shape[1:]))
    to, log_q, rate, _, phi = observed(algorithm, space, states, theta, 3000)
    by = -np.asarray(states) if feature == "sites" else phi[:, 0]
    _, log_pi = surrogate(space, logdensity_fn, shape, theta if feature else 0 * theta, by)
    pi = normalised(log_pi)
    count = len(states)
    matrix = np.zeros((count, count))
    for x in range(count):
        share = 1 / np.prod(shape) if kernel == "gibbs" else 1.0  # the site's own probability
        for y in np.unique(to[x]):
            seen = np.flatnonzero(to[x] == y)
            if y != x:  # what stays is what is left
                flows = share * np.exp(log_q[x, seen]) * rate[x, seen]
                np.testing.assert_allclose(flows, flows[0], rtol=1e-10)
                matrix[x, y] = flows[0]
    np.testing.assert_array_equal(matrix > 0, matrix.T > 0)  # all that is possible was seen
    stay = 1 - matrix.sum(axis=1)
    assert np.all(stay > -1e-12)
    matrix += np.diag(stay)
    np.testing.assert_allclose(pi @ matrix, pi, atol=1e-10)
    if kernel != "gibbs-systematic":  # of which this is one site's turn
        np.testing.assert_allclose(np.linalg.matrix_power(matrix, 1000)[0], pi, atol=1e-6)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(("where", "feature"), [("binary", "gibbs"), ("categorical", None)])
def test_several_sites_at_once(where, feature):
    """Many orders of sites lead to one state, so that draws have to tell."""
    space, logdensity_fn, shape = SPACES[where]
    build = lambda f, space, **kw: srmc.gwg(f, space, num_sites=2, **kw)
    algorithm = repelled(build, logdensity_fn, space, feature)
    states = jnp.asarray(space.all_states(shape))
    theta = jnp.asarray(0.4 * np.random.default_rng(5).normal(size=states.shape[1:]))
    draws = 40_000
    _, _, _, after, phi = observed(algorithm, space, states, theta, draws)
    _, log_pi = surrogate(space, logdensity_fn, shape, theta if feature else 0 * theta, phi[:, 0])
    pi = normalised(log_pi)
    matrix = np.stack([np.bincount(row, minlength=len(pi)) / draws for row in after])
    variance = np.sum(pi[:, None] ** 2 * matrix * (1 - matrix), axis=0) / draws
    assert np.all(np.abs(pi @ matrix - pi) < 5 * np.sqrt(variance))
    assert np.mean(matrix.diagonal()) < 0.9


@pytest.mark.parametrize(
    ("where", "kernel"), [*(("binary", kernel) for kernel in KERNELS), ("categorical", "gwg")]
)
def test_alpha_zero_is_the_base_kernel_bit_for_bit(where, kernel):
    space, logdensity_fn, shape = SPACES[where]
    name, _, variant = kernel.partition("-")
    bases = {
        "flip_mh": (srmc.kernels.plain.flip_mh,),
        "gibbs": (srmc.kernels.plain.gibbs, variant or "random"),
        "balanced": (srmc.kernels.plain.locally_balanced, variant or "sqrt"),
        "gwg": (srmc.kernels.plain.gwg, 1.7),
        "dlp": (srmc.kernels.plain.dlp, 0.7),
    }
    base, *arguments = bases[name]
    plain = base(logdensity_fn, space, *arguments)
    ours = KERNELS[kernel](logdensity_fn, space, alpha=0.0)
    x = jnp.zeros(shape, int)

    def path(algorithm):
        one = lambda state, key: 2 * (algorithm.step(key, state)[0],)
        keys = jax.random.split(jax.random.key(0), 50)
        return jax.jit(lambda: jax.lax.scan(one, algorithm.init(x), keys)[1].position)()

    found = path(plain)
    np.testing.assert_array_equal(found, path(ours))
    assert len(np.unique(found, axis=0)) > 1


def test_unadjusted_proposals_are_always_taken():
    """Also those that a Metropolis correction would often reject."""
    steep = lambda x: 5 * binary(x)
    for adjusted in (False, True):
        algorithm = srmc.dlp(steep, srmc.Binary(), 5.0, adjusted=adjusted, alpha=0.0)
        state, step, taken = algorithm.init(jnp.zeros(3)), jax.jit(algorithm.step), []
        for n in range(40):
            state, info = step(jax.random.key(n), state)
            taken.append(np.all(np.asarray(state.position == info.inner_info.proposal)))
        assert np.all(taken) != adjusted
