"""Kernels without a Metropolis correction need a score and no log density."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc
from helpers import MODES, log_gamma, log_gamma_tree, short_chain

START = np.array([0.3, 1.0])
SCORE = jax.grad(log_gamma)
BUILDERS = {
    "ula": functools.partial(srmc.ula, step_size=0.02),
    "ula-scaled": functools.partial(srmc.ula, step_size=0.02, scale=np.array([0.5, 2.0])),
    "uld": functools.partial(srmc.uld, step_size=0.2, friction=0.7),
}
OPTIONS = {
    "plain": {"alpha": 0.0},
    "tilt": srmc.paper_settings(0.4),
    "tilt-finite-difference": srmc.paper_settings(0.4, hvp="finite-difference"),
    "tilt-every-third": srmc.paper_settings(0.4) | {"history_every": 3},
    "shift-fixed": {"alpha": 0.4} | MODES["shift-fixed"],
    "shift-moving": {"alpha": 0.4} | MODES["shift-moving"],
}


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("name", "options"),
    [
        *(("ula", options) for options in OPTIONS),
        *(("ula-scaled", options) for options in ("plain", "tilt-finite-difference")),
        *(("uld", options) for options in ("plain", "tilt", "tilt-every-third", "shift-moving")),
    ],
)
def test_the_draws_are_those_with_the_log_density(name, options):
    build = functools.partial(BUILDERS[name], **OPTIONS[options])
    keep = lambda state, info: (state.position, state.theta, info.gradients, info.hvps)
    found, expected = (
        short_chain(algorithm, jax.random.key(0), jnp.asarray(START), 40, keep)[1]
        for algorithm in (build(score_fn=SCORE), build(log_gamma))
    )
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)
    assert len(np.unique(found[0][:, 0])) == 40


@pytest.mark.parametrize(("hvp", "calls"), [("exact", 2), ("finite-difference", 2)])
def test_the_score_is_called_as_often_as_reported(hvp, calls):
    seen = []

    def counted(x):
        jax.debug.callback(lambda: seen.append(1))
        return SCORE(x)

    algorithm = srmc.ula(score_fn=counted, step_size=0.02, **srmc.paper_settings(0.4, hvp=hvp))
    state, step = algorithm.init(jnp.ones(2)), jax.jit(algorithm.step)
    jax.effects_barrier()
    seen.clear()
    _, info = jax.block_until_ready(step(jax.random.key(0), state))
    jax.effects_barrier()
    assert (len(seen), int(info.gradients)) == (calls, calls)


def test_a_score_may_have_no_density():
    """A field that turns, as a network's may; of finite differences no derivative is taken."""
    turning = lambda x: jax.lax.stop_gradient(jnp.array([-x[0] - x[1], x[0] - x[1]]))
    options = srmc.paper_settings(0.4, hvp="finite-difference")
    algorithm = srmc.ula(score_fn=turning, step_size=0.05, **options)
    theta = jnp.array([1.0, 2.0])
    x = jnp.array([0.5, -1.0])
    state, _ = algorithm.step(jax.random.key(0), algorithm.init(x, theta=theta))
    plain, _ = srmc.ula(score_fn=turning, step_size=0.05, alpha=0.0).step(
        jax.random.key(0), srmc.ula(score_fn=turning, step_size=0.05, alpha=0.0).init(x)
    )
    push = turning(x) - turning(x + 0.4 * theta)
    np.testing.assert_allclose(state.position - plain.position, 0.05 * push, rtol=1e-4)


def test_positions_may_be_trees():
    score = jax.grad(log_gamma_tree)
    start = {"a": jnp.asarray(0.3), "b": jnp.ones(1)}
    algorithm = srmc.uld(score_fn=score, step_size=0.1, **srmc.paper_settings(0.2))
    state, info = algorithm.step(jax.random.key(1), algorithm.init(start, jax.random.key(0)))
    assert bool(info.is_finite)
    assert float(state.logdensity) == 0
    np.testing.assert_allclose(state.theta["b"], 2**-0.6 * score(state.position)["b"], rtol=1e-5)


