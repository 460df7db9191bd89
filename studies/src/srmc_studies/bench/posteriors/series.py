"""Time series and a Gaussian process of posteriordb."""

import jax
import jax.numpy as jnp
import numpy as np

from srmc.types import Array, Scalar
from srmc_studies.bench.posteriors.base import (
    Database,
    Parameters,
    Posterior,
    Vector,
    with_reference,
)
from srmc_studies.bench.posteriors.regression import linear, normal, student


def ark(database: Database) -> Posterior:
    """An autoregression: a regression of the series on its own past."""
    data = database.data("arK")
    y, order = np.asarray(data["y"], float), int(data["K"])
    past = [y[order - k : -k] for k in range(1, order + 1)]
    posterior = linear(
        "arK-arK",
        f"autoregression of order {order}",
        np.stack([np.ones(len(y) - order), *past], axis=1),
        y[order:],
        normal(0, 10),
        student(1, 0, 2.5),
        {"alpha": 0, "beta": order},
    )
    return with_reference(posterior, database)


def arma(database: Database) -> Posterior:
    """An ARMA(1, 1) process; the numbers are mu, phi, theta and log sigma."""
    y = np.asarray(database.data("arma")["y"], float)
    priors = normal(0, np.array([10.0, 2.0, 2.0])), student(1, 0, 2.5)

    def logdensity(x: Vector) -> Scalar:
        mu, phi, theta, log_sigma = x
        # err_t + theta err_{t-1} = y_t - mu - phi y_{t-1}, with y_0 = mu and err_0 = 0.
        before = jnp.concatenate([mu[None], jnp.asarray(y[:-1], x.dtype)])
        driven = jnp.asarray(y, x.dtype) - mu - phi * before
        error = linear_recurrence(-theta, driven) / jnp.exp(log_sigma)
        prior = jnp.sum(priors[0](x[:3])) + priors[1](jnp.exp(log_sigma)) + log_sigma
        value: Scalar = prior - 0.5 * jnp.sum(error**2) - len(y) * log_sigma
        return value

    posterior = Posterior(
        "arma-arma11", "ARMA(1, 1) process", logdensity, 4, _last_is_log, _log_last
    )
    return with_reference(posterior, database)


def _last_is_log(x: Vector) -> Parameters:
    return {"mu": x[0], "phi": x[1], "theta": x[2], "sigma": jnp.exp(x[3])}


def _log_last(parameters: Parameters) -> Vector:
    rest = [parameters[k] for k in ("mu", "phi", "theta")]
    return jnp.stack([*rest, jnp.log(parameters["sigma"])])


def garch(database: Database) -> Posterior:
    """A GARCH(1, 1) process, with alpha1 + beta1 < 1.

    The numbers are mu, log alpha0, logit alpha1, and the logit of beta1 / (1 - alpha1).
    """
    data = database.data("garch")
    y, first = np.asarray(data["y"], float), float(data["sigma1"]) ** 2

    def constrain(x: Vector) -> Parameters:
        alpha1 = jax.nn.sigmoid(x[2])
        beta1 = (1 - alpha1) * jax.nn.sigmoid(x[3])
        return {"mu": x[0], "alpha0": jnp.exp(x[1]), "alpha1": alpha1, "beta1": beta1}

    def unconstrain(p: Parameters) -> Vector:
        share = p["beta1"] / (1 - p["alpha1"])
        logit = jax.scipy.special.logit
        return jnp.stack([p["mu"], jnp.log(p["alpha0"]), logit(p["alpha1"]), logit(share)])

    def logdensity(x: Vector) -> Scalar:
        p, squares = constrain(x), (jnp.asarray(y, x.dtype) - x[0]) ** 2
        driven = p["alpha0"] + p["alpha1"] * squares[:-1]
        start = jnp.full(1, first, x.dtype)
        variance = linear_recurrence(p["beta1"], jnp.concatenate([start, driven]))
        # The derivatives of sigmoid, exp, and of beta1, which has the factor 1 - alpha1.
        log_slope = jax.nn.log_sigmoid(x[2:]) + jax.nn.log_sigmoid(-x[2:])
        jacobian = x[1] + jnp.sum(log_slope) + jax.nn.log_sigmoid(-x[2])
        return jacobian - 0.5 * jnp.sum(squares / variance + jnp.log(variance))

    posterior = Posterior(
        "garch-garch11", "GARCH(1, 1) process", logdensity, 4, constrain, unconstrain
    )
    return with_reference(posterior, database)


def gaussian_process(database: Database) -> Posterior:
    """A Gaussian process with a squared exponential kernel at 11 points; logs of its parameters.

    As in posteriordb, `sigma` is the variance of the noise.
    """
    data = database.data("gp_pois_regr")
    place, y = (np.asarray(data[k], float) for k in ("x", "y"))
    square = (place[:, None] - place) ** 2
    names = ("rho", "alpha", "sigma")

    def logdensity(x: Vector) -> Scalar:
        rho, alpha, sigma = jnp.exp(x)
        covariance = alpha**2 * jnp.exp(-0.5 * square.astype(x.dtype) / rho**2)
        cholesky = jnp.linalg.cholesky(covariance + sigma * jnp.eye(len(y), dtype=x.dtype))
        white = jax.scipy.linalg.solve_triangular(cholesky, y.astype(x.dtype), lower=True)
        likelihood = -0.5 * jnp.sum(white**2) - jnp.sum(jnp.log(jnp.diag(cholesky)))
        # rho ~ Gamma(25, 4), alpha ~ N(0, 2^2), sigma ~ N(0, 1), both positive.
        prior = 24 * x[0] - 4 * rho - 0.5 * (alpha / 2) ** 2 - 0.5 * sigma**2
        value: Scalar = likelihood + prior + jnp.sum(x)
        return value

    posterior = Posterior(
        "gp_pois_regr-gp_regr",
        "Gaussian process regression, 3 hyperparameters",
        logdensity,
        3,
        lambda x: dict(zip(names, jnp.exp(x), strict=True)),
        lambda parameters: jnp.log(jnp.stack([parameters[k] for k in names])),
    )
    return with_reference(posterior, database)


def linear_recurrence(factor: Scalar, driven: Array) -> Array:
    """z_t = factor z_{t-1} + driven_t, with z_0 = 0, in logarithmic depth."""

    def combine(first: tuple[Array, Array], second: tuple[Array, Array]) -> tuple[Array, Array]:
        return first[0] * second[0], second[0] * first[1] + second[1]

    factors = jnp.broadcast_to(factor, driven.shape)
    out: Array = jax.lax.associative_scan(combine, (factors, driven))[1]
    return out
