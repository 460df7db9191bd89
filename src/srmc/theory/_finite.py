"""Repelled chains on finite state spaces, where the limit theorem can be checked exactly."""

import functools
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from srmc._checks import as_numbers, check_count, check_number
from srmc.repel.history import Gain
from srmc.types import Array, Float, Int, PRNGKey

Tables: TypeAlias = tuple[
    Float[Array, " state"],
    Float[Array, "state state"],
    Float[Array, "state d"],
    Float[Array, "state m"],
]


class Carry(NamedTuple):
    """What replicates carry from step to step; all but `spent` stands still at the budget."""

    states: Int[Array, " replicate"]
    theta: Float[Array, "replicate d"]
    mean: Float[Array, "replicate m"]
    total: Float[Array, "replicate m"]
    spent: Float[Array, " replicate"]
    steps: Int[Array, " replicate"]


class Simulated(NamedTuple):
    """The history and the errors of two estimates of E[f] after the last step, per replicate.

    theta
        theta_n / sqrt(gamma_n), as in eq:CLT.
    mean
        (mu_n - mu) / sqrt(gamma_n), where mu_n averages f with the history's gain.
    average
        sqrt(n) times the error of the plain average.
    steps
        The number of steps, n.

    With a budget B, all three are sqrt(B) times the error instead (eq:cost_clt_joint).
    """

    theta: Float[np.ndarray, "replicate d"]
    mean: Float[np.ndarray, "replicate m"]
    average: Float[np.ndarray, "replicate m"]
    steps: Int[np.ndarray, " replicate"]


def metropolis(stationary: ArrayLike, proposal: ArrayLike) -> Float[np.ndarray, "state state"]:
    """Return the transition matrix of the Metropolis-Hastings kernel.

    `stationary` has shape (state,), and `proposal` is a transition matrix, (state, state).

    >>> metropolis([0.25, 0.75], [[0.5, 0.5], [0.5, 0.5]]).round(3).tolist()
    [[0.5, 0.5], [0.167, 0.833]]
    """
    pi, q = _chain(stationary, proposal)
    flow = pi[:, None] * q
    rates = np.where(q > 0, np.minimum(flow, flow.T) / pi[:, None], 0.0)
    np.fill_diagonal(rates, 0.0)
    return rates + np.diag(1 - rates.sum(axis=1))


def _chain(
    stationary: ArrayLike, proposal: ArrayLike
) -> tuple[Float[np.ndarray, " state"], Float[np.ndarray, "state state"]]:
    """The distribution and the proposal of a chain, checked."""
    pi, q = as_numbers("stationary", stationary), as_numbers("proposal", proposal)
    if pi.ndim != 1 or not np.all(pi > 0) or not np.isclose(pi.sum(), 1):
        raise ValueError("stationary must hold positive probabilities, with the sum 1")
    rows = q.shape == (len(pi), len(pi)) and np.all(q >= 0) and np.allclose(q.sum(axis=1), 1)
    if not rows:
        raise ValueError(
            f"proposal must be ({len(pi)}, {len(pi)}), with rows of probabilities, each with the "
            f"sum 1, got shape {q.shape}"
        )
    return pi, q


