"""Eight schools (Rubin, 1981): real data, a funnel-shaped posterior, and exact moments."""

import jax.numpy as jnp
import numpy as np

from srmc._checks import check_flag
from srmc.targets._base import Moments, Target
from srmc.types import Array, Scalar

EFFECTS = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
ERRORS = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])


def eight_schools(centred: bool = False) -> Target:
    """Posterior of a hierarchical model for the effects of coaching in eight schools.

    mu ~ N(0, 5^2), tau ~ half-Cauchy(5), theta_j ~ N(mu, tau^2), effect_j ~ N(theta_j, e_j^2). The
    parameters are mu, log_tau and theta_raw_j = (theta_j - mu) / tau; `centred=True` uses theta_j
    in place of theta_raw_j. Draws also have tau and theta.
    """
    check_flag("centred", centred)
    effects = "theta" if centred else "theta_raw"

    def logdensity(x: dict[str, Array]) -> Scalar:
        tau = jnp.exp(x["log_tau"])
        raw = (x["theta"] - x["mu"]) / tau if centred else x["theta_raw"]
        prior = (
            -0.5 * (x["mu"] / 5) ** 2
            - jnp.log1p((tau / 5) ** 2)
            + x["log_tau"]  # the Jacobian of tau = exp(log_tau)
            - 0.5 * jnp.sum(raw**2)
            - (8 * x["log_tau"] if centred else 0)
        )
        fitted = x["mu"] + tau * raw
        return prior - 0.5 * jnp.sum(((EFFECTS - fitted) / ERRORS) ** 2)

    def values(x: dict[str, Array]) -> dict[str, Array]:
        tau = jnp.exp(x["log_tau"])
        theta = x["theta"] if centred else x["mu"] + tau * x["theta_raw"]
        return {"mu": x["mu"], "tau": tau, "theta": theta} | x

    form = "centred" if centred else "non-centred"
    return Target(
        "eight_schools_centred" if centred else "eight_schools",
        f"eight schools, hierarchical and {form}, 10 parameters, real data",
        logdensity,
        {"mu": jnp.zeros(()), "log_tau": jnp.zeros(()), effects: jnp.zeros(8)},
        lambda: quadrature(centred=centred)[0],
        values=values,
    )


def quadrature(num: int = 1200, centred: bool = False) -> tuple[Moments, dict[str, float]]:
    """Return the moments, and E[tau], by quadrature on a grid of `num` x `num` points.

    Given (mu, log tau), the effects are independent Gaussians and are integrated analytically. In
    the two remaining dimensions the trapezoidal rule is accurate to many digits.
    """
    effects = "theta" if centred else "theta_raw"
    mu = np.linspace(-30, 40, num)[:, None, None]
    log_tau = np.linspace(-25, 8, num)[None, :, None]
    tau = np.exp(log_tau)
    marginal = ERRORS**2 + tau**2
    log_posterior = (
        -0.5 * (mu / 5) ** 2
        - np.log1p((tau / 5) ** 2)
        + log_tau
        + np.sum(-0.5 * np.log(marginal) - 0.5 * (EFFECTS - mu) ** 2 / marginal, -1, keepdims=True)
    )
    weight = np.exp(log_posterior - log_posterior.max())
    weight /= weight.sum()

    def average(f: np.ndarray) -> np.ndarray:
        total: np.ndarray = np.sum(weight * f, axis=(0, 1))
        return total

    given_mean = tau * (EFFECTS - mu) / marginal
    given_variance = ERRORS**2 / marginal
    if centred:
        given_mean = mu + tau * given_mean
        given_variance = tau**2 * given_variance
    first = {"mu": average(mu)[0], "log_tau": average(log_tau)[0], effects: average(given_mean)}
    second = {
        "mu": average(mu**2)[0],
        "log_tau": average(log_tau**2)[0],
        effects: average(given_mean**2 + given_variance),
    }
    variance = {name: second[name] - first[name] ** 2 for name in first}
    error = {name: 0.0 * first[name] for name in first}
    return Moments(first, variance, error), {"tau": float(average(tau)[0])}
