"""SR-GWG and SR-DLP against a transcription of the paper (subsec:sr-gwg, alg:sr_discrete)."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc

ALPHA, TAU, ETA = 1.5, 0.6, 0.7
pytestmark = pytest.mark.filterwarnings("ignore:feature=")


def binary(x):
    """Linear in no site, with a Hessian that varies."""
    return jnp.sum(jnp.sin(2 * x[:-1] + 3 * x[1:])) + 0.4 * x[0] - 0.8 * x[2] ** 2 * x[1]


def ordinal(x):
    return 0.5 * jnp.cos(x[0] * x[1]) - 0.3 * (x[0] - 1.2) ** 2 + 0.2 * x[1]


def categorical(x):
    return 2 * jnp.sum(jnp.sin(x[0] * x[1][::-1] + x[0])) + x[0, 1] ** 2 * x[1, 2]


SPACES = {
    "binary": (srmc.Binary(), binary, (3,)),
    "ordinal": (srmc.Ordinal(3), ordinal, (2,)),
    "categorical": (srmc.Categorical(3), categorical, (2,)),
}
KERNELS = {
    "gwg": lambda f, space, **kw: srmc.gwg(f, space, 1 / TAU, **kw),
    "dlp": lambda f, space, **kw: srmc.dlp(f, space, ETA, **kw),
}


def settings(hvp="exact", alpha=ALPHA):
    return srmc.paper_settings(alpha, hvp=hvp, discrete=True) | {"gain": srmc.gain(scale=0.0)}


def surrogate_score(hvp, logdensity_fn, x, theta):
    """s + alpha (Hess U) theta, with U = -log pi (eq:surrogate-score, eq:hessian_approximation)."""
    s = jax.grad(logdensity_fn)
    if hvp == "exact":
        hessian_u = -jax.hessian(logdensity_fn)(x).reshape(x.size, x.size)
        return s(x) + ALPHA * (hessian_u @ theta.ravel()).reshape(x.shape)
    if hvp == "finite-difference":  # with epsilon = alpha
        return s(x) + ALPHA * (-s(x + ALPHA * theta) + s(x)) / ALPHA
    return s(x - ALPHA * theta)


def transcribed(kernel, hvp, space, logdensity_fn, states, theta):
    """Proposal probabilities, acceptance probabilities, and log pi_theta, state by state."""
    n, axes = len(states), tuple(range(1, states.ndim))

    @jax.jit
    @jax.vmap
    def evaluate(x):
        drift = surrogate_score(hvp, logdensity_fn, x, theta)
        return drift, logdensity_fn(x) - ALPHA * jnp.sum(jax.grad(logdensity_fn)(x) * theta)

    drift, log_pi = map(np.asarray, evaluate(states))
    q = np.zeros((n, n))
    for i, x in enumerate(np.asarray(states)):
        steps = np.asarray(states) - x
        if kernel == "gwg":
            rows = steps.reshape(n, -1, space.width)
            moved = np.sum(np.any(rows != 0, axis=2), axis=1)
            q[i] = np.where(moved == 1, np.exp(TAU * np.sum(drift[i] * steps, axis=axes)), 0)
        else:
            q[i] = np.exp(-np.sum((steps - ETA * drift[i]) ** 2, axis=axes) / (4 * ETA))
        q[i] /= q[i].sum()
    ratio = np.exp(log_pi[None] - log_pi[:, None])
    accept = np.minimum(1, np.divide(ratio * q.T, q, where=q > 0, out=np.zeros_like(q)))
    return q, accept, log_pi


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("where", "kernel", "hvp"),
    [
        *itertools.product(SPACES, KERNELS, ["exact"]),
        *itertools.product(["binary"], KERNELS, ["finite-difference", "shifted"]),
    ],
)
def test_proposals_and_acceptance_are_the_paper_s(where, kernel, hvp):
    space, logdensity_fn, shape = SPACES[where]
    states = jnp.asarray(space.all_states(shape))
    theta = jnp.asarray(0.3 * np.random.default_rng(5).normal(size=states.shape[1:]))
    q, accept, log_pi = transcribed(kernel, hvp, space, logdensity_fn, states, theta)

    pi = np.exp(log_pi - log_pi.max())
    pi /= pi.sum()
    matrix = q * accept
    matrix += np.diag(1 - matrix.sum(axis=1))
    np.testing.assert_allclose(pi @ matrix, pi, atol=1e-12)

    algorithm = KERNELS[kernel](logdensity_fn, space, **settings(hvp))
    digits = space.num_values ** jnp.arange(int(np.prod(shape)))

    def one(x, key):
        inner = algorithm.step(key, algorithm.init(x, theta=theta))[1].inner_info
        to = jnp.sum(space.labels(inner.proposal) * digits)
        return to, inner.log_proposal, inner.acceptance_rate

    keys = jax.random.split(jax.random.key(0), 300)
    program = jax.jit(jax.vmap(jax.vmap(one, (None, 0)), (0, None)))
    to, log_q, rate = map(np.asarray, program(states, keys))
    source = np.broadcast_to(np.arange(len(states))[:, None], to.shape)
    np.testing.assert_allclose(np.exp(log_q), q[source, to], rtol=1e-10)
    np.testing.assert_allclose(rate, accept[source, to], rtol=1e-10)


@pytest.mark.usefixtures("x64")
def test_the_proposal_without_a_tilt_is_another_one():
    """Then only the acceptance knows of the history."""
    space, logdensity_fn, shape = SPACES["binary"]
    x, theta = jnp.ones(shape), jnp.asarray([0.3, -0.4, 0.2])
    untilted = {k: v for k, v in settings().items() if k != "surrogate"}
    found = []
    for options in (settings(), untilted, {"alpha": 0.0}):
        algorithm = srmc.dlp(logdensity_fn, space, ETA, **options)
        step = algorithm.step(jax.random.key(3), algorithm.init(x, theta=theta))
        found.append(float(step[1].inner_info.log_proposal))
    assert found[1] == found[2] != found[0]


@pytest.mark.parametrize(
    ("build", "hvp", "gradients", "products"),
    [
        (srmc.gwg, "exact", 3, 2),
        (srmc.gwg, "finite-difference", 3, 0),
        (srmc.gwg, "shifted", 3, 0),
        (lambda f, space, **kw: srmc.dlp(f, space, ETA, **kw), "exact", 3, 2),
        (lambda f, space, **kw: srmc.dlp(f, space, ETA, False, **kw), "exact", 2, 1),
        (srmc.flip_mh, "exact", 1, 0),
    ],
)
def test_the_cost_is_what_the_log_density_sees(build, hvp, gradients, products):
    seen = []

    def counted(x):
        jax.debug.callback(lambda: seen.append(1))
        return binary(x)

    algorithm = build(counted, srmc.Binary(), **settings(hvp))
    state, step = algorithm.init(jnp.zeros(3)), jax.jit(algorithm.step)
    jax.effects_barrier()
    seen.clear()
    _, info = jax.block_until_ready(step(jax.random.key(0), state))
    jax.effects_barrier()
    assert (int(info.gradients), int(info.hvps), len(seen)) == (gradients, products, gradients)


@pytest.mark.parametrize("build", [srmc.flip_mh, srmc.gibbs, srmc.locally_balanced])
def test_kernels_without_a_gradient_are_as_printed_with_or_without_a_tilt(build):
    space, logdensity_fn, shape = SPACES["binary"]
    paths = []
    for options in (settings(), {k: v for k, v in settings().items() if k != "surrogate"}):
        algorithm = build(logdensity_fn, space, **options)
        keys = jax.random.split(jax.random.key(0), 30)
        one = lambda state, key, algorithm=algorithm: 2 * (algorithm.step(key, state)[0],)
        start = algorithm.init(jnp.zeros(shape), theta=jnp.asarray([0.3, -0.4, 0.2]))
        paths.append(jax.lax.scan(one, start, keys)[1].position)
    np.testing.assert_array_equal(*paths)
