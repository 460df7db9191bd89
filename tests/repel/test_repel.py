"""Algorithm 1 around every kernel: the invariants of the design, exactly or from replicates."""

import functools

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blackjax.util import run_inference_algorithm

import srmc
from helpers import (
    ADJUSTED,
    BASES,
    KERNELS,
    MEAN,
    MODES,
    SHAPES,
    VARIANCE,
    chain,
    log_gamma,
    log_gamma_tree,
    short_chain,
)
from srmc.repel import affine, along, history

START = np.array([0.3, 1.0])


def by_hand(algorithm, start, num_steps, keep):
    """A chain op by op: a compiler may round one program differently from another."""
    state, kept = algorithm.init(start, jax.random.key(1)), []
    for n in range(num_steps):
        state, _ = algorithm.step(jax.random.key(n), state)
        kept.append(keep(state))
    return np.array(kept)


@pytest.mark.parametrize(
    ("name", "precision"), [*((name, 32) for name in KERNELS), ("rmh", 64), ("hmc", 64)]
)
def test_alpha_zero_and_the_moving_base_chain_are_the_base_kernel_bit_for_bit(name, precision):
    with jax.enable_x64(precision == 64):
        start = jnp.asarray(START)
        takes_key = name in ("ghmc", "dynamic_hmc", "adjusted_mclmc", "uld")
        base = BASES[name](log_gamma)
        if not takes_key:
            base = base._replace(init=lambda x, key, init=base.init: init(x))
        expected = by_hand(base, start, 3, lambda s: s.position)
        plain = KERNELS[name](log_gamma, alpha=0.0)
        np.testing.assert_array_equal(by_hand(plain, start, 3, lambda s: s.position), expected)
        moving = KERNELS[name](
            log_gamma, alpha=5.0, gain=srmc.gain(0.8, delay=9), **MODES["shift-moving"]
        )
        kept = by_hand(moving, start, 3, lambda s: (s.position, s.inner_state.position))
        np.testing.assert_array_equal(kept[:, 1], expected)
        assert np.abs(kept[:, 0] - kept[:, 1]).max() > 0.01


EXACT = {
    "tilt-forward": srmc.tilt(),
    "tilt-finite-difference": srmc.tilt("finite-difference", eps=0.5),
    "tilt-central": srmc.tilt("finite-difference", eps=0.5, central=True),
    "tilt-shifted": srmc.tilt("shifted"),
    "shift": srmc.shift(),
}
ALPHA, THETA = 2.0, np.array([0.3, -0.4])


def exact_draws(surrogate, key, n):
    """Draws of pi_theta: a tilted log-gamma is log-gamma with another rate, a shifted one moves."""
    logs = np.log(np.asarray(jax.random.gamma(key, SHAPES, (n, 2))))
    v = ALPHA * THETA
    return logs + v if surrogate == "shift" else logs - np.log(1 - v)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("name", "surrogate"),
    [
        *((name, "tilt-forward") for name in ADJUSTED),
        *((name, "shift") for name in ("rmh", "mala", "ghmc")),
        *(("hmc", surrogate) for surrogate in EXACT if surrogate not in ("tilt-forward", "shift")),
    ],
)
def test_adjusted_kernels_leave_the_surrogate_invariant(name, surrogate):
    """Independent chains that start in pi_theta are in pi_theta after some steps."""
    n, steps = 10_000, 12
    algorithm = KERNELS[name](
        log_gamma,
        alpha=ALPHA,
        surrogate=EXACT[surrogate],
        frame="fixed",
        gain=srmc.gain(scale=0.0),
    )

    @jax.jit
    @jax.vmap
    def run(key, x):
        init_key, run_key = jax.random.split(key)
        state = algorithm.init(x, init_key, THETA)
        one = lambda state, key: (algorithm.step(key, state)[0], None)
        state, _ = jax.lax.scan(one, state, jax.random.split(run_key, steps))
        return state.position

    key = jax.random.key(2)
    starts = exact_draws(surrogate, jax.random.fold_in(key, 0), n)
    ends = np.asarray(run(jax.random.split(key, n), starts))
    v = ALPHA * THETA
    mean = MEAN + v if surrogate == "shift" else MEAN - np.log(1 - v)
    assert np.mean(np.any(ends != np.asarray(starts), axis=1)) > 0.9
    for power in (1, 2, 3):
        errors = (ends - mean) ** power - np.mean((np.asarray(starts) - mean) ** power, axis=0)
        z = errors.mean(axis=0) / (errors.std(axis=0) * np.sqrt(2 / n))
        assert np.all(np.abs(z) < 5), (power, z)


