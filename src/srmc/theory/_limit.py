"""The covariances of the limit theorem: of history and estimate, and of plain averages."""

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_continuous_lyapunov

from srmc._checks import check_count, check_number

ArrayLike = Any


class Blocks(NamedTuple):
    """Of the covariance of (theta, mu): O(1/alpha), O(1/alpha) and O(1) as alpha grows."""

    theta: np.ndarray
    cross: np.ndarray
    mean: np.ndarray


def jacobian(
    cov_ss: ArrayLike, cov_fs: ArrayLike, alpha: float, preconditioner: ArrayLike | None = None
) -> np.ndarray:
    """The Jacobian of the mean field at its root, (d+m, d+m) (eq:Jacobian).

    With a preconditioner A, which turns the history into the push alpha A theta, Cov(s, s) and
    Cov(f, s) have A behind them.
    """
    check_number("alpha", alpha, at_least=0.0)
    s, c = _covariances(cov_ss, cov_fs, preconditioner)
    d, m = len(s), len(c)
    return np.block([[-np.eye(d) - alpha * s, np.zeros((d, m))], [-alpha * c, -np.eye(m)]])


def asymptotic_covariance(
    cov_ss: ArrayLike,
    cov_fs: ArrayLike,
    noise: ArrayLike,
    alpha: float,
    rho: float,
    preconditioner: ArrayLike | None = None,
    num_steps: int | None = None,
) -> np.ndarray:
    """The limit of Cov(gamma_n^-1/2 (theta_n, mu_n - mu)), (d+m, d+m) (eq:Lyapunov).

    mu_n is the paper's estimate, which averages f with the history's gain; with rho = 1 it is the
    plain average. `noise` is the long-run covariance of (s, f) along the base chain. Any features
    with mean 0 may stand for the score, such as those of `srmc.affine()`.

    For rho < 1 the limit is slow: with gamma_n = (n + 1)^-rho the drift has another
    rho / 2 (n + 1)^(rho - 1) on its diagonal, still 6% of it at n = 20,000 and rho = 0.8. Given
    `num_steps`, that is taken in. With rho = 1 the gain is 1 / (n + 1), up to its delay.

    >>> covariance = asymptotic_covariance([[1.0]], [[-1.0]], [[1, -1], [-1, 1]], alpha=3.0, rho=1)
    >>> blocks(covariance, 1).mean.round(6).tolist()  # 1 / (1 + 2 alpha)
    [[0.142857]]
    """
    check_number("rho", rho, above=0.5, at_most=1.0)
    drift = jacobian(cov_ss, cov_fs, alpha, preconditioner)
    if num_steps is not None:
        check_count("num_steps", num_steps)
    slow = 0.0 if num_steps is None else rho / 2 * (num_steps + 1) ** (rho - 1)
    drift += (0.5 if rho == 1 else slow) * np.eye(len(drift))
    covariance = solve_continuous_lyapunov(drift, -_noise(noise, len(drift)))
    return (covariance + covariance.T) / 2


def blocks(covariance: ArrayLike, dim: int) -> Blocks:
    """The blocks of a covariance of (theta, mu), with theta in `dim` dimensions."""
    c = np.asarray(covariance, float)
    return Blocks(c[:dim, :dim], c[:dim, dim:], c[dim:, dim:])


def average_covariance(
    cov_ss: ArrayLike,
    cov_fs: ArrayLike,
    noise: ArrayLike,
    alpha: float,
    preconditioner: ArrayLike | None = None,
) -> np.ndarray:
    """The limit of n Cov(plain average of f), (m, m), for a history with rho < 1.

    The history then settles within windows that are short against the run. What is left is the
    noise of f - alpha C A (I + alpha S A)^-1 s, with S = Cov(s, s) and C = Cov(f, s).
    """
    check_number("alpha", alpha, at_least=0.0)
    s, c = _covariances(cov_ss, cov_fs, preconditioner)
    weights = alpha * np.linalg.solve((np.eye(len(s)) + alpha * s).T, c.T).T
    return _without(weights, noise)


