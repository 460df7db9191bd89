import jax
import jax.numpy as jnp
import numpy as np
import pytest

import srmc
from helpers import log_gamma, short_chain
from srmc.repel import Seen, Strength


def schedule(
    strength,
    steps,
    exponent=lambda k, alpha: 0.0,
    gamma=0.1,
    finite=lambda k: True,
    alignment=lambda k: 0.0,
):
    """alpha before step 1, ..., after step `steps`, with the exponent scale given."""
    alpha, state = strength.init()
    out = [float(alpha)]
    update = jax.jit(strength.update)
    for k in range(1, steps + 1):
        told = k, gamma, exponent(k, out[-1]), finite(k), 1.0, alignment(k)
        seen = Seen(*map(jnp.asarray, told))
        alpha, state = update(state, seen)
        out.append(float(alpha))
    return np.array(out)


def test_fixed():
    np.testing.assert_array_equal(schedule(srmc.fixed(2.0), 3), 2.0)


def test_gain_limited_is_the_formula():
    strength = srmc.gain_limited(3.0, kappa=0.25, top_eigenvalue=2.0)
    _, state = strength.init()
    for gamma, expected in ((0.5, 0.25), (0.1, 1.25), (0.01, 3.0)):
        seen = Seen(*map(jnp.asarray, (1, gamma, 0.0, True, 1.0, 0.0)))
        alpha, _ = strength.update(state, seen)
        assert float(alpha) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("num_steps", "leapfrogs", "warmup"), [(10_000, 1, 1000), (100_000, 1, 3000), (5_000, 10, 50)]
)
def test_capped_rises_to_its_fraction_and_freezes(num_steps, leapfrogs, warmup):
    strength = srmc.capped(2.0, num_steps, leapfrogs)
    alpha = schedule(strength, warmup + 5)
    assert alpha[0] == 0
    np.testing.assert_allclose(alpha[warmup:], 1.6, rtol=1e-6)
    assert np.all(np.diff(alpha[: warmup + 1]) > 0)
    constant = warmup / 1.6 - warmup / 2.0
    k = np.arange(1, warmup)
    np.testing.assert_allclose(alpha[1:warmup], k / (constant + k / 2.0), rtol=1e-5)


RISING = schedule(srmc.capped(2.0, 4000), 420)  # K_w = 400, so that windows have 20 steps


def guarded(hot, steps=420, **options):
    """alpha under the guard, with a scale alpha_k |theta_k·s(X_k)| of 2 at hot steps, else 0.5."""
    scale = lambda k: (2.0 if hot(k) else 0.5) / RISING[k]
    return schedule(srmc.guarded(2.0, 4000, **options), steps, alignment=scale)


@pytest.mark.parametrize("safe", ["step", "window"])
def test_guarded_is_capped_when_all_is_calm(safe):
    np.testing.assert_allclose(guarded(lambda k: False, safe=safe), RISING, rtol=1e-6)


@pytest.mark.parametrize("safe", ["step", "window"])
def test_guarded_freezes_at_the_last_safe_value_after_two_hot_windows(safe):
    alpha = guarded(lambda k: k > 100, safe=safe)
    np.testing.assert_allclose(alpha[:140], RISING[:140], rtol=1e-6)
    np.testing.assert_allclose(alpha[140:], RISING[100], rtol=1e-6)


@pytest.mark.parametrize(("safe", "expected"), [("step", RISING[37]), ("window", 0.0)])
def test_two_hot_opening_windows_tell_the_readings_apart(safe, expected):
    """The first 40 steps are hot, except for the third and the 37th; the rest is calm."""
    alpha = guarded(lambda k: k <= 40 and k not in (3, 37), safe=safe)
    np.testing.assert_allclose(alpha[:40], RISING[:40], rtol=1e-6)
    np.testing.assert_allclose(alpha[40:], expected, rtol=1e-6)


def test_the_last_safe_step_may_be_in_a_window_that_is_hot():
    """One step in ten is hot in windows 6 and 7: 95% of the steps are not safe."""
    alpha = guarded(lambda k: 100 < k <= 140 and k % 10 == 0)
    np.testing.assert_allclose(alpha[140:], RISING[139], rtol=1e-6)
    by_window = guarded(lambda k: 100 < k <= 140 and k % 10 == 0, safe="window")
    np.testing.assert_allclose(by_window[140:], RISING[100], rtol=1e-6)


@pytest.mark.parametrize("safe", ["step", "window"])
def test_guarded_forgives_one_hot_window(safe):
    np.testing.assert_allclose(guarded(lambda k: 100 < k <= 120, safe=safe), RISING, rtol=1e-6)


