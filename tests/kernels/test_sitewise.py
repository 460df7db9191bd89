"""Kernels on discrete spaces: exact invariance of the surrogate, from their own probabilities."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc
from enumerated import ALPHA, SPACES, binary, normalised, observed, repelled

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
    for kernel in KERNELS:
        # Balancing functions act on the rates alone, whatever the space.
        for space in SPACES if kernel not in ("balanced-barker", "balanced-max") else ["binary"]:
            yield space, kernel, None
    # By kinds of guide: none, the changes themselves, their gradients.
    for kernel in ("flip_mh", "balanced", "gwg"):
        for feature in FEATURES:
            yield "binary", kernel, feature
    for kernel in ("gibbs", "dlp"):
        yield "binary", kernel, "gibbs"
    for kernel in ("flip_mh", "balanced", "gwg", "dlp"):
        yield "ordinal", kernel, "stein"
        yield "categorical", kernel, "gibbs"
    for kernel in ("flip_mh", "gibbs", "balanced", "gwg", "dlp"):
        yield "binary", kernel, "sites"
    yield "ordinal", "dlp", "sites"
    for kernel in ("flip_mh", "gibbs", "gwg"):
        yield "categorical", kernel, "sites"


def surrogate(space, logdensity_fn, shape, theta, feature):
    states = jnp.asarray(space.all_states(shape))
    values = np.asarray(jax.vmap(logdensity_fn)(states))
    return states, values - ALPHA * np.sum(
        np.asarray(theta) * feature, axis=tuple(range(1, feature.ndim))
    )


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