def control_variate_covariance(
    cov_ss: ArrayLike, cov_fs: ArrayLike, noise: ArrayLike
) -> np.ndarray:
    """The limit of `average_covariance` for large alpha, at the rate 1/alpha^2.

    It is that of the first-order control variate f - C S^-1 s; with second-order features, that
    of the second order.
    """
    s, c = _covariances(cov_ss, cov_fs, None)
    return _without(np.linalg.lstsq(s.T, c.T)[0].T, noise)  # features may be dependent


def independent_covariance(
    cov_ss: ArrayLike, cov_fs: ArrayLike, cov_ff: ArrayLike, alpha: float, rho: float
) -> np.ndarray:
    """The block of mu for draws that are independent (prop:independent-sampling), closed form.

    C (S (2 alpha S + 2 beta))^-1 C^T + R with beta = 1, or 1/2 if rho = 1; the residual R is what
    remains for alpha = inf.
    """
    check_number("rho", rho, above=0.5, at_most=1.0)
    s, c = _covariances(cov_ss, cov_fs, None)
    beta = 0.5 if rho == 1 else 1.0
    inverse = np.linalg.pinv(s, hermitian=True)
    rest = (_square("cov_ff", cov_ff) - c @ inverse @ c.T) / (2 * beta)
    if alpha == np.inf:
        return rest
    check_number("alpha", alpha, at_least=0.0)
    return rest + c @ inverse @ np.linalg.solve(2 * alpha * s + 2 * beta * np.eye(len(s)), c.T)


def gaussian_mean_covariance(covariance: ArrayLike, noise: ArrayLike, alpha: float) -> np.ndarray:
    """Of the sample mean of a Gaussian N(m, V) with rho = 1, V Sigma V (prop:gaussian-mean).

    `noise` is the long-run covariance of the draws x along the base chain. It is V for independent
    draws; then the eigenvalues of the answer are v^2 / (v + 2 alpha).
    """
    check_number("alpha", alpha, at_least=0.0)
    v = _square("covariance", covariance)
    s = np.linalg.inv(v)
    drift = -0.5 * np.eye(len(v)) - alpha * s
    theta = solve_continuous_lyapunov(drift, -s @ _noise(noise, len(v)) @ s)
    return v @ theta @ v


def budget_covariance(covariance: ArrayLike, costs: ArrayLike) -> np.ndarray:
    """The limit of B Cov(estimate after a budget B) (thm:cost_based_clt_srmc).

    `covariance` is that of sqrt(n) times the estimate's error, and `costs` what a step costs, or
    the costs of many steps, in any unit. Compare a repelled sampler with the same of alpha = 0 at
    the base kernel's cost.
    """
    cost = np.mean(np.asarray(costs, float))
    if not (np.isfinite(cost) and cost > 0):
        raise ValueError(f"costs must be positive and finite, got an average of {cost}")
    return cost * np.asarray(covariance, float)


def _covariances(cov_ss, cov_fs, preconditioner):
    s = _square("cov_ss", cov_ss)
    c = np.atleast_2d(np.asarray(cov_fs, float))
    if c.ndim != 2 or c.shape[1] != len(s):
        raise ValueError(f"cov_fs must be (m, {len(s)}), as cov_ss is, got shape {c.shape}")
    if preconditioner is None:
        return s, c
    a = np.asarray(preconditioner, float)
    a = np.diag(a) if a.ndim == 1 else a * np.eye(len(s)) if a.ndim == 0 else a
    if a.shape != s.shape:
        raise ValueError(f"preconditioner must be a scalar, ({len(s)},) or {s.shape}")
    return s @ a, c @ a


def _square(name, value):
    x = np.atleast_2d(np.asarray(value, float))
    if x.ndim != 2 or x.shape[0] != x.shape[1] or not np.all(np.isfinite(x)):
        raise ValueError(f"{name} must be a square matrix of finite numbers, got shape {x.shape}")
    return x


def _noise(noise, size):
    u = _square("noise", noise)
    if len(u) != size:
        raise ValueError(f"noise must be ({size}, {size}), that of (s, f), got shape {u.shape}")
    return u


def _without(weights, noise):
    """The noise of f - weights s."""
    m, d = weights.shape
    combine = np.concatenate([-weights, np.eye(m)], axis=1)
    return combine @ _noise(noise, d + m) @ combine.T
