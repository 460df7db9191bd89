"""Continuous targets: Gaussians, mixtures, curved ones, posteriors of real and simulated data."""

import json
from importlib.resources import files

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from srmc._checks import as_numbers, check_count, check_flag, check_number, check_seed
from srmc._extras import extra
from srmc.targets._base import Moments, Target, exact, importance_moments
from srmc.types import Array, Float, PRNGKey, Scalar


def gaussian(dim: int = 10, correlation: float = 0.9) -> Target:
    """The paper's correlated Gaussian (eq:corr_gaussian): Sigma_ij = correlation^|i - j|."""
    check_count("dim", dim)
    check_number("correlation", correlation, above=-1.0, at_most=1.0 - 1e-9)
    i = np.arange(dim)
    cholesky = np.linalg.cholesky(correlation ** np.abs(i[:, None] - i).astype(float))

    def logdensity(x: Float[Array, " d"]) -> Scalar:
        # x is an AR(1) process, so that x_i - correlation x_{i-1} is white noise.
        innovation = (x[1:] - correlation * x[:-1]) / (1 - correlation**2) ** 0.5
        return -0.5 * (x[0] ** 2 + jnp.sum(innovation**2))

    return Target(
        "gaussian",
        f"Gaussian in {dim} dimensions with correlations {correlation:g}^|i-j|",
        logdensity,
        jnp.zeros(dim),
        exact(np.zeros(dim), np.ones(dim)),
        lambda key: cholesky @ jax.random.normal(key, (dim,)),
    )


def mixture(
    weights: ArrayLike = (0.8, 0.2),
    means: ArrayLike = ((-2.0, 0.0), (2.0, 0.0)),
    scales: ArrayLike = (0.18, 1.0),
) -> Target:
    """A mixture of isotropic Gaussians; the default is the trap of figure 1 of the paper.

    For k components in d dimensions, `weights` and `scales` have shape (k,) and `means` (k, d).
    """
    check_number("weights", weights, above=0.0, scalar=False)
    check_number("scales", scales, above=0.0, scalar=False)
    check_number("means", means, scalar=False)
    w, mu, sd = (np.asarray(a, float) for a in (weights, means, scales))
    if not (mu.ndim == 2 and w.shape == sd.shape == mu.shape[:1]):
        raise ValueError(
            "weights, means and scales must have one entry per component, "
            f"got shapes {w.shape}, {mu.shape} and {sd.shape}"
        )
    w = w / w.sum()
    dim = mu.shape[1]
    mean = w @ mu

    def logdensity(x: Float[Array, " d"]) -> Scalar:
        square = jnp.sum((x[None] - mu) ** 2, axis=1)
        return jax.nn.logsumexp(np.log(w) - dim * np.log(sd) - 0.5 * square / sd**2)

    def sample(key: PRNGKey) -> Float[Array, " d"]:
        which, noise = jax.random.split(key)
        k = jax.random.categorical(which, np.log(w))
        return jnp.asarray(mu)[k] + jnp.asarray(sd)[k] * jax.random.normal(noise, (dim,))

    return Target(
        "mixture",
        f"mixture of {len(w)} isotropic Gaussians in {dim} dimensions",
        logdensity,
        jnp.asarray(mu[0]),
        exact(mean, w @ (sd[:, None] ** 2 + mu**2) - mean**2),
        sample,
    )


def ellipsoid(dim: int = 50, condition: float = 1e4, rotate: bool = False, seed: int = 0) -> Target:
    """A Gaussian with variances from 1 to `condition`, along the axes or in random directions.

    `rotate=True` draws the directions with `seed`.
    """
    check_count("dim", dim, at_least=2)
    check_number("condition", condition, at_least=1.0)
    check_flag("rotate", rotate)
    check_seed("seed", seed)
    scales = np.geomspace(1.0, condition**0.5, dim)
    axes = None  # None for the identity, which might not fit into memory
    if rotate:
        normal = np.random.RandomState(seed).standard_normal((dim, dim))
        axes = np.linalg.qr(normal)[0]

    def logdensity(x: Float[Array, " d"]) -> Scalar:
        along = x if axes is None else axes.T.astype(x.dtype) @ x
        return -0.5 * jnp.sum((along / scales.astype(x.dtype)) ** 2)

    def sample(rng_key: PRNGKey) -> Float[Array, " d"]:
        along = jnp.asarray(scales) * jax.random.normal(rng_key, (dim,))
        return along if axes is None else jnp.asarray(axes) @ along

    return Target(
        "rotated" if rotate else "ellipsoid",
        f"Gaussian in {dim} dimensions, condition {condition:g}, "
        + ("rotated at random" if rotate else "along the axes"),
        logdensity,
        jnp.zeros(dim),
        exact(np.zeros(dim), scales**2 if axes is None else (axes**2) @ scales**2),
        sample,
    )


