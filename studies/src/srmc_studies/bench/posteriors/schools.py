"""Eight schools, non-centred and centred."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

import srmc
from srmc.types import PRNGKey
from srmc_studies.bench.posteriors.base import (
    Database,
    Parameters,
    Posterior,
    Vector,
    of_target,
    with_reference,
)

EFFECTS = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
ERRORS = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])


def eight_schools(centred: bool = False) -> Posterior:
    """The library's target, which holds the data; the numbers are log tau, mu and the effects."""
    target = srmc.targets.eight_schools(centred)
    posterior = of_target(target.name, target)

    def constrain(x: Vector) -> Parameters:
        tau = jnp.exp(x[0])
        return {"theta": x[2:] if centred else x[1] + tau * x[2:], "mu": x[1], "tau": tau}

    def unconstrain(p: Parameters) -> Vector:
        effects = p["theta"] if centred else (p["theta"] - p["mu"]) / p["tau"]
        return jnp.concatenate([jnp.stack([jnp.log(p["tau"]), p["mu"]]), effects])

    return dataclasses.replace(
        posterior,
        constrain=constrain,
        unconstrain=unconstrain,
        sample=lambda key: unconstrain(exact_draw(key)),
    )


def exact_draw(key: PRNGKey) -> Parameters:
    """An exact draw: tau from a fine grid, then mu given tau, then the effects given both.

    Given tau, effect_j ~ N(mu, e_j^2 + tau^2) and mu ~ N(0, 5^2), so that all the rest is Gaussian.
    """
    log_tau = np.linspace(-20, 7, 2**16)
    variance = np.exp(2 * log_tau)[:, None] + ERRORS**2
    precision = 1 / 25 + np.sum(1 / variance, axis=1)
    center = np.sum(EFFECTS / variance, axis=1) / precision
    log_weight = 0.5 * (precision * center**2 - np.log(precision)) + log_tau
    log_weight -= np.log1p((np.exp(log_tau) / 5) ** 2)
    log_weight -= 0.5 * np.sum(EFFECTS**2 / variance + np.log(variance), axis=1)
    cumulated = np.cumsum(np.exp(log_weight - log_weight.max()))
    tau_key, mu_key, theta_key = jax.random.split(key, 3)
    u = jax.random.uniform(tau_key) * cumulated[-1]
    tau = jnp.exp(jnp.interp(u, cumulated, log_tau))
    variance_now = tau**2 + ERRORS**2
    precision_now = 1 / 25 + jnp.sum(1 / variance_now)
    noise = jax.random.normal(mu_key) / jnp.sqrt(precision_now)
    mu = jnp.sum(EFFECTS / variance_now) / precision_now + noise
    spread = tau * ERRORS / jnp.sqrt(variance_now)
    mean = (mu * ERRORS**2 + EFFECTS * tau**2) / variance_now
    theta = mean + spread * jax.random.normal(theta_key, (8,))
    return {"theta": theta, "mu": mu, "tau": tau}


def eight_schools_of_posteriordb(database: Database) -> Posterior:
    """The same posterior, with reference draws; refused if the data are others."""
    data = database.data("eight_schools")
    if not np.array_equal(data["y"], EFFECTS):
        raise ValueError(f"eight_schools must have the effects of Rubin (1981), got {data['y']}")
    posterior = dataclasses.replace(eight_schools(), name="eight_schools-eight_schools_noncentered")
    return with_reference(posterior, database)