@pytest.mark.usefixtures("x64")
def test_the_invariance_test_has_power():
    """The plain kernel, which leaves pi alone, moves the same draws away from pi_theta."""
    n = 20_000
    starts = exact_draws("tilt", jax.random.key(0), n)
    step = jax.jit(
        jax.vmap(lambda k, x: short_chain(BASES["mala"](log_gamma), k, x, 12, lambda *_: 0))
    )
    ends, _ = step(jax.random.split(jax.random.key(1), n), starts)
    moved = np.asarray(ends.position).mean(axis=0) - np.asarray(starts).mean(axis=0)
    assert np.all(np.abs(moved) > 10 * np.sqrt(2 * VARIANCE / n))


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("name", "mode"),
    [
        # A moving base chain is that of the plain kernel, as tested above for all of them.
        *((name, "shift-moving") for name in ("rmh", "mala", "hmc", "ghmc", "uld")),
        *((name, mode) for name in ("rmh", "mala", "ula") for mode in ("tilt", "shift-fixed")),
        ("hmc", "tilt"),
    ],
)
def test_long_runs_find_the_mean_and_forget(name, mode):
    chains, steps = 64, 3000
    algorithm = KERNELS[name](
        log_gamma,
        alpha=srmc.gain_limited(0.5, top_eigenvalue=4.0),
        gain=srmc.gain(0.8, scale=0.3, delay=20),
        history_average=True,
        **MODES[mode],
    )
    run = jax.vmap(
        lambda key, x: short_chain(algorithm, key, x, steps, lambda s, i: (s.position, s.theta))
    )
    starts = jnp.log(jax.random.gamma(jax.random.key(5), SHAPES, (chains, 2)))
    _, (draws, theta) = run(jax.random.split(jax.random.key(3), chains), starts)
    means = np.asarray(draws)[:, steps // 5 :].mean(axis=1)
    z = (means.mean(axis=0) - MEAN) / (means.std(axis=0, ddof=1) / np.sqrt(chains))
    bias = 0.02 if name in ("ula", "uld") else 0.0  # of their discretization, at these steps
    margin = 4.5 + bias / (means.std(axis=0, ddof=1) / np.sqrt(chains))
    assert np.all(np.abs(z) < margin), (means.mean(axis=0), MEAN, z)
    size = np.sqrt(np.mean(np.asarray(theta) ** 2, axis=(0, 2)))
    assert size[-100:].mean() < 0.5 * size[20:120].mean()


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        *((name, "shift-moving") for name in KERNELS),
        *(("mala", mode) for mode in ("tilt", "shift-fixed")),
        *((name, "tilt") for name in ("uld", "ghmc")),
    ],
)
def test_pytrees_under_vmap_with_a_nan_region(name, mode):
    """Types and structures stay; what is not finite is rejected, counted and survived."""

    def broken(x):
        return jnp.where(x["a"] < 0.2, jnp.nan, log_gamma_tree(x))

    with jax.enable_x64(mode == "tilt"):
        x = {"a": jnp.ones(5), "b": jnp.ones((5, 1))}
        algorithm = KERNELS[name](broken, alpha=0.3, **MODES[mode])
        keep = lambda s, i: (s.position, i.gradients, i.is_finite)
        run = jax.vmap(lambda k, x: short_chain(algorithm, k, x, 200, keep))
        state, kept = run(jax.random.split(jax.random.key(0), 5), x)
        position, theta = jax.tree.map(np.asarray, (state.position, state.theta))
        draws, gradients, is_finite = jax.tree.map(np.asarray, kept)
    for tree in (position, theta, draws):
        assert jax.tree.structure(tree) == jax.tree.structure(x)
        for leaf in jax.tree.leaves(tree):
            assert leaf.dtype == x["a"].dtype
            assert np.all(np.isfinite(leaf))
    assert all(np.all(leaf != 0) for leaf in jax.tree.leaves(theta))
    assert np.all(gradients > 0)
    assert np.sum(~is_finite) > 5
    if mode != "shift-fixed":  # whose surrogate has its edge elsewhere
        assert np.all(draws["a"] >= 0.2)
    if mode == "shift-moving":
        for chain_draws in draws["a"]:
            assert len(np.unique(chain_draws[100:])) > 10  # the chain moves on


