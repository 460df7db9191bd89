"""The paper's algorithms, written again in NumPy and compared step for step.

Each takes the random numbers that the library draws, the tilt of the paper, and exact scores and
Hessians. The target is skewed: log G for G ~ Gamma(a).
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blackjax.util import generate_gaussian_noise

import srmc
from helpers import SHAPES, log_gamma
from srmc import theory
from srmc.repel import Seen
from srmc_studies.paper.variance_laws import random_tables

ALPHA, RHO, STEPS = 0.7, 0.6, 60
START = np.array([0.3, 1.0])
OPTIONS = srmc.paper_settings(ALPHA, RHO)
pytestmark = pytest.mark.usefixtures("x64")


def log_pi(x):
    return SHAPES @ x - np.exp(x).sum()


def score(x):
    return SHAPES - np.exp(x)


def log_pi_theta(x, theta):
    """eq:score_tilt."""
    return log_pi(x) - ALPHA * theta @ score(x)


def score_theta(x, theta):
    """eq:surrogate-score; the Hessian of U is diag(exp(x))."""
    return score(x) + ALPHA * np.exp(x) * theta


def normals(key):
    return np.asarray(generate_gaussian_noise(key, jnp.zeros(2)))


def compare(algorithm, transcription, init_key=None):
    """Run both; `transcription` yields X_n and theta_n."""
    state, step = algorithm.init(jnp.asarray(START), init_key), jax.jit(algorithm.step)
    moved = 0
    keys = jax.random.split(jax.random.key(1), STEPS)
    for key, (x, theta) in zip(keys, transcription(keys), strict=True):
        before = state.position
        state, _ = step(key, state)
        np.testing.assert_allclose(state.position, x, rtol=1e-9)
        np.testing.assert_allclose(state.theta, theta, rtol=1e-9)
        moved += int(np.any(before != state.position))
    assert moved > STEPS / 3
    return moved


def updated(theta, x, n):
    """eq:theta_def with gamma_n = (n + 1)^-rho."""
    return theta + (n + 1) ** -RHO * (score(x) - theta)


def test_sr_mh():
    """alg:sr_mh."""

    def chain(keys):
        x, theta = START, np.zeros(2)
        for n, key in enumerate(keys, 1):
            move_key, accept_key = jax.random.split(key)
            y = x + 0.8 * normals(move_key)
            log_ratio = log_pi_theta(y, theta) - log_pi_theta(x, theta)
            if np.log(jax.random.uniform(accept_key)) < log_ratio:
                x = y
            theta = updated(theta, x, n)
            yield x, theta

    assert compare(srmc.mh(log_gamma, 0.8, **OPTIONS), chain) < STEPS


def test_sr_ula():
    """alg:sr_ula."""
    eta = 0.05

    def chain(keys):
        x, theta = START, np.zeros(2)
        for n, key in enumerate(keys, 1):
            x = x + eta * score_theta(x, theta) + np.sqrt(2 * eta) * normals(key)
            theta = updated(theta, x, n)
            yield x, theta

    compare(srmc.ula(log_gamma, eta, **OPTIONS), chain)


def test_sr_mala():
    """alg:sr_mala."""
    eta = 0.2

    def log_q(x, y, theta):
        return -np.sum((y - x - eta * score_theta(x, theta)) ** 2) / (4 * eta)

    def chain(keys):
        x, theta = START, np.zeros(2)
        for n, key in enumerate(keys, 1):
            move_key, accept_key = jax.random.split(key)
            y = x + eta * score_theta(x, theta) + np.sqrt(2 * eta) * normals(move_key)
            log_ratio = log_pi_theta(y, theta) + log_q(y, x, theta)
            log_ratio -= log_pi_theta(x, theta) + log_q(x, y, theta)
            if np.log(jax.random.uniform(accept_key)) < log_ratio:
                x = y
            theta = updated(theta, x, n)
            yield x, theta

    assert compare(srmc.mala(log_gamma, eta, **OPTIONS), chain) < STEPS


def test_sr_hmc():
    """alg:sr_hmc."""
    eta, leapfrogs = 0.35, 3

    def chain(keys):
        x, theta = START, np.zeros(2)
        for n, key in enumerate(keys, 1):
            momentum_key, accept_key = jax.random.split(key)
            y, p = x, normals(momentum_key)
            energy = p @ p / 2 - log_pi_theta(x, theta)
            for _ in range(leapfrogs):
                p = p + eta / 2 * score_theta(y, theta)
                y = y + eta * p
                p = p + eta / 2 * score_theta(y, theta)
            change = p @ p / 2 - log_pi_theta(y, theta) - energy
            if np.log(jax.random.uniform(accept_key)) < -change:
                x = y
            theta = updated(theta, x, n)
            yield x, theta

    assert compare(srmc.hmc(log_gamma, eta, leapfrogs, **OPTIONS), chain) < STEPS


def test_sr_underdamped():
    """The splitting BAOAB of underdamped Langevin; the paper promises the algorithm (sec:srmc)."""
    eta, friction = 0.3, 0.7
    init_key = jax.random.key(5)

    def chain(keys):
        x, p, theta = START, normals(init_key), np.zeros(2)
        for n, key in enumerate(keys, 1):
            p = p + eta / 2 * score_theta(x, theta)
            x = x + eta / 2 * p
            keep = np.exp(-friction * eta)
            p = keep * p + np.sqrt(1 - keep**2) * normals(key)
            x = x + eta / 2 * p
            p = p + eta / 2 * score_theta(x, theta)
            theta = updated(theta, x, n)
            yield x, theta

    compare(srmc.uld(log_gamma, eta, friction, **OPTIONS), chain, init_key)


def test_the_guarded_alpha():
    """The capped rise, and the guardrail on windows of alpha |theta·s|."""
    alpha, num_steps, fraction = 2.0, 4000, 0.8
    rise = min(3000, 0.1 * num_steps)
    constant = rise / alpha * (1 / fraction - 1)  # so that alpha_K = fraction * alpha
    window = max(10, int(rise) // 20)
    alignments = np.random.default_rng(0).gamma(2.0, 0.2, size=600) * np.linspace(0.2, 3, 600)
    now, safe, strikes, frozen, scales, expected = 0.0, 0.0, 0, False, [], []
    for k, alignment in enumerate(alignments, 1):
        at = min(k, rise)
        now = at / (constant + at / alpha)
        scales.append(now * alignment)
        if scales[-1] <= 1 and not frozen:
            safe = now
        if k % window == 0 and k <= rise:
            hot = np.quantile(scales[-window:], 0.95) > 1
            strikes = strikes + 1 if hot else 0
        frozen = frozen or strikes >= 2
        expected.append(safe if frozen else now)
    strength = srmc.guarded(alpha, num_steps)
    _, state = strength.init()
    update = jax.jit(strength.update)
    for k, alignment in enumerate(alignments, 1):
        seen = Seen(jnp.asarray(k), 0.1, 0.0, jnp.asarray(True), 1.0, jnp.asarray(alignment))
        found, state = update(state, seen)
        np.testing.assert_allclose(found, expected[k - 1], rtol=1e-9)
    assert 0 < expected[-1] < fraction * alpha


@pytest.mark.parametrize("rho", [1.0, 0.8])
def test_the_cost_clt(rho):
    """thm:cost_based_clt_srmc, and its remark on rho < 1: B^rho Cov tends to C^rho Sigma."""
    pi, proposal, features, values = random_tables(3)
    alpha, budget, runs, rng = 1.0, 6000.0, 3000, np.random.default_rng(1)
    # For rho < 1 any scale of the gain has the same limit; this one gets there sooner.
    scale = 1.0 if rho == 1 else 3.0
    costs = np.linspace(0.5, 3.5, len(pi))
    x, left = rng.choice(len(pi), size=runs, p=pi), np.full(runs, budget)
    theta, mu = np.zeros((runs, 3)), np.zeros((runs, 2))
    steps = np.zeros(runs)
    chances = np.cumsum(proposal, axis=1)
    while np.any(left >= costs.min()):
        y = (rng.random((runs, 1)) > chances[x]).sum(axis=1).clip(max=len(pi) - 1)
        u = np.log(pi) - alpha * theta @ features.T
        here, there = u[np.arange(runs), x], u[np.arange(runs), y]
        ratio = there - here + np.log(proposal[y, x] / proposal[x, y])
        y = np.where(np.log(rng.random(runs)) < ratio, y, x)
        left = np.where(left >= costs[y], left - costs[y], -1.0)  # the run ends before it overdraws
        runs_on = left >= 0
        x, steps = np.where(runs_on, y, x), steps + runs_on
        gamma = np.where(runs_on, np.minimum(1, scale * (steps + 1) ** -rho), 0)[:, None]
        theta = theta + gamma * (features[x] - theta)
        mu = mu + gamma * (values[x] - mu)
    case = theory.finite(theory.metropolis(pi, proposal), pi, features, values)
    limit = theory.asymptotic_covariance(*case, alpha=alpha, rho=rho)
    expected = theory.budget_covariance(limit, pi @ costs, rho)
    errors = np.concatenate([theta, mu - pi @ values], axis=1)
    found = budget**rho * errors.T @ errors / runs / (1.0 if rho == 1 else scale)
    assert np.linalg.norm(found - expected) < 0.1 * np.linalg.norm(expected)
