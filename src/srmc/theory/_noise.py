"""Inputs of the limit theorem: covariances and the long-run noise of (s, f) of a base chain."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from srmc._checks import as_numbers, check_count, check_number, check_option
from srmc.metrics.errors import long_run_covariance
from srmc.types import Float


class Case(NamedTuple):
    """Cov(s, s), Cov(f, s) and the long-run covariance of (s, f), which is the noise."""

    cov_ss: Float[np.ndarray, "d d"]
    cov_fs: Float[np.ndarray, "m d"]
    noise: Float[np.ndarray, "d+m d+m"]


def markov_noise(
    transition: ArrayLike, stationary: ArrayLike, values: ArrayLike
) -> Float[np.ndarray, "k k"]:
    """Return the exact long-run covariance of a function of a finite chain (eq:SigmaDelta).

    `values` has shape (state,) or (state, k). With centred values F, D = diag(pi) and
    Z = (I - P + 1 pi)^-1, the covariance is F^T D Z F + (F^T D Z F)^T - F^T D F.

    >>> flips = markov_noise([[0.9, 0.1], [0.1, 0.9]], [0.5, 0.5], [[0.0], [1.0]])
    >>> flips.round(6).tolist()  # 1/4 times (1 + 0.8) / (1 - 0.8)
    [[2.25]]
    """
    p, pi = as_numbers("transition", transition), as_numbers("stationary", stationary)
    f = _columns("values", values)
    if pi.ndim != 1 or p.shape != (len(pi), len(pi)) or len(f) != len(pi):
        raise ValueError(
            "transition, stationary and values must be (n, n), (n,) and (n, k), got shapes "
            f"{p.shape}, {pi.shape} and {f.shape}"
        )
    if np.any(p < 0) or not np.allclose(p.sum(axis=1), 1):
        raise ValueError("transition must have rows of probabilities, each with the sum 1")
    if not (np.isclose(pi.sum(), 1) and np.allclose(pi @ p, pi, atol=1e-8)):
        raise ValueError("stationary must be the stationary distribution of transition")
    centred = f - pi @ f
    try:
        solved = np.linalg.solve(np.eye(len(pi)) - p + pi, centred)
    except np.linalg.LinAlgError:
        raise ValueError("transition must lead from every state to every other") from None
    half = centred.T @ (pi[:, None] * solved)
    return half + half.T - centred.T @ (pi[:, None] * centred)


def _columns(name: str, values: ArrayLike) -> Float[np.ndarray, "state k"]:
    """Finite numbers (state,) or (state, k), as columns."""
    x = as_numbers(name, values)
    check_number(name, x, scalar=False)
    if x.ndim not in (1, 2):
        raise ValueError(f"{name} must be (state,) or (state, k), got shape {x.shape}")
    return x[:, None] if x.ndim == 1 else x


def finite(
    transition: ArrayLike, stationary: ArrayLike, features: ArrayLike, values: ArrayLike
) -> Case:
    """Return the exact case of a finite chain.

    `features` has shape (state, d) and mean 0 under `stationary`; `values` has shape (state, m).
    """
    pi, s, f = (
        as_numbers("stationary", stationary),
        _columns("features", features),
        _columns("values", values),
    )
    if pi.ndim != 1 or not len(pi) == len(s) == len(f):
        raise ValueError(
            "stationary, features and values must have one row per state, got shapes "
            f"{pi.shape}, {s.shape} and {f.shape}"
        )
    if np.any(np.abs(pi @ s) > 1e-6 * np.abs(s).max()):
        raise ValueError(f"features must have mean 0 under stationary, got {pi @ s}")
    centred = f - pi @ f
    return Case(
        s.T @ (pi[:, None] * s),
        centred.T @ (pi[:, None] * s),
        markov_noise(transition, pi, np.concatenate([s, f], axis=1)),
    )


def gaussian(
    covariance: ArrayLike,
    kernel: str = "independent",
    *,
    step_size: float | None = None,
    num_integration_steps: int = 1,
) -> Case:
    """Return the case of N(m, V) with f = x, under a kernel that accepts every proposal.

    `kernel` is "independent" for independent draws, "mala" for x' = x + eta s + noise with
    `step_size` eta, or "hmc" with unit mass. In a direction with precision l, successive draws have
    autocorrelation c = 1 - eta l for "mala", or c = cos(L arccos(1 - l epsilon^2 / 2)) for "hmc"
    with L leapfrog steps of size epsilon; the long-run covariance of x is V (1 + c) / (1 - c).
    Kernels with rejections have no closed form; for them this is the limit of small steps, and a
    good approximation while the acceptance rate is near 1.
    """
    check_option("kernel", kernel, ("independent", "mala", "hmc"))
    check_count("num_integration_steps", num_integration_steps)
    v = np.atleast_2d(as_numbers("covariance", covariance))
    if v.ndim != 2 or v.shape[0] != v.shape[1] or not np.allclose(v, v.T):  # false for NaN
        raise ValueError("covariance must be a symmetric matrix of finite numbers")
    variances, basis = np.linalg.eigh(v)
    if variances[0] <= 0:
        raise ValueError("covariance must be positive definite")
    lag = np.zeros_like(variances)
    if kernel != "independent":
        if step_size is None:
            raise ValueError(f"kernel {kernel!r} needs step_size")
        check_number("step_size", step_size, above=0.0)
        cosine = 1 - (step_size if kernel == "mala" else step_size**2 / 2) / variances
        if np.any(cosine <= -1):
            raise ValueError(f"step_size must keep the kernel stable, got {step_size}")
        lag = np.cos((num_integration_steps if kernel == "hmc" else 1) * np.arccos(cosine))
    noise = (basis * (variances * (1 + lag) / (1 - lag))) @ basis.T
    precision = (basis / variances) @ basis.T
    both = np.concatenate([-precision, np.eye(len(v))])
    return Case(precision, -np.eye(len(v)), both @ noise @ both.T)


def estimated_noise(series: ArrayLike, num_batches: int | None = None) -> Float[np.ndarray, "k k"]:
    """Estimate the long-run covariance of values (chain, draw, k) of a base run by batch means."""
    x = as_numbers("series", series)
    if x.ndim != 3:
        raise ValueError(f"series must be (chain, draw, k), got shape {x.shape}")
    return long_run_covariance(x, num_batches)


def estimate(scores: ArrayLike, values: ArrayLike, num_batches: int | None = None) -> Case:
    """Estimate the case of any target and kernel from a base run.

    `scores` has shape (chain, draw, d) and `values` (chain, draw, m).
    """
    s, f = as_numbers("scores", scores), as_numbers("values", values)
    if s.ndim != 3 or f.ndim != 3 or s.shape[:2] != f.shape[:2]:
        raise ValueError(
            "scores and values must be (chain, draw, d) and (chain, draw, m), got shapes "
            f"{s.shape} and {f.shape}"
        )
    both = np.concatenate([s, f], axis=2)
    flat = both.reshape(-1, both.shape[2])
    cov = np.cov(flat, rowvar=False).reshape(both.shape[2], both.shape[2])
    d = s.shape[2]
    return Case(cov[:d, :d], cov[d:, :d], estimated_noise(both, num_batches))


def independent_noise(
    cov_ss: ArrayLike, cov_fs: ArrayLike, cov_ff: ArrayLike
) -> Float[np.ndarray, "d+m d+m"]:
    """Return the noise of independent draws, which is the covariance of (s, f)."""
    s, c, f = (
        np.atleast_2d(as_numbers(name, x))
        for name, x in (("cov_ss", cov_ss), ("cov_fs", cov_fs), ("cov_ff", cov_ff))
    )
    if not s.shape == (c.shape[1],) * 2 or not f.shape == (c.shape[0],) * 2:
        raise ValueError(
            "cov_ss, cov_fs and cov_ff must be (d, d), (m, d) and (m, m), got shapes "
            f"{s.shape}, {c.shape} and {f.shape}"
        )
    return np.block([[s, c.T], [c, f]])