def test_an_infinite_density_is_refused_too():
    spike = lambda x: jnp.where(x[0] < 0.2, jnp.inf, log_gamma(x))
    for mode in ("tilt", "shift-moving"):  # the edge of a shifted target is elsewhere
        algorithm = srmc.mh(spike, 0.8, **MODES[mode])
        _, draws = short_chain(
            algorithm, jax.random.key(0), jnp.ones(2), 200, lambda s, i: s.position
        )
        assert np.all(draws[:, 0] >= 0.2)


@pytest.mark.parametrize(
    ("name", "mode", "every"),
    [
        ("rmh", "tilt", 1),
        ("rmh", "shift-fixed", 3),
        ("rmh", "shift-moving", 3),
        ("nuts", "tilt", 1),
    ],
)
def test_the_log_density_is_traced_a_fixed_number_of_times(name, mode, every):
    traces = 0

    def counted(x):
        nonlocal traces
        traces += 1
        return log_gamma(x)

    algorithm = KERNELS[name](counted, alpha=0.5, history_every=every, **MODES[mode])
    state = algorithm.init(jnp.ones(2))
    step = jax.jit(algorithm.step)
    state, _ = step(jax.random.key(0), state)
    after_one, theta = traces, state.theta
    for n in range(20):
        state, _ = step(jax.random.key(n), state)
    assert traces == after_one <= 12
    assert np.any(state.theta != theta)


def test_the_paper_s_loop_blows_up_on_its_gaussian_and_the_moving_frame_does_not():
    """SR-HMC as printed (L = 10, step 0.2, gamma_n = (n + 1)^-0.6), alpha = 2."""
    logp = srmc.targets.gaussian().logdensity_fn
    start = srmc.targets.gaussian().sample(jax.random.key(3))
    for options, stable in (
        (srmc.paper_settings(2.0), False),
        ({"alpha": srmc.gain_limited(2.0, top_eigenvalue=19.0), **MODES["shift-moving"]}, True),
        ({}, True),
    ):
        algorithm = srmc.hmc(logp, 0.2, 10, **options)
        keep = lambda s, i: (jnp.max(jnp.abs(s.position)), i.is_stable)
        _, (size, is_stable) = chain(algorithm, jax.random.key(0), start, 500, keep)
        assert bool(np.max(size) < 10) == stable
        assert (np.mean(is_stable) > 0.98) == stable


