"""Posteriors whose data are simulated with a fixed seed, and German credit from a file."""

import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from srmc.types import Array, Float, Scalar
from srmc_studies.bench.posteriors.base import Parameters, Posterior, Vector
from srmc_studies.bench.posteriors.series import linear_recurrence

CREDIT = "german.data-numeric"  # of the UCI repository, Statlog (German Credit Data)


def brownian_motion(length: int = 30, seed: int = 0) -> Posterior:
    """A Brownian path seen with noise except in its middle third, and both scales.

    The numbers are the logarithms of the innovation's and the noise's scale, with priors N(0, 2^2),
    and the places.
    """
    rng = np.random.RandomState(seed)
    path = np.cumsum(0.1 * rng.standard_normal(length))
    seen = np.delete(np.arange(length), np.arange(length // 3, 2 * length // 3))
    y = path[seen] + 0.15 * rng.standard_normal(len(seen))

    def logdensity(x: Vector) -> Scalar:
        logs, places = x[:2], x[2:]
        step, noise = jnp.exp(logs)
        steps = jnp.diff(places, prepend=0.0) / step
        errors = (y.astype(x.dtype) - places[seen]) / noise
        size = length * logs[0] + len(seen) * logs[1]
        return (
            -0.5 * jnp.sum((logs / 2) ** 2)
            - 0.5 * jnp.sum(steps**2)
            - 0.5 * (jnp.sum(errors**2))
            - size
        )

    def constrain(x: Vector) -> Parameters:
        return {"step": jnp.exp(x[0]), "noise": jnp.exp(x[1]), "path": x[2:]}

    def unconstrain(p: Parameters) -> Vector:
        return jnp.concatenate([jnp.log(jnp.stack([p["step"], p["noise"]])), p["path"]])

    about = f"Brownian motion with unknown scales, {length} places, simulated data"
    return Posterior("brownian_motion", about, logdensity, length + 2, constrain, unconstrain)


def german_credit(simulated: bool = True, sparse: bool = False, seed: int = 0) -> Posterior:
    """Logistic regression on 1,000 customers, 24 covariates and an intercept.

    Plain: coefficients ~ N(0, 1). Sparse: coefficient_j = tau lambda_j beta_j, with beta ~ N(0, 1)
    and tau, lambda_j ~ Gamma(1/2, 1/2); the numbers are log tau, log lambda and beta. Unless
    `simulated`, the data are read from $SRMC_DATA.
    """
    rows, labels = _simulated_credit(seed) if simulated else _real_credit()
    dim, name = rows.shape[1], "german_credit" + "_sparse" * sparse + "_simulated" * simulated
    about = f"logistic regression, {'sparse, ' * sparse}{'simulated' if simulated else 'real'} data"

    def likelihood(coefficients: Vector) -> Scalar:
        logit = rows.astype(coefficients.dtype) @ coefficients
        fits = labels.astype(logit.dtype) * logit - jax.nn.softplus(logit)
        return jnp.sum(fits)

    if not sparse:
        return Posterior(
            name,
            about,
            lambda x: likelihood(x) - 0.5 * jnp.sum(x**2),
            dim,
            lambda x: {"beta": x},
            lambda parameters: parameters["beta"],
        )

    def logdensity(x: Vector) -> Scalar:
        logs, beta = x[: dim + 1], x[dim + 1 :]
        # The log of a Gamma(1/2, 1/2) number has log density (z - exp(z)) / 2.
        prior = 0.5 * jnp.sum(logs - jnp.exp(logs)) - 0.5 * jnp.sum(beta**2)
        return likelihood(jnp.exp(logs[0] + logs[1:]) * beta) + prior

    def constrain(x: Vector) -> Parameters:
        scales = jnp.exp(x[: dim + 1])
        return {"tau": scales[0], "lambda": scales[1:], "beta": x[dim + 1 :]}

    def unconstrain(p: Parameters) -> Vector:
        return jnp.concatenate([jnp.log(p["tau"])[None], jnp.log(p["lambda"]), p["beta"]])

    return Posterior(name, about, logdensity, 2 * dim + 1, constrain, unconstrain)


def _real_credit() -> tuple[Float[np.ndarray, "row k"], Float[np.ndarray, " row"]]:
    file = Path(os.environ.get("SRMC_DATA", ".")) / CREDIT
    if not file.is_file():
        raise FileNotFoundError(
            f"{file} is not there; put {CREDIT} of https://archive.ics.uci.edu/dataset/144 into "
            "$SRMC_DATA"
        )
    table = np.loadtxt(file)
    return _standardised(table[:, :-1]), table[:, -1] - 1


def _simulated_credit(seed: int) -> tuple[Float[np.ndarray, "row k"], Float[np.ndarray, " row"]]:
    """Skewed counts, grades and yes-or-no columns, a third of them relevant, 30% bad customers."""
    rng = np.random.RandomState(seed)
    counts = rng.gamma(1.5, 2.0, (1000, 6)).round()
    grades = rng.randint(1, 6, (1000, 6)) + counts[:, :6] // 4
    binary = rng.uniform(size=(1000, 12)) < rng.uniform(0.05, 0.6, 12)
    rows = _standardised(np.column_stack([counts, grades, binary]))
    truth = np.where(np.arange(25) % 3 == 0, 0.6 * rng.standard_normal(25), 0.0)
    truth[0] = -1.0
    return rows, (rng.uniform(size=1000) < 1 / (1 + np.exp(-rows @ truth))).astype(float)


def _standardised(columns: np.ndarray) -> Float[np.ndarray, "row k"]:
    spread = columns.std(axis=0)
    rows = (columns - columns.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return np.column_stack([np.ones(len(rows)), rows])


def item_response(students: int = 400, items: int = 100, seed: int = 0) -> Posterior:
    """Answers of students to items, of which three quarters were asked.

    The numbers are the mean ability, with prior N(0.75, 1), abilities around it and difficulties,
    both N(0, 1).
    """
    rng = np.random.RandomState(seed)
    asked = rng.uniform(size=(students, items)) < 0.75
    logit = 0.75 + rng.standard_normal((students, 1)) - rng.standard_normal(items)
    right = rng.uniform(size=logit.shape) < 1 / (1 + np.exp(-logit))

    def logdensity(x: Vector) -> Scalar:
        ability, difficulty = x[1 : students + 1], x[students + 1 :]
        logit = (x[0] + ability)[:, None] - difficulty[None]
        fits = asked.astype(x.dtype) * (right.astype(x.dtype) * logit - jax.nn.softplus(logit))
        return jnp.sum(fits) - 0.5 * (x[0] - 0.75) ** 2 - 0.5 * jnp.sum(x[1:] ** 2)

    def constrain(x: Vector) -> Parameters:
        return {"mean": x[0], "ability": x[1 : students + 1], "difficulty": x[students + 1 :]}

    def unconstrain(p: Parameters) -> Vector:
        return jnp.concatenate([p["mean"][None], p["ability"], p["difficulty"]])

    about = f"item response, {students} students and {items} items, simulated data"
    dim = 1 + students + items
    return Posterior("item_response", about, logdensity, dim, constrain, unconstrain)


def stochastic_volatility(length: int = 1000, seed: int = 0) -> Posterior:
    """Returns whose log variance is an autoregression, non-centred.

    The numbers are atanh phi, the mean mu of the log variance, log sigma and the innovations z:
    h_1 = mu + sigma z_1 / sqrt(1 - phi^2), h_t = mu + phi (h_{t-1} - mu) + sigma z_t. Priors:
    (1 + phi) / 2 ~ Beta(20, 1.5), mu ~ Cauchy(5), sigma ~ half-Cauchy(2).
    """
    rng = np.random.RandomState(seed)
    noise = rng.standard_normal((2, length))
    h = np.empty(length)
    h[0] = 0.2 / np.sqrt(1 - 0.95**2) * noise[0, 0]
    for t in range(1, length):
        h[t] = 0.95 * h[t - 1] + 0.2 * noise[0, t]
    returns = np.exp(h / 2 - 0.5) * noise[1]

    def log_variance(x: Vector) -> Array:
        phi, z = jnp.tanh(x[0]), x[3:]
        first = z[:1] / jnp.sqrt(1 - phi**2)
        return x[1] + jnp.exp(x[2]) * linear_recurrence(phi, jnp.concatenate([first, z[1:]]))

    def logdensity(x: Vector) -> Scalar:
        h = log_variance(x)
        # With u = (1 + tanh a) / 2 = sigmoid(2 a), du/da = 2 u (1 - u).
        log_u, log_rest = jax.nn.log_sigmoid(2 * x[0]), jax.nn.log_sigmoid(-2 * x[0])
        prior = 20 * log_u + 1.5 * log_rest - jnp.log1p((x[1] / 5) ** 2)
        prior += x[2] - jnp.log1p((jnp.exp(x[2]) / 2) ** 2) - 0.5 * jnp.sum(x[3:] ** 2)
        return prior - 0.5 * jnp.sum(h + jnp.asarray(returns**2, x.dtype) * jnp.exp(-h))

    def constrain(x: Vector) -> Parameters:
        return {"phi": jnp.tanh(x[0]), "mu": x[1], "sigma": jnp.exp(x[2]), "z": x[3:]}

    def unconstrain(p: Parameters) -> Vector:
        head = jnp.stack([jnp.arctanh(p["phi"]), p["mu"], jnp.log(p["sigma"])])
        return jnp.concatenate([head, p["z"]])

    about = f"stochastic volatility, {length} simulated returns, non-centred"
    dim = length + 3
    return Posterior("stochastic_volatility", about, logdensity, dim, constrain, unconstrain)
