"""Finite state spaces, where the limit theorem can be checked exactly.

`simulate` runs repelled chains, `transition_matrix` tabulates a sampler on a discrete space, and
`MeanField` is the ODE of the history, with expectations that are sums over states.
"""

import dataclasses
import functools
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from blackjax.base import SamplingAlgorithm
from scipy.special import logsumexp

from srmc._checks import as_numbers, check_count, check_number
from srmc.repel.history import Gain
from srmc.types import Array, ArrayLike, Float, Int, PRNGKey, Scalar

Tables: TypeAlias = tuple[
    Float[Array, " state"],
    Float[Array, "state state"],
    Float[Array, "state d"],
    Float[Array, "state m"],
]


class Carry(NamedTuple):
    """What replicates carry from step to step; beyond the budget, only `spent` changes."""

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
        # The cost of the refused step is kept, so that no later and cheaper step is made.
        return kept._replace(spent=moved.spent)

    starts = jax.random.categorical(start_key, log_pi, shape=(size,))
    theta, mean = (jnp.zeros((size, table.shape[1])) for table in (features, values))
    first = Carry(starts, theta, mean, mean, jnp.zeros(size), jnp.zeros(size, int))
    return jax.lax.fori_loop(0, num_steps, step, first)


def transition_matrix(
    algorithm: SamplingAlgorithm,
    states: Float[np.ndarray, "state ..."],
    theta: ArrayLike | None = None,
    *,
    num_proposals: int = 4096,
    seed: int = 0,
) -> Float[np.ndarray, "state state"]:
    """Return the matrix of a sampler such as `srmc.gwg(f, space, ...)` with its history held.

    `states` are all states of the space, such as `space.all_states(shape)`. A kernel reports the
    probabilities of each proposal and of its acceptance; `num_proposals` are made from each state
    which must include every possible move. `theta` is the history, 0 if not given; give the
    sampler `alpha=srmc.fixed(alpha)` to have it repelled. Kernels that do not propose states one
    by one, `srmc.gibbs`, `srmc.path_auxiliary` and `srmc.gwg` with several sites, have no such
    probabilities.
    """
    check_count("num_proposals", num_proposals)
    if not callable(getattr(algorithm, "step", None)):
        raise TypeError(f"algorithm must be a sampler, such as srmc.gwg(...), got {algorithm!r}")
    every = jnp.asarray(as_numbers("states", states), float)
    if every.ndim < 2 or not every.size:
        raise ValueError(f"states must be (state, ...), not empty, got shape {every.shape}")
    try:
        algorithm.init(every[0])
    except (TypeError, ValueError) as error:
        raise type(error)(f"states must be those of the sampler's space, but {error}") from None
    flat = every.reshape(len(every), -1)

    def propose(x: Array, key: PRNGKey) -> tuple[Int[Array, ""], Scalar, Scalar]:
        more = {} if theta is None else {"theta": jnp.asarray(theta, x.dtype)}
        info = algorithm.step(key, algorithm.init(x, **more))[1]
        info = getattr(info, "inner_info", info)
        to = jnp.argmin(jnp.sum(jnp.abs(flat - info.proposal.reshape(1, -1)), axis=1))
        return to, info.log_proposal, info.acceptance_rate

    keys = jax.random.split(jax.random.key(seed), num_proposals)
    program = jax.jit(jax.vmap(jax.vmap(propose, (None, 0)), (0, None)))
    to, log_q, acceptance = (np.asarray(x) for x in program(every, keys))
    proposal = np.zeros((len(every), len(every)))
    accepted = np.zeros_like(proposal)
    source = np.broadcast_to(np.arange(len(every))[:, None], to.shape)
    proposal[source, to] = np.exp(log_q)
    accepted[source, to] = acceptance
    missing = float(np.max(np.abs(1 - proposal.sum(axis=1))))
    if missing > 1e-3:
        raise ValueError(
            f"num_proposals must be large enough to see all moves, got {num_proposals}: the "
            f"proposals from a state have probabilities whose sum misses 1 by {missing:.2g}"
        )
    matrix: np.ndarray = proposal * accepted
    np.fill_diagonal(matrix, 0.0)
    matrix += np.diag(np.maximum(1 - matrix.sum(axis=1), 0))
    matrix /= matrix.sum(axis=1, keepdims=True)  # 1 up to rounding
    return matrix