@pytest.mark.parametrize("safe", ["step", "window"])
def test_guarded_takes_a_nan_for_hot(safe):
    strength = srmc.guarded(2.0, 4000, safe=safe)
    assert schedule(strength, 60, alignment=lambda k: np.nan)[-1] == 0


@pytest.mark.usefixtures("x64")
def test_the_guard_watches_the_strength_history_and_score_of_the_same_step():
    told = []
    inner = srmc.capped(1.0, 100)

    def update(state, seen):
        told.append(seen)
        return inner.update(state, seen)

    strength = Strength(inner.init, update)
    algorithm = srmc.mala(log_gamma, 0.25, **srmc.paper_settings(strength))
    state = algorithm.init(jnp.ones(2))
    for n in range(3):
        before = state.alpha
        state, info = algorithm.step(jax.random.key(n), state)
        alignment = abs(state.theta @ jax.grad(log_gamma)(state.position))
        assert float(told[-1].alignment) == pytest.approx(float(alignment), rel=1e-10)
        assert float(info.exponent) == pytest.approx(float(before * alignment), rel=1e-6)


def test_watched_leaves_a_calm_loop_alone():
    np.testing.assert_allclose(schedule(srmc.watched(2.0), 50, lambda k, a: 0.5), 2.0, rtol=1e-6)


def test_watched_lowers_alpha_while_the_loop_is_hot_and_lets_it_recover():
    alpha = schedule(srmc.watched(2.0), 800, lambda k, a: 3.0 if k <= 30 else 0.0)
    assert alpha[30] < 0.2
    assert np.all(np.diff(alpha[100:]) >= 0)
    assert alpha[-1] == pytest.approx(2.0, rel=1e-5)


def test_watched_takes_what_is_not_finite_for_hot():
    assert schedule(srmc.watched(2.0), 10, finite=lambda k: False)[-1] < 0.8
    assert schedule(srmc.watched(2.0), 30, lambda k, a: np.nan)[-1] < 1.0


def test_watched_keeps_the_rate_of_the_loop_below_its_limit():
    alpha = schedule(srmc.watched(2.0, rate=0.3), 50, gamma=0.5)
    np.testing.assert_allclose(alpha[1:], 0.3 / 0.5, rtol=1e-6)  # the size is 1


def test_watched_follows_the_schedule_that_it_guards():
    inner = srmc.capped(2.0, 1000)
    np.testing.assert_allclose(schedule(srmc.watched(inner), 120), schedule(inner, 120), rtol=1e-6)


@pytest.mark.parametrize("fraction", [0.5, 1.0])
def test_capped_starts_at_zero_and_ends_at_its_fraction(fraction):
    alpha = schedule(srmc.capped(2.0, 1000, fraction=fraction), 100)
    assert alpha[0] == 0
    assert alpha[-1] == pytest.approx(2.0 * fraction, rel=1e-6)


@pytest.mark.parametrize(
    "strength",
    [srmc.capped(0.1, 200), srmc.guarded(0.1, 200), srmc.gain_limited(0.1), srmc.fixed(0.1)],
)
def test_schedules_drive_a_sampler(strength):
    algorithm = srmc.mala(log_gamma, 0.25, alpha=strength, surrogate=srmc.shift(), frame="fixed")
    _, alpha = short_chain(algorithm, jax.random.key(0), jnp.ones(2), 100, lambda s, i: s.alpha)
    np.testing.assert_allclose(alpha, schedule(strength, 100)[1:], rtol=1e-5)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: srmc.fixed(-1.0), ValueError, "alpha must be finite and >= 0"),
        (lambda: srmc.fixed(np.inf), ValueError, "alpha must be finite and >= 0, got inf"),
        (lambda: srmc.capped(1.0, 0), ValueError, "num_steps must be >= 1"),
        (
            lambda: srmc.capped(1.0, 100, fraction=0.0),
            ValueError,
            "fraction must be finite and > 0",
        ),
        (lambda: srmc.guarded(1.0, 100, threshold=0.0), ValueError, "threshold must be finite"),
        (
            lambda: srmc.guarded(1.0, 100, safe="last"),
            ValueError,
            "safe must be one of 'step', 'window', got 'last'",
        ),
        (lambda: srmc.gain_limited(1.0, kappa=0.0), ValueError, "kappa must be finite and > 0"),
        (lambda: srmc.gain_limited(1.0, top_eigenvalue=-1.0), ValueError, "top_eigenvalue must be"),
        (lambda: srmc.watched(1.0, limit=0.0), ValueError, "limit must be finite and > 0"),
        (lambda: srmc.watched(1.0, memory=0.5), ValueError, "memory must be finite and >= 1"),
        (lambda: srmc.fixed([1.0, 2.0]), TypeError, "alpha must be a number, got"),
    ],
)
def test_bad_schedules_are_named(make, error, words):
    with pytest.raises(error, match=words):
        make()