DEFAULTS = {
    "mh": lambda f: srmc.mh(f, 0.3),
    "ula": lambda f: srmc.ula(f, 0.02),
    "uld": lambda f: srmc.uld(f, 0.1),
    "mala": lambda f: srmc.mala(f, 0.03),
    "hmc": lambda f: srmc.hmc(f, 0.2, 10),
    "nuts": lambda f: srmc.nuts(f, 0.2),
    "repel": lambda f: srmc.repel(blackjax.barker, f, step_size=0.3),
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_the_defaults_are_stable_in_any_units(name):
    """No draw is farther out than those of the plain kernel, by more than a tenth."""
    target = srmc.targets.gaussian()

    def build(scale, **options):
        logp = lambda x: target.logdensity_fn(x / scale)
        if name in ("mh", "ula", "uld", "mala"):
            step = {"mh": 0.3, "ula": 0.02, "uld": 0.1, "mala": 0.03}[name]
            return getattr(srmc, name)(logp, step, scale=jnp.full(10, scale), **options)
        if name == "repel":
            return srmc.repel(blackjax.barker, logp, step_size=0.3 * scale, **options)
        metric = jnp.full(10, scale**2)
        args = (0.2, 10, metric) if name == "hmc" else (0.2, metric)
        return getattr(srmc, name)(logp, *args, **options)

    @jax.jit  # once for all units
    def draw(scale):
        keep = lambda s, i: (s.position, i.is_stable)
        run = lambda algorithm: jax.vmap(
            lambda key: short_chain(algorithm, key, scale * target.sample(key), 500, keep)[1]
        )(jax.random.split(jax.random.key(0), 8))
        return run(build(scale, alpha=0.0))[0], *run(build(scale))

    for scale in (0.1, 1.0, 10.0):
        plain, repelled, is_stable = draw(scale)
        assert np.max(np.abs(repelled)) < 1.1 * np.max(np.abs(plain)) + 2 * scale
        assert np.mean(is_stable) > 0.98


def test_the_history_is_the_paper_s_recursion():
    algorithm = srmc.mala(log_gamma, 0.25, **srmc.paper_settings(rho=1.0))
    _, (draws, theta) = short_chain(
        algorithm, jax.random.key(0), jnp.ones(2), 50, lambda s, i: (s.position, s.theta)
    )
    scores = np.asarray(jax.vmap(jax.grad(log_gamma))(draws))
    # With rho = 1 and theta_0 = 0, theta_n is the sum of n scores over n + 1.
    expected = np.cumsum(scores, axis=0) / (2 + np.arange(50))[:, None]
    np.testing.assert_allclose(theta, expected, rtol=2e-4, atol=2e-5)


def test_history_average_takes_both_ends_of_a_transition():
    options = srmc.paper_settings(rho=1.0) | {"history_average": True}
    algorithm = srmc.mala(log_gamma, 0.25, **options)
    _, (draws, theta) = short_chain(
        algorithm, jax.random.key(0), jnp.ones(2), 50, lambda s, i: (s.position, s.theta)
    )
    path = jnp.concatenate([jnp.ones((1, 2)), draws])
    scores = np.asarray(jax.vmap(jax.grad(log_gamma))(path))
    middles = (scores[1:] + scores[:-1]) / 2
    expected = np.cumsum(middles, axis=0) / (2 + np.arange(50))[:, None]
    np.testing.assert_allclose(theta, expected, rtol=2e-4, atol=2e-5)


def test_the_surrogate_stands_still_between_updates_of_the_history():
    algorithm = srmc.hmc(log_gamma, 0.35, 3, history_every=4, alpha=0.5)
    _, theta = short_chain(algorithm, jax.random.key(0), jnp.ones(2), 12, lambda s, i: s.theta)
    changes = np.any(np.diff(np.asarray(theta), axis=0, prepend=0) != 0, axis=1)
    np.testing.assert_array_equal(np.flatnonzero(changes), [3, 7, 11])


@pytest.mark.usefixtures("x64")
def test_a_fixed_frame_carries_the_chain_when_the_guard_lowers_alpha():
    """Then the base coordinate X - alpha theta changes only where the kernel moved it."""
    guard = srmc.watched(5.0, limit=0.01)
    algorithm = srmc.mala(log_gamma, 1e-12, alpha=guard, surrogate=srmc.shift(), frame="fixed")
    start = jnp.array([2.0, -1.0])
    seen = lambda s, i: (s.position, s.alpha * s.theta, i.is_hot)
    _, (x, shift, hot) = short_chain(algorithm, jax.random.key(0), start, 20, seen)
    assert np.all(hot[1:])
    assert np.max(np.abs(shift)) > 0.5
    np.testing.assert_allclose(np.diff(x - shift, axis=0)[1:], 0, atol=1e-4)


@pytest.mark.usefixtures("x64")
def test_alpha_stands_still_with_the_surrogate():
    algorithm = srmc.mala(log_gamma, 0.1, history_every=4, alpha=srmc.capped(1.0, 1000))
    _, alpha = short_chain(algorithm, jax.random.key(0), jnp.ones(2), 12, lambda s, i: s.alpha)
    np.testing.assert_array_equal(np.flatnonzero(np.diff(alpha, prepend=0)), [3, 7, 11])


@pytest.mark.usefixtures("x64")
def test_feedback_once_in_a_while_does_what_feedback_at_each_step_does():
    """On a Gaussian the difference of the scores is known exactly from one look."""
    logp = lambda x: -0.5 * jnp.sum(x**2)
    options = {"alpha": 4.0, "surrogate": srmc.shift(), "frame": "moving"}
    options["gain"] = srmc.gain(0.8, 0.02, 100)
    run = lambda every: chain(
        srmc.mala(logp, 0.3, feedback_every=every, **options),
        jax.random.key(0),
        jnp.ones(2),
        400,
        lambda s, i: (s.position, i.gradients),
    )[1]
    (always, full), (seldom, less) = run(1), run(10)
    assert full.sum() == 800
    assert less.sum() == 440
    assert np.max(np.abs(always - seldom)) < 0.25 * np.std(always)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", ["hmc", "rmh"])
def test_a_move_that_is_absurd_is_not_made_and_is_forgotten(name):
    algorithm = KERNELS[name](log_gamma, alpha=1.0, gain=srmc.gain(0.8), **MODES["shift-moving"])
    state = algorithm.init(jnp.ones(2), jax.random.key(0), theta=jnp.full(2, 50.0))
    step = jax.jit(algorithm.step)
    finite = []
    for n in range(60):
        state, info = step(jax.random.key(n), state)
        finite.append(bool(info.is_finite))
        if not finite[-1]:
            np.testing.assert_array_equal(state.position, state.inner_state.position)
    assert not finite[0]
    assert any(finite[30:])
    assert np.all(np.abs(state.theta) < 10)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("mode", ["tilt", "shift-fixed"])
@pytest.mark.parametrize("name", ["mala", "ghmc", "rmh"])
def test_re_scoring_renews_caches_and_keeps_the_rest(name, mode):
    algorithm = KERNELS[name](log_gamma, alpha=0.7, history_every=2, **MODES[mode])
    state = algorithm.init(jnp.ones(2), jax.random.key(1))
    step = jax.jit(algorithm.step)
    for n in range(3):  # the third step begins with a new theta, and ends before the next
        before = state
        state, _ = step(jax.random.key(n), state)
    bent = MODES[mode]["surrogate"].bend(log_gamma)
    u = before.theta
    value, gradient = jax.value_and_grad(bent)(state.inner_state.position, u, before.alpha)
    np.testing.assert_allclose(state.inner_state.logdensity, value, rtol=1e-12)
    if name != "rmh":
        np.testing.assert_allclose(state.inner_state.logdensity_grad, gradient, rtol=1e-12)
    if name == "ghmc":
        assert np.any(state.inner_state.momentum != 0)


@pytest.mark.parametrize("mode", MODES)
def test_a_shared_history_is_the_mean_over_chains(mode):
    algorithm = srmc.mala(log_gamma, 0.25, alpha=0.5, history_axis="chains", **MODES[mode])
    x = jnp.log(jax.random.gamma(jax.random.key(0), SHAPES, (6, 2)))
    state = jax.vmap(algorithm.init)(x)
    step = jax.jit(jax.vmap(algorithm.step, axis_name="chains"))
    theta = np.zeros(2)
    for n in range(5):
        state, _ = step(jax.random.split(jax.random.key(n), 6), state)
        scores = np.asarray(jax.vmap(jax.grad(log_gamma))(state.position))
        theta = theta + (n + 2) ** -0.6 * (scores.mean(axis=0) - theta)
        np.testing.assert_allclose(state.theta, np.tile(theta, (6, 1)), rtol=1e-4, atol=1e-5)


def test_a_shared_history_skips_chains_whose_score_is_not_finite():
    theta = jnp.zeros((3, 2))
    features = jnp.array([[1.0, 2.0], [jnp.nan, 0.0], [3.0, 4.0]])
    update = jax.vmap(
        lambda t, f, ok: history.update(t, f, jnp.asarray(0.5), ok, "chains"),
        axis_name="chains",
    )
    out = update(theta, features, jnp.array([True, False, True]))
    np.testing.assert_allclose(out, np.tile([1.0, 1.5], (3, 1)))


def test_chains_run_the_same_alone_and_together():
    algorithm = srmc.mala(log_gamma, 0.25, alpha=0.5, history_every=3, **MODES["shift-fixed"])
    keys = jax.random.split(jax.random.key(0), 3)
    run = lambda key: short_chain(algorithm, key, jnp.ones(2), 30, lambda s, i: s.position)[1]
    together = jax.vmap(run)(keys)
    for key, draws in zip(keys, together, strict=True):
        np.testing.assert_allclose(run(key), draws, rtol=1e-5)


@pytest.mark.usefixtures("x64")
def test_options_may_be_traced():
    def final(scale, mode):
        logp = lambda x: log_gamma(x / scale)
        options = {"tilt": srmc.tilt, "shift": srmc.shift}[mode](preconditioner=scale * jnp.ones(2))
        algorithm = srmc.mala(
            logp, 0.2 * scale, alpha=scale / 2, surrogate=options, history_every=2
        )
        one = lambda s, k: (algorithm.step(k, s)[0], None)
        keys = jax.random.split(jax.random.key(0), 20)
        return jax.lax.scan(one, algorithm.init(jnp.ones(2)), keys)[0].position

    for mode in ("tilt", "shift"):
        scales = jnp.array([0.5])
        together = jax.jit(jax.vmap(functools.partial(final, mode=mode)))(scales)
        for scale, position in zip(scales, together, strict=True):
            np.testing.assert_allclose(final(float(scale), mode), position, rtol=1e-9)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("alpha", "mode"),
    [*((0.5, mode) for mode in MODES), (srmc.watched(0.5, limit=0.1), "shift-moving")],
)
def test_wrappers_stack(mode, alpha):
    """Repelling a plain wrapper is repelling what it wraps."""
    wrapped = lambda f, step_size: srmc.mala(f, step_size, alpha=0.0)
    options = {"step_size": 0.1, "alpha": alpha, **MODES[mode]}
    runs = [
        short_chain(
            srmc.repel(algorithm, log_gamma, **options),
            jax.random.key(0),
            jnp.ones(2),
            50,
            lambda s, i: s.position,
        )[1]
        for algorithm in (blackjax.mala, wrapped)
    ]
    np.testing.assert_allclose(*runs, rtol=1e-10)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("inner_mode", "outer_mode"),
    [
        ("tilt", "tilt"),
        ("tilt", "shift-fixed"),
        ("shift-fixed", "shift-moving"),
        ("shift-moving", "tilt"),
        ("shift-moving", "shift-moving"),
    ],
)
def test_a_repelled_kernel_inside_a_repelled_kernel_is_scored_right(inner_mode, outer_mode):
    """What the innermost kernel has cached is the density that is bent by both, as they are."""
    inner_options = {"alpha": 0.7, "history_every": 3, **MODES[inner_mode]}
    inner = lambda f, step_size: srmc.mala(f, step_size, **inner_options)
    algorithm = srmc.repel(inner, log_gamma, step_size=0.1, alpha=0.5, **MODES[outer_mode])
    bend = lambda mode: MODES[mode]["surrogate"].bend
    state = algorithm.init(jnp.ones(2), jax.random.key(1))
    step = jax.jit(algorithm.step)
    for n in range(8):
        before = state
        state, _ = step(jax.random.key(n), state)
        expected = log_gamma
        if outer_mode != "shift-moving":
            bent = bend(outer_mode)(expected)
            expected = lambda x, b=bent, s=before: b(x, s.theta, s.alpha)
        if inner_mode != "shift-moving":
            twice = bend(inner_mode)(expected)
            held = before.inner_state
            expected = lambda x, b=twice, h=held: b(x, h.theta, h.alpha)
        cached = state.inner_state.inner_state
        np.testing.assert_allclose(cached.logdensity, expected(cached.position), rtol=1e-10)
        gradient = jax.grad(expected)(cached.position)
        np.testing.assert_allclose(cached.logdensity_grad, gradient, rtol=1e-8, atol=1e-10)
    assert np.all(state.theta != 0)
    assert np.all(state.inner_state.theta != 0)