def simulate(
    rng_key: PRNGKey,
    stationary: ArrayLike,
    proposal: ArrayLike,
    features: ArrayLike,
    values: ArrayLike,
    *,
    alpha: float,
    gain: Gain,
    num_steps: int,
    num_replicates: int,
    costs: ArrayLike | None = None,
    budget: float | None = None,
) -> Simulated:
    """Simulate the paper's loop around a Metropolis-Hastings kernel on a finite state space.

    Each replicate starts from `stationary`. The surrogate is proportional to
    stationary exp(-alpha theta·features), where `features` has shape (state, d) and `values`, which
    hold f, has shape (state, m). `gain` is made by `srmc.gain`.

    With `costs`, (state,), a step that ends in a state costs an exponential random number whose
    mean is that state's, and each replicate stops before it exceeds the `budget`, which
    `num_steps` must suffice to spend.
    """
    if (costs is None) != (budget is None):
        raise ValueError("costs and budget must be given together")
    if not isinstance(gain, Gain):
        raise TypeError(f"gain must be srmc.gain(...), got {gain!r}")
    check_number("alpha", alpha, at_least=0.0)
    check_count("num_steps", num_steps)
    check_count("num_replicates", num_replicates)
    pi, q = _chain(stationary, proposal)
    s, f = as_numbers("features", features), as_numbers("values", values)
    for name, table in (("features", s), ("values", f)):
        if table.ndim != 2 or len(table) != len(pi):
            raise ValueError(f"{name} must be ({len(pi)}, k), got shape {table.shape}")
    tables = tuple(jnp.asarray(table) for table in (np.log(pi), q, s, f - pi @ f))
    if costs is not None:
        check_number("costs", costs, above=0.0, scalar=False)
        check_number("budget", budget, above=0.0)
    price = None if costs is None else jnp.asarray(np.asarray(costs, float))
    limit = np.inf if budget is None else float(budget)
    settings = float(gain.rho), float(gain.scale), float(gain.delay)
    out = _simulate(rng_key, tables, price, (alpha, limit), settings, num_replicates, num_steps)
    theta, mean, total, n = (np.asarray(x) for x in (out.theta, out.mean, out.total, out.steps))
    if budget is None:
        last = float(gain(num_steps)) ** 0.5
        return Simulated(theta / last, mean / last, total / num_steps**0.5, n)
    if np.any(n == num_steps):
        raise ValueError(f"num_steps must suffice to spend the budget, got {num_steps}")
    if np.any(n == 0):
        raise ValueError(f"budget must suffice for a step, got {budget}")
    return Simulated(theta * limit**0.5, mean * limit**0.5, total / n[:, None] * limit**0.5, n)


@functools.partial(jax.jit, static_argnums=(5, 6))
def _simulate(
    rng_key: PRNGKey,
    tables: Tables,
    costs: Float[Array, " state"] | None,
    limits: tuple[float, float],
    settings: tuple[float, float, float],
    size: int,
    num_steps: int,
) -> Carry:
    log_pi, proposal, features, values = tables
    alpha, budget = limits
    log_q = jnp.log(proposal)
    cumulative = jnp.cumsum(proposal, axis=1)
    start_key, step_key = jax.random.split(rng_key)
    gain = Gain(*settings)

    def move(n: Int[Array, ""], carry: Carry) -> Carry:
        states, theta, mean, total, spent, steps = carry
        draw, accept = jax.random.uniform(jax.random.fold_in(step_key, n), (2, size))
        rows = cumulative[states]
        new = jnp.sum((draw * rows[:, -1])[:, None] >= rows[:, :-1], axis=1)
        ratio = log_pi[new] + log_q[new, states] - log_pi[states] - log_q[states, new]
        push = jnp.sum(theta * (features[new] - features[states]), axis=1)
        states = jnp.where(jnp.log(accept) < ratio - alpha * push, new, states)
        gamma = gain(n + 1)
        theta = theta + gamma * (features[states] - theta)
        mean = mean + gamma * (values[states] - mean)
        return Carry(states, theta, mean, total + values[states], spent, steps + 1)

    def step(n: Int[Array, ""], carry: Carry) -> Carry:
        moved = move(n, carry)
        if costs is None:
            return moved
        key = jax.random.fold_in(jax.random.fold_in(step_key, n), 1)
        cost = costs[moved.states] * jax.random.exponential(key, (size,))
        moved = moved._replace(spent=moved.spent + cost)
        goes_on = moved.spent <= budget

        def keep(new: Array, old: Array) -> Array:
            return jnp.where(goes_on.reshape((-1,) + (1,) * (new.ndim - 1)), new, old)

        kept: Carry = jax.tree.map(keep, moved, carry)
        # What the step would have cost stays spent, so that no later and cheaper one is made.
        return kept._replace(spent=moved.spent)

    starts = jax.random.categorical(start_key, log_pi, shape=(size,))
    theta, mean = (jnp.zeros((size, table.shape[1])) for table in (features, values))
    first = Carry(starts, theta, mean, mean, jnp.zeros(size), jnp.zeros(size, int))
    last: Carry = jax.lax.fori_loop(0, num_steps, step, first)
    return last
