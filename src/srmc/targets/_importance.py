"""Reference moments of a unimodal posterior by importance sampling, without Markov chains."""

import jax
import jax.numpy as jnp
import numpy as np

from srmc.targets._base import Moments
from srmc.types import Array, Float, LogDensity, Scalar


def importance_moments(
    logdensity_fn: LogDensity, dim: int, log2_draws: int = 14, replicates: int = 16
) -> Moments:
    """Estimate the moments with a Student t proposal at the mode and scrambled Sobol points.

    The proposal has 8 degrees of freedom. The error is the standard error over independent
    scramblings.
    """
    from scipy.optimize import minimize
    from scipy.stats import norm, qmc

    def energy(x: Float[Array, " d"]) -> Scalar:
        return -logdensity_fn(x)

    value_and_grad = jax.jit(jax.value_and_grad(energy))

    def objective(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = value_and_grad(x)
        return float(value), np.asarray(gradient, float)

    fit = minimize(objective, np.zeros(dim), jac=True)
    precision = np.asarray(jax.hessian(energy)(fit.x), float)
    root = np.linalg.cholesky(np.linalg.inv(precision))
    log_target = jax.jit(jax.vmap(logdensity_fn))
    degrees = 8

    def replicate(seed: int) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
        u = qmc.Sobol(dim + degrees // 2, seed=seed).random_base2(log2_draws)
        chi_square = -2 * np.sum(np.log1p(-u[:, dim:]), axis=1, keepdims=True)
        z = norm.ppf(u[:, :dim]) / np.sqrt(chi_square / degrees)
        x = fit.x + z @ root.T
        log_proposal = -0.5 * (degrees + dim) * np.log1p(np.sum(z**2, axis=1) / degrees)
        log_weight = np.asarray(log_target(jnp.asarray(x)), float) - log_proposal
        weight = np.exp(log_weight - np.max(log_weight))
        weight /= weight.sum()
        mean = weight @ x
        return mean, weight @ x**2 - mean**2

    means, variances = map(np.array, zip(*map(replicate, range(replicates)), strict=True))
    error = means.std(axis=0, ddof=1) / np.sqrt(replicates)
    return Moments(means.mean(axis=0), variances.mean(axis=0), error)