def test_blackjax_s_own_tools_take_a_repelled_kernel():
    nuts = srmc.repelled(blackjax.nuts, alpha=0.5, gain=srmc.gain(0.8, 0.1, 50))
    adaptation = blackjax.window_adaptation(nuts, log_gamma)
    (state, found), _ = adaptation.run(jax.random.key(0), jnp.ones(2), 300)
    assert 0.1 < found["step_size"] < 3
    algorithm = nuts(log_gamma, **found)
    _, (states, info) = run_inference_algorithm(
        jax.random.key(1), algorithm, 500, initial_position=state.position
    )
    assert np.all(np.isfinite(states.position))
    assert np.mean(info.acceptance_rate) > 0.6
    assert np.any(states.position != states.inner_state.position)

    kernel = nuts.build_kernel()
    state = nuts.init(jnp.ones(2), log_gamma)
    one, _ = kernel(jax.random.key(2), state, log_gamma, **found)
    two, _ = algorithm.step(jax.random.key(2), algorithm.init(jnp.ones(2)))
    np.testing.assert_array_equal(one.position, two.position)


def test_blackjax_s_smc_takes_a_repelled_kernel():
    hmc = srmc.repelled(blackjax.hmc, alpha=0.3)
    prior = lambda x: -0.5 * jnp.sum((x / 3) ** 2)
    likelihood = lambda x: log_gamma(x) - prior(x)
    parameters = {"step_size": 0.3, "inverse_mass_matrix": jnp.ones(2), "num_integration_steps": 3}
    smc = blackjax.adaptive_tempered_smc(
        prior,
        likelihood,
        hmc.build_kernel(),
        hmc.init,
        blackjax.smc.extend_params(parameters),
        blackjax.smc.resampling.systematic,
        target_ess=0.5,
        num_mcmc_steps=5,
    )
    state = smc.init(3 * jax.random.normal(jax.random.key(0), (500, 2)))
    step = jax.jit(smc.step)
    for n in range(30):
        state, _ = step(jax.random.key(n), state)
        if state.tempering_param >= 1:
            break
    error = 6 * np.sqrt(VARIANCE / 500)
    assert np.all(np.abs(np.mean(state.particles, axis=0) - MEAN) < error)


