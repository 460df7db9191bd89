"""Path auxiliary sampling and discrete Langevin Monte Carlo: exact, kernel x feature x space."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc
from enumerated import ALPHA, SPACES, normalised, observed, repelled


def late_in_the_cycle(logdensity_fn, space, **options):
    """ACS at the last step of a cycle, which is the shortest."""
    algorithm = srmc.acs(logdensity_fn, space, 0.6, 4, 2.0, **options)

    def init(*args, **kwargs):
        state = algorithm.init(*args, **kwargs)
        return state._replace(inner_state=state.inner_state._replace(turn=jnp.asarray(3)))

    return algorithm._replace(init=init)


KERNELS = {
    "path": lambda f, space, **kw: srmc.path_auxiliary(f, space, 1.3, **kw),
    "path-barker": lambda f, space, **kw: srmc.path_auxiliary(f, space, 1.2, "barker", **kw),
    "path-traced": lambda f, space, **kw: srmc.path_auxiliary(f, space, jnp.float64(1.3), **kw),
    "dlmc": lambda f, space, **kw: srmc.dlmc(f, space, 0.8, **kw),
    "dlmc-barker": lambda f, space, **kw: srmc.dlmc(f, space, 1.5, "barker", **kw),
    "acs": lambda f, space, **kw: srmc.acs(f, space, 0.6, 4, 2.0, **kw),
    "acs-late": late_in_the_cycle,
    "dlmc-max": lambda f, space, **kw: srmc.dlmc(f, space, 0.5, "max", **kw),
}
NUM_KEYS = {
    "path": 6000,
    "dlmc": 80_000,
    "acs": 20_000,
    "acs-": 80_000,
}  # all sites at once make some moves rare
# Each kernel meets each feature, and each space with a bend by feature, by sites and with none.
FEATURES = {
    "path": {"binary": ("gibbs", "relaxed"), "ordinal": ("stein",), "categorical": ("gibbs",)},
    "dlmc": {"binary": ("stein",), "ordinal": ("relaxed-gibbs",), "categorical": ("relaxed",)},
}


def cases():
    for kernel, by_space in FEATURES.items():
        for where, features in by_space.items():
            for feature in (None, "sites", *features):
                yield where, kernel, feature
    yield "categorical", "path", "relaxed-gibbs"
    yield "categorical", "dlmc", "gibbs"
    for where in FEATURES["path"]:
        for feature in (None, "gibbs", "sites"):
            yield where, "acs", feature
        yield where, "acs-late", "sites"
    for kernel in ("path-barker", "dlmc-barker", "dlmc-max"):
        yield "categorical", kernel, "sites"


def surrogate(where, theta, feature, phi):
    """The distribution that the chain should leave invariant."""
    space, logdensity_fn, shape = SPACES[where]
    states = jnp.asarray(space.all_states(shape))
    values = np.asarray(jax.vmap(logdensity_fn)(states))
    if feature is None:
        return normalised(values)
    by = -np.asarray(states) if feature == "sites" else phi
    more = np.sum(np.asarray(theta) * by, axis=tuple(range(1, by.ndim)))
    return normalised(values - ALPHA * more)


def transitions(to, log_q, rate):
    """The transition matrix; a state may be reached by several paths, each with its own chance.

    Paths of equal probabilities would be taken for one, and be missed in the sum.
    """
    count = len(to)
    matrix = np.zeros((count, count))
    for x in range(count):
        _, first = np.unique(np.round(100 * to[x] + log_q[x], 9), return_index=True)
        q = np.exp(log_q[x, first])
        assert q.sum() == pytest.approx(1, abs=1e-9)  # all that is possible was seen
        np.add.at(matrix[x], to[x, first], q * rate[x, first])
        matrix[x, x] += 1 - matrix[x].sum()
    return matrix


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
    to, log_q, rate, after, phi = observed(algorithm, space, states, theta, NUM_KEYS[kernel[:4]])
    pi = surrogate(where, theta, feature, phi[:, 0])
    matrix = transitions(to, log_q, rate)
    np.testing.assert_allclose(pi @ matrix, pi, atol=1e-10)
    np.testing.assert_allclose(np.linalg.matrix_power(matrix, 1000)[0], pi, atol=1e-6)
    # The draws have these probabilities.
    share = np.stack([np.bincount(row, minlength=len(pi)) / len(row) for row in after])
    error = np.sqrt(np.maximum(matrix * (1 - matrix), 0) / after.shape[1])
    assert np.all(np.abs(share - matrix) < 5 * error + 1e-12)
