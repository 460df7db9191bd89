"""Repelled chains on a few states, where everything about them is known."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from srmc._checks import check_count, check_number
from srmc.core.history import Gain

ArrayLike = Any


class Simulated(NamedTuple):
    """After the last step, for each replicate: the history, and the errors of two estimates of f.

    theta, mean
        theta_n and mu_n - mu, both over sqrt(gamma_n), as in eq:CLT.
    average
        sqrt(n) times the error of the plain average.
    """

    theta: np.ndarray
    mean: np.ndarray
    average: np.ndarray


def metropolis(stationary: ArrayLike, proposal: ArrayLike) -> np.ndarray:
    """The transition matrix of Metropolis and Hastings' kernel.

    >>> metropolis([0.25, 0.75], [[0.5, 0.5], [0.5, 0.5]]).round(3).tolist()
    [[0.5, 0.5], [0.167, 0.833]]
    """
    pi, q = np.asarray(stationary, float), np.asarray(proposal, float)
    flow = pi[:, None] * q
    rates = np.where(q > 0, np.minimum(flow, flow.T) / pi[:, None], 0.0)
    np.fill_diagonal(rates, 0.0)
    return rates + np.diag(1 - rates.sum(axis=1))


def simulate(
    rng_key: jax.Array,
    stationary: ArrayLike,
    proposal: ArrayLike,
    features: ArrayLike,
    values: ArrayLike,
    *,
    alpha: float,
    gain: Gain,
    num_steps: int,
    num_replicates: int,
) -> Simulated:
    """Run the paper's loop around Metropolis' kernel, on states 0, 1, ..., from `stationary`.

    The bent target is stationary times exp(-alpha theta·features), features (state, d) and values
    (state, m). The gain is `srmc.gain(...)`.
    """
    if not isinstance(gain, Gain):
        raise TypeError(f"gain must be srmc.gain(...), got {gain!r}")
    check_number("alpha", alpha, at_least=0.0)
    check_count("num_steps", num_steps)
    check_count("num_replicates", num_replicates)
    pi = np.asarray(stationary, float)
    values = np.asarray(values, float)
    as_float = lambda x: jnp.asarray(np.asarray(x, float))
    tables = tuple(as_float(x) for x in (np.log(pi), proposal, features, values - pi @ values))
    scales = tuple(map(float, (gain.rho, gain.scale, gain.delay)))
    out = _simulate(rng_key, tables, float(alpha), scales, num_replicates, num_steps)
    theta, mean, total = (np.asarray(x, float) for x in out)
    last = float(gain(num_steps)) ** 0.5
    return Simulated(theta / last, mean / last, total / num_steps**0.5)


@functools.partial(jax.jit, static_argnums=(4, 5))
def _simulate(rng_key, tables, alpha, scales, size, num_steps):
    log_pi, proposal, features, values = tables
    log_q = jnp.log(proposal)
    cumulative = jnp.cumsum(proposal, axis=1)
    start_key, step_key = jax.random.split(rng_key)
    gain = Gain(*scales)

    def step(n, carry):
        states, theta, mean, total = carry
        draw, accept = jax.random.uniform(jax.random.fold_in(step_key, n), (2, size))
        rows = cumulative[states]
        new = jnp.sum((draw * rows[:, -1])[:, None] >= rows[:, :-1], axis=1)
        ratio = log_pi[new] + log_q[new, states] - log_pi[states] - log_q[states, new]
        push = jnp.sum(theta * (features[new] - features[states]), axis=1)
        states = jnp.where(jnp.log(accept) < ratio - alpha * push, new, states)
        gamma = gain(n + 1)
        theta = theta + gamma * (features[states] - theta)
        mean = mean + gamma * (values[states] - mean)
        return states, theta, mean, total + values[states]

    starts = jax.random.categorical(start_key, log_pi, shape=(size,))
    zeros = [jnp.zeros((size, table.shape[1])) for table in (features, values, values)]
    return jax.lax.fori_loop(0, num_steps, step, (starts, *zeros))[1:]