def test_a_kernel_for_a_likelihood_is_refused():
    with pytest.raises(ValueError, match="elliptical_slice takes a likelihood's"):
        srmc.repel(blackjax.elliptical_slice, log_gamma, mean=jnp.zeros(2), cov=jnp.eye(2))


def test_alpha_zero_needs_no_gradient():
    opaque = lambda x: jax.pure_callback(
        lambda x: np.float32(-0.5 * np.sum(np.square(x))), jax.ShapeDtypeStruct((), "float32"), x
    )
    algorithm = srmc.mh(opaque, 0.5, alpha=0.0, history_average=True)
    state = algorithm.init(jnp.ones(2))
    for n in range(5):
        state, _ = algorithm.step(jax.random.key(n), state)
    np.testing.assert_array_equal(state.theta, 0)


def test_frames_follow_the_surrogate_and_what_a_builder_says():
    partial = functools.partial(blackjax.nuts, step_size=0.3)
    full = affine()
    for algorithm, moves in [
        (srmc.hmc(log_gamma, 0.35, 3), True),
        (srmc.hmc(log_gamma, 0.35, 3, surrogate=srmc.tilt()), False),
        (srmc.repel(partial, log_gamma, inverse_mass_matrix=jnp.ones(2)), True),
        (srmc.repel(blackjax.mala, log_gamma, step_size=0.1), True),
        (srmc.repel(lambda f: blackjax.mala(f, 0.1), log_gamma), True),
        (srmc.mala(log_gamma, 0.1), False),
        (srmc.mala(log_gamma, 0.1, surrogate=srmc.shift()), False),
        (srmc.mala(log_gamma, 0.1, surrogate=full), True),
        (srmc.mala(log_gamma, 0.1, surrogate=along(full)), True),
        (srmc.mala(log_gamma, 0.1, frame="moving"), True),
        (srmc.mala(log_gamma, 0.1, feedback_every=3), True),
    ]:
        state, _ = short_chain(algorithm, jax.random.key(0), jnp.ones(2), 10, lambda *_: 0)
        assert bool(np.any(state.position != state.inner_state.position)) == moves


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"alpha": -1.0}, ValueError, "alpha must be finite and >= 0, got -1.0"),
        ({"alpha": np.nan}, ValueError, "alpha"),
        ({"alpha": "strong"}, TypeError, "alpha must be a number, got 'strong'"),
        ({"frame": "still"}, ValueError, "frame must be one of 'fixed', 'moving', got 'still'"),
        (
            {"frame": "moving", "surrogate": srmc.tilt()},
            ValueError,
            r"frame='moving' needs surrogate=srmc.shift",
        ),
        ({"surrogate": "tilt"}, TypeError, r"surrogate must be srmc.tilt\(\)"),
        ({"gain": 0.5}, TypeError, "gain must be"),
        ({"history_every": 0}, ValueError, "history_every must be >= 1, got 0"),
        ({"history_every": 2.5}, TypeError, "history_every must be a whole number"),
        ({"step_size": 0.0}, ValueError, "step_size must be finite and > 0, got 0.0"),
        ({"friction": 1.0}, TypeError, "kernel mala.*friction.*it takes.*step_size"),
        ({"history_average": "no"}, TypeError, "history_average must be True or False"),
        (
            {"feedback_every": 3, "frame": "fixed"},
            ValueError,
            "feedback_every=3 needs frame='moving'",
        ),
    ],
)
def test_bad_options_are_named(options, error, words):
    with pytest.raises(error, match=words):
        srmc.repel(blackjax.mala, log_gamma, **({"step_size": 0.1} | options))