@dataclasses.dataclass(frozen=True)
class MeanField:
    """h(theta, mu) = (S(theta) - theta, F(theta) - mu), with S and F the means of s and f (eq:ode).

    The means are under pi_theta, which is proportional to pi exp(-alpha theta·s). `stationary` is
    pi, (state,); `features` holds s, (state, d), and `values` f, (state, m).
    """

    stationary: Float[np.ndarray, " state"]
    features: Float[np.ndarray, "state d"]
    values: Float[np.ndarray, "state m"]
    alpha: float

    def __post_init__(self) -> None:
        check_number("alpha", self.alpha, above=0.0)
        names = ("stationary", "features", "values")
        pi, s, f = (as_numbers(name, getattr(self, name)) for name in names)
        s, f = (x[:, None] if x.ndim == 1 else x for x in (s, f))
        if pi.ndim != 1 or not s.ndim == f.ndim == 2 or len(s) != len(pi) or len(f) != len(pi):
            raise ValueError(
                "stationary, features and values must have one row per state, got shapes "
                f"{pi.shape}, {s.shape} and {f.shape}"
            )
        if np.any(pi < 0) or not np.isclose(pi.sum(), 1):
            raise ValueError("stationary must hold probabilities, with the sum 1")
        for name, value in (("stationary", pi), ("features", s), ("values", f)):
            object.__setattr__(self, name, value)

    def surrogate(self, theta: ArrayLike) -> Float[np.ndarray, " state"]:
        """The probabilities of pi_theta (eq:score_tilt)."""
        log_weights = self._log_weights(theta)
        return np.exp(log_weights - logsumexp(log_weights))

    def field(
        self, theta: ArrayLike, mean: ArrayLike
    ) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " m"]]:
        """The velocity of (theta, mu)."""
        p = self.surrogate(theta)
        return p @ self.features - np.asarray(theta, float), p @ self.values - np.asarray(mean)

    def potential(self, theta: ArrayLike) -> float:
        """`|theta|^2 / 2 + log(Z_theta) / alpha`, of which theta follows the negative gradient."""
        square = float(np.sum(np.square(theta)))
        return square / 2 + float(logsumexp(self._log_weights(theta))) / self.alpha

    def contraction(self, theta: ArrayLike) -> float:
        """The smallest eigenvalue of the Hessian of the potential, I + alpha Cov(s, s).

        It is at least 1 everywhere, so that paths of the ODE approach each other as exp(-t) or
        faster, for every alpha (prop:ode-stable).
        """
        p = self.surrogate(theta)
        centred = self.features - p @ self.features
        covariance = centred.T @ (p[:, None] * centred)
        return float(1 + self.alpha * np.linalg.eigvalsh(covariance)[0])

    def path(
        self, theta: ArrayLike, mean: ArrayLike, times: ArrayLike
    ) -> tuple[Float[np.ndarray, "time d"], Float[np.ndarray, "time m"]]:
        """theta and mu at increasing times from 0 on, from a start at time 0."""
        start = np.concatenate([np.asarray(theta, float), np.asarray(mean, float)])
        at, d = as_numbers("times", times), self.features.shape[1]
        if at.ndim != 1 or not at.size or at[0] < 0 or np.any(np.diff(at) <= 0):
            raise ValueError(f"times must increase from 0 or later on, got {times!r}")

        def velocity(_: float, y: Float[np.ndarray, " d+m"]) -> Float[np.ndarray, " d+m"]:
            return np.concatenate(self.field(y[:d], y[d:]))

        from scipy.integrate import solve_ivp

        found = solve_ivp(velocity, (0.0, at[-1]), start, "LSODA", at, rtol=1e-9, atol=1e-12)
        return found.y[:d].T, found.y[d:].T

    def equilibrium(self) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " m"]]:
        """The only point at which the field is 0, to which all paths lead.

        It is (0, E[f]) if the features have mean 0. Otherwise theta settles elsewhere, and the
        estimate of E[f] keeps the bias that is read off here.
        """
        from scipy.optimize import minimize

        theta = minimize(
            self.potential,
            np.zeros(self.features.shape[1]),
            jac=lambda t: t - self.surrogate(t) @ self.features,
            method="BFGS",
            options={"gtol": 1e-10},
        ).x
        return theta, self.surrogate(theta) @ self.values

    def _log_weights(self, theta: ArrayLike) -> Float[np.ndarray, " state"]:
        with np.errstate(divide="ignore"):
            log_pi = np.log(self.stationary)
        direction = as_numbers("theta", theta)
        if direction.shape != self.features.shape[1:]:
            raise ValueError(
                f"theta must have shape {self.features.shape[1:]}, got {direction.shape}"
            )
        return log_pi - self.alpha * self.features @ direction
