"""The mean field of the history and its ODE, with expectations that are sums over states.

The states may also be draws of any target, with equal weights.
"""

import dataclasses

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from srmc._checks import as_numbers, check_number
from srmc.types import Float


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
        probabilities: np.ndarray = np.exp(log_weights - logsumexp(log_weights))
        return probabilities

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
        faster, whatever alpha is (prop:ode-stable).
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
        log_weights: np.ndarray = log_pi - self.alpha * self.features @ direction
        return log_weights
