"""Covariances of the limit theorem, and stability bounds for the loop of history and kernel.

Throughout, s is the score (d numbers), f the function of interest (m numbers), S = Cov(s, s),
C = Cov(f, s), and A the preconditioner: the history theta pushes with alpha A theta.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from srmc._checks import as_numbers, check_count, check_flag, check_number, check_option, short
from srmc.types import Float

OfValues = Float[np.ndarray, "m m"]


class Blocks(NamedTuple):
    """Blocks of the covariance of (theta, mu): O(1/alpha), O(1/alpha) and O(1) as alpha grows."""

    theta: Float[np.ndarray, "d d"]
    cross: Float[np.ndarray, "d m"]
    mean: OfValues


def jacobian(
    cov_ss: ArrayLike, cov_fs: ArrayLike, alpha: float, preconditioner: ArrayLike | None = None
) -> Float[np.ndarray, "d+m d+m"]:
    """Return the Jacobian of the mean field at its root (eq:Jacobian).

    `cov_ss` is S, (d, d), and `cov_fs` is C, (m, d). With a preconditioner, S A and C A take their
    places.
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
) -> Float[np.ndarray, "d+m d+m"]:
    """Return the limit of Cov(gamma_n^-1/2 (theta_n, mu_n - mu)) (eq:Lyapunov).

    mu_n is the paper's estimate, which averages f with the history's gain; for rho = 1 it is the
    plain average. `noise`, (d+m, d+m), is the long-run covariance of (s, f) along the base chain.
    Any features with mean 0, for example from `srmc.repel.affine()`, may replace the score.

    For rho < 1 convergence to the limit is slow: with gamma_n = (n + 1)^-rho, the drift has an
    additional rho / 2 (n + 1)^(rho - 1) on its diagonal, which is still 6% of it at n = 20,000 and
    rho = 0.8. `num_steps` includes that term at n = num_steps. For rho = 1 the gain is taken to be
    1 / (n + delay), and `num_steps` has no effect.

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
    from scipy.linalg import solve_continuous_lyapunov  # which takes a while to import

    solution = solve_continuous_lyapunov(drift, -_noise(noise, len(drift)))
    return (solution + solution.T) / 2


def blocks(covariance: ArrayLike, dim: int) -> Blocks:
    """Split a covariance of (theta, mu) into blocks, where theta has `dim` dimensions."""
    c = _square("covariance", covariance)
    check_count("dim", dim)
    if dim > len(c):
        raise ValueError(f"dim must be at most {len(c)}, the size of the covariance, got {dim}")
    return Blocks(c[:dim, :dim], c[:dim, dim:], c[dim:, dim:])


def average_covariance(
    cov_ss: ArrayLike,
    cov_fs: ArrayLike,
    noise: ArrayLike,
    alpha: float,
    preconditioner: ArrayLike | None = None,
) -> OfValues:
    """Return the limit of n Cov(plain average of f) for a history with rho < 1.

    The history then settles within windows that are short compared with the run, and the average
    has the long-run covariance of f - alpha C A (I + alpha S A)^-1 s.
    """
    check_number("alpha", alpha, at_least=0.0)
    s, c = _covariances(cov_ss, cov_fs, preconditioner)
    weights = alpha * np.linalg.solve((np.eye(len(s)) + alpha * s).T, c.T).T
    return _residual_noise(weights, noise)


def control_variate_covariance(cov_ss: ArrayLike, cov_fs: ArrayLike, noise: ArrayLike) -> OfValues:
    """Return the limit of `average_covariance` for large alpha, approached at rate 1/alpha^2.

    It is the long-run covariance of the first-order control variate f - C S^-1 s, or of the
    second-order one if s holds second-order features.
    """
    s, c = _covariances(cov_ss, cov_fs, None)
    weights = np.linalg.lstsq(s.T, c.T)[0].T  # S is singular if features are linearly dependent
    return _residual_noise(weights, noise)


def independent_covariance(
    cov_ss: ArrayLike, cov_fs: ArrayLike, cov_ff: ArrayLike, alpha: float, rho: float
) -> OfValues:
    """Return the block of mu for independent draws in closed form (prop:independent-sampling).

    The block is C (S (2 alpha S + 2 beta))^-1 C^T + R, with beta = 1/2 for rho = 1 and beta = 1
    otherwise. `alpha=inf` returns the residual R.
    """
    check_number("rho", rho, above=0.5, at_most=1.0)
    s, c = _covariances(cov_ss, cov_fs, None)
    residual = residual_covariance(s, c, cov_ff, rho)
    if alpha == np.inf:
        return residual
    check_number("alpha", alpha, at_least=0.0)
    two_beta = 1.0 if rho == 1 else 2.0
    solved = np.linalg.solve(2 * alpha * s + two_beta * np.eye(len(s)), c.T)
    return residual + c @ np.linalg.pinv(s, hermitian=True) @ solved


def residual_covariance(
    cov_ss: ArrayLike, cov_fs: ArrayLike, cov_ff: ArrayLike, rho: float
) -> OfValues:
    """Return R, which no alpha removes: Cov(g, g) / (2 beta) for g = f - C S^-1 s (eq:R-def).

    beta = 1/2 for rho = 1, where R is the variance of independent draws of g, and beta = 1
    otherwise.
    """
    check_number("rho", rho, above=0.5, at_most=1.0)
    s, c = _covariances(cov_ss, cov_fs, None)
    explained = c @ np.linalg.pinv(s, hermitian=True) @ c.T
    total = _square("cov_ff", cov_ff)
    if total.shape != explained.shape:
        raise ValueError(f"cov_ff must be {explained.shape}, as f is, got shape {total.shape}")
    return (total - explained) / (1.0 if rho == 1 else 2.0)


def gaussian_mean_covariance(
    covariance: ArrayLike, noise: ArrayLike, alpha: float
) -> Float[np.ndarray, "d d"]:
    """Return the limit of n Cov(sample mean) for a Gaussian N(m, V) and rho = 1.

    It is V Sigma V, with Sigma the limit covariance of the history (prop:gaussian-mean). `noise`,
    (d, d), is the long-run covariance of the draws x along the base chain. For independent draws it
    is V, and the eigenvalues of the result are v^2 / (v + 2 alpha) for eigenvalues v of V.
    """
    check_number("alpha", alpha, at_least=0.0)
    v = _square("covariance", covariance)
    if not np.linalg.eigvalsh(v)[0] > 0:
        raise ValueError("covariance must be positive definite")
    s = np.linalg.inv(v)
    drift = -0.5 * np.eye(len(v)) - alpha * s
    from scipy.linalg import solve_continuous_lyapunov  # which takes a while to import

    theta = solve_continuous_lyapunov(drift, -s @ _noise(noise, len(v)) @ s)
    return v @ theta @ v


def budget_covariance(covariance: ArrayLike, costs: ArrayLike, rho: float = 1.0) -> OfValues:
    """Return the limit of B^rho Cov(estimate after a budget B) (thm:cost_based_clt_srmc).

    `covariance` is the limit covariance of n^(rho/2) times the estimate's error; rho is 1 for plain
    averages with any gain. The result is C^rho times that, with C the mean cost.
    `costs` is the cost of a step, or the costs of many steps, in any unit. To judge a repelled
    sampler, compare its result with alpha = 0 at the cost of the base kernel.
    """
    check_number("rho", rho, above=0.5, at_most=1.0)
    if not np.all((price := as_numbers("costs", costs)) > 0) or not np.all(np.isfinite(price)):
        raise ValueError(f"costs must be positive and finite, got {short(costs)}")
    return np.mean(price) ** rho * _square("covariance", covariance)


def _covariances(
    cov_ss: ArrayLike, cov_fs: ArrayLike, preconditioner: ArrayLike | None
) -> tuple[Float[np.ndarray, "d d"], Float[np.ndarray, "m d"]]:
    """S A and C A, checked."""
    s = _square("cov_ss", cov_ss)
    c = np.atleast_2d(as_numbers("cov_fs", cov_fs))
    check_number("cov_fs", c, scalar=False)
    if c.ndim != 2 or c.shape[1] != len(s):
        raise ValueError(f"cov_fs must be (m, {len(s)}), as cov_ss is, got shape {c.shape}")
    if preconditioner is None:
        return s, c
    a = as_numbers("preconditioner", preconditioner)
    a = np.diag(a) if a.ndim == 1 else a * np.eye(len(s)) if a.ndim == 0 else a
    if a.shape != s.shape:
        raise ValueError(
            f"preconditioner must be a scalar, ({len(s)},) or {s.shape}, got shape {a.shape}"
        )
    return s @ a, c @ a


def _square(name: str, value: ArrayLike) -> Float[np.ndarray, "n n"]:
    x = np.atleast_2d(as_numbers(name, value))
    if x.ndim != 2 or x.shape[0] != x.shape[1] or not np.all(np.isfinite(x)):
        raise ValueError(f"{name} must be a square matrix of finite numbers, got shape {x.shape}")
    return x


def _noise(noise: ArrayLike, size: int) -> Float[np.ndarray, "n n"]:
    u = _square("noise", noise)
    if len(u) != size:
        raise ValueError(f"noise must be ({size}, {size}), that of (s, f), got shape {u.shape}")
    return u


def _residual_noise(weights: Float[np.ndarray, "m d"], noise: ArrayLike) -> OfValues:
    """The long-run covariance of f - weights s."""
    m, d = weights.shape
    combine = np.concatenate([-weights, np.eye(m)], axis=1)
    return combine @ _noise(noise, d + m) @ combine.T


def largest_gain(
    alpha: float,
    *,
    top_eigenvalue: float = 1.0,
    frame: str = "moving",
    autocorrelation: float = 0.0,
    average: bool = False,
) -> float:
    """Return the gain gamma below which the loop is stable; half of it is a safe choice.

    `top_eigenvalue` is the largest eigenvalue lambda of Cov(s, s) A. In the moving frame the loop
    is stable if gamma (1 + alpha lambda) < 2. In the fixed frame the bound also depends on the
    kernel's lag-1 autocorrelation c, which is negative for antithetic kernels:
    gamma (1 + alpha lambda (1 - c) / (1 + c)) < 2, or gamma (alpha lambda / 2 - c / (1 - c)) < 1
    with `average=True`, where the history averages the features at both ends of a transition.

    >>> largest_gain(3.0)
    0.5
    >>> round(largest_gain(3.0, frame="fixed", autocorrelation=-0.9), 3)
    0.034
    """
    check_number("alpha", alpha, at_least=0.0)
    check_number("top_eigenvalue", top_eigenvalue, above=0.0)
    check_option("frame", frame, ("moving", "fixed"))
    check_number("autocorrelation", autocorrelation)
    check_flag("average", average)
    c = autocorrelation
    if not -1 < c < 1:
        raise ValueError(f"autocorrelation must be between -1 and 1, got {c}")
    offset, slope = 1.0, 1.0  # of the condition gamma (offset + slope alpha lambda) < 2
    if frame == "fixed":
        offset, slope = (-2 * c / (1 - c), 1.0) if average else (1.0, (1 - c) / (1 + c))
    growth = offset + slope * alpha * top_eigenvalue
    return min(2.0, 2 / growth) if growth > 0 else 2.0