def student_t(dim: int = 10, degrees: float = 3.0) -> Target:
    """A multivariate Student t distribution with unit scale."""
    check_count("dim", dim)
    check_number("degrees", degrees, above=2.0)

    def logdensity(x: Float[Array, " d"]) -> Scalar:
        return -0.5 * (degrees + dim) * jnp.log1p(jnp.sum(x**2) / degrees)

    def sample(key: PRNGKey) -> Float[Array, " d"]:
        normal, chi = jax.random.split(key)
        chi_square = 2 * jax.random.gamma(chi, degrees / 2)
        return jax.random.normal(normal, (dim,)) * jnp.sqrt(degrees / chi_square)

    return Target(
        "student_t",
        f"Student t with {degrees:g} degrees of freedom in {dim} dimensions",
        logdensity,
        jnp.zeros(dim),
        exact(np.zeros(dim), np.full(dim, degrees / (degrees - 2))),
        sample,
    )


def banana(scale: float = 2.0, bend: float = 0.5) -> Target:
    """A bent Gaussian: x0 ~ N(0, scale^2), x1 given x0 ~ N(bend (x0^2 - scale^2), 1)."""
    check_number("scale", scale, above=0.0)
    check_number("bend", bend)

    def ridge(x0: Scalar) -> Scalar:
        return bend * (x0**2 - scale**2)

    def logdensity(x: Float[Array, "2"]) -> Scalar:
        return -0.5 * ((x[0] / scale) ** 2 + (x[1] - ridge(x[0])) ** 2)

    def sample(key: PRNGKey) -> Float[Array, "2"]:
        z = jax.random.normal(key, (2,))
        return jnp.stack([scale * z[0], ridge(scale * z[0]) + z[1]])

    return Target(
        "banana",
        f"Gaussian bent along a parabola, scale {scale:g}, bend {bend:g}",
        logdensity,
        jnp.zeros(2),
        exact(np.zeros(2), np.array([scale**2, 1 + 2 * bend**2 * scale**4])),
        sample,
    )


def funnel(dim: int = 5, scale: float = 3.0) -> Target:
    """Neal's funnel: x0 ~ N(0, scale^2), and x_i given x0 ~ N(0, exp(x0)) for i > 0."""
    check_count("dim", dim, at_least=2)
    check_number("scale", scale, above=0.0)

    def logdensity(x: Float[Array, " d"]) -> Scalar:
        neck, rest = x[0], x[1:]
        square = jnp.sum(rest**2) * jnp.exp(-neck)
        return -0.5 * ((neck / scale) ** 2 + (dim - 1) * neck + square)

    def sample(key: PRNGKey) -> Float[Array, " d"]:
        z = jax.random.normal(key, (dim,))
        neck = scale * z[:1]
        return jnp.concatenate([neck, jnp.exp(neck / 2) * z[1:]])

    variance = np.full(dim, np.exp(scale**2 / 2))
    variance[0] = scale**2
    return Target(
        "funnel",
        f"Neal's funnel in {dim} dimensions, scale {scale:g}",
        logdensity,
        jnp.zeros(dim),
        exact(np.zeros(dim), variance),
        sample,
    )


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
        # Lists, since JAX 0.9 keeps the precision in which it first saw an array of NumPy.
        residuals = (jnp.array([*EFFECTS]) - fitted) / jnp.array([*ERRORS])
        return prior - 0.5 * jnp.sum(residuals**2)

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
        return np.sum(weight * f, axis=(0, 1))

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