@pytest.mark.parametrize(
    ("logp", "position", "error", "words"),
    [
        (lambda x: x, jnp.ones(2), ValueError, r"logdensity_fn must return one .* shape \(2,\)"),
        (lambda x: (x.sum(), 0), jnp.ones(2), ValueError, "logdensity_fn must return one"),
        (lambda x: jnp.nan * x.sum(), jnp.ones(2), ValueError, "finite at the start, got nan"),
        (lambda x: -jnp.inf * x.sum(), jnp.ones(2), ValueError, "finite at the start, got -inf"),
        (log_gamma, jnp.ones(2, int), TypeError, "position must be floating point .* got int32"),
        (log_gamma_tree, {"a": 1.0, "b": [1]}, TypeError, r"position\['b'\]\[0\] must be floating"),
        (log_gamma, {}, ValueError, "position must hold at least one number"),
        (log_gamma, jnp.ones(0), ValueError, r"at least one number, got shape \(0,\)"),
        (3.0, jnp.ones(2), TypeError, "logdensity_fn must be a function of a position, got 3.0"),
        (lambda x: -jnp.linalg.norm(x), jnp.zeros(2), ValueError, "the gradient of logdensity_fn"),
    ],
)
def test_bad_starts_are_named(logp, position, error, words):
    with pytest.raises(error, match=words):
        srmc.mala(logp, 0.1).init(position)