def test_an_algorithm_of_one_s_own_says_that_it_uses_no_values():
    def mine(logdensity_fn, step_size):
        return srmc.kernels.plain.ula(logdensity_fn, step_size)

    with pytest.raises(ValueError, match="got mine; give it logdensity_fn"):
        srmc.repel(mine, score_fn=SCORE, step_size=0.02)
    mine.adjusted = False
    algorithm = srmc.repel(mine, score_fn=SCORE, step_size=0.02)
    state, _ = algorithm.step(jax.random.key(0), algorithm.init(jnp.ones(2)))
    assert np.all(np.isfinite(state.position))


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: srmc.ula(step_size=0.1), TypeError, "one of .* must be given, got neither"),
        (lambda: srmc.ula(log_gamma, 0.1, score_fn=SCORE), TypeError, "given, got both"),
        (lambda: srmc.ula(score_fn=SCORE), TypeError, "step_size must be given"),
        (lambda: srmc.uld(score_fn=SCORE), TypeError, "step_size must be given"),
        (lambda: srmc.mala(None, 0.1, score_fn=SCORE), ValueError, "got mala; give it logdensity"),
        (lambda: srmc.nuts(None, 0.1, score_fn=SCORE), ValueError, "got nuts; give it logdensity"),
        (lambda: srmc.gwg(None, srmc.Binary(), score_fn=SCORE), ValueError, "got gwg"),
        (lambda: srmc.ula(score_fn=2.0, step_size=0.1), TypeError, "score_fn must be a function"),
        (
            lambda: srmc.ula(score_fn=lambda x: x[:1], step_size=0.1).init(jnp.ones(2)),
            ValueError,
            r"score_fn must return what has the shape of the position, \(2,\), got \(1,\)",
        ),
        (
            lambda: srmc.ula(score_fn=lambda x: x / 0, step_size=0.1).init(jnp.ones(2)),
            ValueError,
            "must be finite at the start",
        ),
    ],
)
def test_bad_input_is_named(make, error, words):
    with pytest.raises(error, match=words):
        make()


def mh(f, **kw):
    return srmc.mh(f, 0.8, **kw)


def mala(f, **kw):
    return srmc.mala(f, 0.1, **kw)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("build", [mh, mala])
def test_from_the_first_score_theta_is_the_plain_average(build, average):
    """theta_n = (s(X_0) + ... + s(X_n)) / (n + 1) for rho = 1 (eq:theta_def)."""
    options = srmc.paper_settings(0.3, rho=1.0) | {"history_start": "score"}
    algorithm = build(log_gamma, **options | {"history_average": average})
    state = algorithm.init(jnp.asarray(START))
    np.testing.assert_allclose(state.theta, SCORE(START), rtol=1e-12)
    scores = [SCORE(state.position)]
    for n in range(5):
        state, _ = algorithm.step(jax.random.key(n), state)
        scores.append(SCORE(state.position))
    if not average:
        np.testing.assert_allclose(state.theta, np.mean(scores, axis=0), rtol=1e-10)


@pytest.mark.usefixtures("x64")
def test_the_start_of_the_history_on_a_discrete_space_and_by_hand():
    f = lambda x: jnp.sum(jnp.sin(2 * x[:-1] + 3 * x[1:]))
    x = jnp.asarray([1.0, 0.0, 1.0])
    algorithm = srmc.gwg(f, srmc.Binary(), feature="stein", history_start="score")
    flipped = jax.vmap(f)(jnp.abs(x[None] - jnp.eye(3)))
    np.testing.assert_allclose(algorithm.init(x).theta, jnp.exp(flipped - f(x)) - 1, rtol=1e-12)
    np.testing.assert_array_equal(algorithm.init(x, theta=jnp.ones(3)).theta, 1)
    np.testing.assert_array_equal(srmc.gwg(f, srmc.Binary()).init(x).theta, 0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"history_start": "mean"}, "history_start must be one of 'zero', 'score', got 'mean'"),
        ({"history_start": "score", "history_axis": "chain"}, "needs history_axis=None"),
    ],
)
def test_a_bad_start_of_the_history_is_named(options, words):
    with pytest.raises(ValueError, match=words):
        mala(log_gamma, **options)