def logistic(num_data: int = 100, dim: int = 10, seed: int = 0) -> Target:
    """The posterior of the paper's logistic regression on synthetic data (eq:logistic_posterior).

    The rows of the design are N(0, V) with V_ij = 0.5^|i - j|. The true coefficients are drawn from
    the prior, which is standard normal.
    """
    check_count("num_data", num_data)
    check_count("dim", dim)
    check_seed("seed", seed)
    rng = np.random.RandomState(seed)  # NumPy guarantees its stream, so the data never change
    i = np.arange(dim)
    cholesky = np.linalg.cholesky(0.5 ** np.abs(i[:, None] - i))
    design = rng.standard_normal((num_data, dim)) @ cholesky.T
    probability = 1 / (1 + np.exp(-design @ rng.standard_normal(dim)))
    labels = (rng.uniform(size=num_data) < probability).astype(float)
    return logistic_posterior(
        "logistic",
        f"logistic regression on {num_data} synthetic data, {dim} coefficients",
        design,
        labels,
    )


def breast_cancer() -> Target:
    """Logistic regression on the Wisconsin breast cancer data, which come with scikit-learn.

    There are 30 standardised covariates and an intercept.
    """
    with extra("breast_cancer", "targets"):
        from sklearn.datasets import load_breast_cancer
    data = load_breast_cancer()
    design = (data.data - data.data.mean(axis=0)) / data.data.std(axis=0)
    design = np.column_stack([np.ones(len(design)), design])
    about = "logistic regression on the Wisconsin breast cancer data, 31 coefficients, real data"
    return logistic_posterior("breast_cancer", about, design, data.target.astype(float))


def logistic_posterior(name: str, about: str, design: ArrayLike, labels: ArrayLike) -> Target:
    """The posterior of logistic regression coefficients with prior N(0, I).

    `design` has shape (row, d), and `labels` holds one 0 or 1 per row.
    """
    check_number("design", design, scalar=False)
    rows, y = np.asarray(design, float), as_numbers("labels", labels)
    if rows.ndim != 2 or y.shape != rows.shape[:1]:
        raise ValueError(
            f"design must be a matrix with one row per label, got shapes {rows.shape} and {y.shape}"
        )
    if not np.all((y == 0) | (y == 1)):
        raise ValueError(f"labels must be 0 or 1, got {np.unique(y)[:5]}")
    dim = rows.shape[1]

    def logdensity(x: Float[Array, " d"]) -> Scalar:
        logit = rows.astype(x.dtype) @ x
        return jnp.sum(y.astype(x.dtype) * logit - jax.nn.softplus(logit)) - 0.5 * x @ x

    return Target(
        name, about, logdensity, jnp.zeros(dim), lambda: importance_moments(logdensity, dim)
    )


def cox(side: int = 16, seed: int = 0) -> Target:
    """Posterior of the whitened log rates of a Cox process, given counts on `side`^2 cells.

    The log rate is a Gaussian process with mean 1 and covariance exp(-distance / 0.2) on the unit
    square; the counts are simulated. Reference moments exist for the default arguments only.
    """
    check_count("side", side, at_least=2)
    check_seed("seed", seed)
    dim = side**2
    centres = (np.arange(side) + 0.5) / side
    points = np.stack(np.meshgrid(centres, centres, indexing="ij"), -1).reshape(dim, 2)
    distance = np.linalg.norm(points[:, None] - points, axis=-1)
    root = np.linalg.cholesky(np.exp(-distance / 0.2) + 1e-9 * np.eye(dim))
    rng = np.random.RandomState(seed)
    counts = rng.poisson(np.exp(1 + root @ rng.standard_normal(dim))).astype(float)

    def logdensity(x: Float[Array, " d"]) -> Scalar:
        log_rate = 1 + root.astype(x.dtype) @ x
        likelihood = jnp.sum(counts.astype(x.dtype) * log_rate - jnp.exp(log_rate))
        return likelihood - 0.5 * jnp.sum(x**2)

    def moments() -> Moments:
        if (side, seed) != (16, 0):
            raise ValueError(
                f"cox has reference moments for side=16 and seed=0 only, got {side} and {seed}"
            )
        stored = json.loads((files("srmc.targets") / "cox.json").read_text())
        return Moments(*(np.array(stored[name]) for name in ("mean", "variance", "error")))

    return Target(
        "cox",
        f"log-Gaussian Cox process on a {side} x {side} grid",
        logdensity,
        jnp.zeros(dim),
        moments,
    )