def test_a_history_of_another_shape_is_named():
    with pytest.raises(ValueError, match=r"theta must have the shape of the position, \(2,\)"):
        srmc.mala(log_gamma, 0.1).init(jnp.ones(2), theta=jnp.ones(3))
    with pytest.raises(ValueError, match="theta must be finite"):
        srmc.mala(log_gamma, 0.1).init(jnp.ones(2), theta=jnp.array([jnp.nan, 1.0]))
    with pytest.raises(ValueError, match="theta must have the structure of the position"):
        srmc.mala(log_gamma, 0.1).init(jnp.ones(2), theta={"a": jnp.ones(2)})


def test_bad_arguments_of_a_kernel_are_named_however_they_are_given():
    for make in (
        lambda: srmc.repel(blackjax.mala, log_gamma, -0.1),
        lambda: srmc.repel(functools.partial(blackjax.mala, step_size=-0.1), log_gamma),
    ):
        with pytest.raises(ValueError, match=r"step_size must be finite and > 0, got -0\.1"):
            make()
    with pytest.raises(TypeError, match="give its own alpha by position"):
        srmc.repel(
            blackjax.ghmc, log_gamma, alpha=1.0, step_size=0.1, momentum_inverse_scale=1.0, delta=1
        )
    with pytest.raises(ValueError, match="feedback_every must be 1 for kernel"):
        srmc.mh(log_gamma, 0.5, feedback_every=2, surrogate=srmc.shift(), frame="moving").init(
            jnp.ones(2)
        )
    with pytest.raises(TypeError, match=r"kernel ghmc needs init\(position, rng_key\)"):
        srmc.repel(blackjax.ghmc, log_gamma, 0.3, np.ones(2), 0.3, 0.2).init(jnp.ones(2))


def test_what_is_no_kernel_is_named():
    with pytest.raises(TypeError, match="algorithm must be a BlackJAX algorithm"):
        srmc.repel("nuts", log_gamma)
    stateless = lambda f: blackjax.SamplingAlgorithm(lambda x: x, lambda k, s: (s, None))
    with pytest.raises(TypeError, match="must be a NamedTuple with a field `position`"):
        srmc.repel(stateless, log_gamma).init(jnp.ones(2))
