"""Linear regressions of posteriordb: coefficients, and a scale of the noise."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from srmc.types import Array, Float, Scalar
from srmc_studies.bench.posteriors.base import (
    Database,
    Parameters,
    Posterior,
    Vector,
    with_reference,
)

Prior = Callable[[Array], Array]


def flat(x: Array) -> Array:
    """The improper prior."""
    return jnp.zeros_like(x)


def normal(mean: Any = 0.0, scale: Any = 1.0) -> Prior:
    """A Gaussian prior, up to a constant."""
    return lambda x: -0.5 * ((x - mean) / scale) ** 2


def student(degrees: float, mean: float = 0.0, scale: float = 1.0) -> Prior:
    """A Student t prior, up to a constant; with one degree of freedom a Cauchy."""
    return lambda x: -0.5 * (degrees + 1) * jnp.log1p(((x - mean) / scale) ** 2 / degrees)


def linear(
    name: str,
    about: str,
    design: Float[np.ndarray, "row k"],
    response: Float[np.ndarray, " row"],
    coefficients: Prior = flat,
    noise: Prior = flat,
    names: dict[str, int] | None = None,
) -> Posterior:
    """response ~ N(design beta, sigma^2); the numbers are beta and log sigma.

    `names` are those of the coefficients, with the length of each, 0 for a single number.
    """
    names = {"beta": design.shape[1]} if names is None else names
    ends = np.cumsum([max(size, 1) for size in names.values()])

    def logdensity(x: Vector) -> Scalar:
        beta, log_sigma = x[:-1], x[-1]
        sigma = jnp.exp(log_sigma)
        error = (response.astype(x.dtype) - design.astype(x.dtype) @ beta) / sigma
        prior = jnp.sum(coefficients(beta)) + noise(sigma) + log_sigma  # the Jacobian of exp
        return prior - 0.5 * jnp.sum(error**2) - len(response) * log_sigma

    def constrain(x: Vector) -> Parameters:
        parts = jnp.split(x[:-1], ends[:-1])
        named = {
            k: part if size else part[0]
            for (k, size), part in zip(names.items(), parts, strict=True)
        }
        return named | {"sigma": jnp.exp(x[-1])}

    def unconstrain(parameters: Parameters) -> Vector:
        parts = [jnp.atleast_1d(parameters[k]) for k in names]
        return jnp.concatenate([*parts, jnp.log(parameters["sigma"])[None]])

    return Posterior(name, about, logdensity, design.shape[1] + 1, constrain, unconstrain)


def _columns(*columns: Any) -> Float[np.ndarray, "row k"]:
    """A design with an intercept."""
    rows = [np.asarray(column, float) for column in columns]
    return np.stack([np.ones_like(rows[0]), *rows], axis=1)


def diamonds(database: Database) -> Posterior:
    """Log price of 5,000 diamonds; covariates are centred, and the intercept comes last."""
    data = database.data("diamonds")
    x = np.asarray(data["X"], float)[:, 1:]
    design = np.column_stack([x - x.mean(axis=0), np.ones(len(x))])
    standard, wide = normal(), student(3, 8, 10)

    def prior(beta: Array) -> Array:
        return jnp.append(standard(beta[:-1]), wide(beta[-1]))

    posterior = linear(
        "diamonds-diamonds",
        "regression of log prices, highly correlated",
        design,
        np.asarray(data["Y"], float),
        prior,
        student(3, 0, 10),
        {"b": x.shape[1], "Intercept": 0},
    )
    return with_reference(posterior, database)


def earnings(database: Database) -> Posterior:
    """Log earnings by height, sex and their product."""
    data = {k: np.asarray(v, float) for k, v in database.data("earnings").items()}
    design = _columns(data["height"], data["male"], data["height"] * data["male"])
    posterior = linear(
        "earnings-logearn_interaction", "regression of log earnings", design, np.log(data["earn"])
    )
    return with_reference(posterior, database)


def kidiq(database: Database, interaction: bool = True) -> Posterior:
    """Test scores of children by their mother's IQ, and with `interaction` her schooling."""
    data = {k: np.asarray(v, float) for k, v in database.data("kidiq").items()}
    iq, school = data["mom_iq"], data["mom_hs"]
    design = _columns(school, iq, school * iq) if interaction else _columns(iq)
    posterior = linear(
        "kidiq-kidscore_interaction" if interaction else "kidiq-kidscore_momiq",
        "regression of test scores",
        design,
        data["kid_score"],
        noise=student(1, 0, 2.5),
    )
    return with_reference(posterior, database)


def kilpisjarvi(database: Database) -> Posterior:
    """Summer temperatures by year, uncentred: the intercept and the slope hardly differ."""
    data = database.data("kilpisjarvi_mod")
    mean = np.array([data["pmualpha"], data["pmubeta"]])
    scale = np.array([data["psalpha"], data["psbeta"]])
    posterior = linear(
        "kilpisjarvi_mod-kilpisjarvi",
        "regression of temperatures on years, nearly degenerate",
        _columns(data["x"]),
        np.asarray(data["y"], float),
        normal(mean, scale),
        names={"alpha": 0, "beta": 0},
    )
    return with_reference(posterior, database)


def mesquite(database: Database) -> Posterior:
    """Log weights of bushes by the logarithms of their measures."""
    data = {k: np.asarray(v, float) for k, v in database.data("mesquite").items()}
    area, height = data["diam1"] * data["diam2"], data["canopy_height"]
    shape, total = data["diam1"] / data["diam2"], data["total_height"]
    logs = [np.log(column) for column in (area * height, area, shape, total)]
    posterior = linear(
        "mesquite-logmesquite_logvash",
        "regression of log weights on 46 rows",
        _columns(*logs, data["group"]),
        np.log(data["weight"]),
    )
    return with_reference(posterior, database)


def nes(database: Database) -> Posterior:
    """Party identification by ideology, race, age group, schooling, gender and income."""
    data = {k: np.asarray(v, float) for k, v in database.data("nes1980").items()}
    ages = [data["age_discrete"] == group for group in (2, 3, 4)]
    rest = [data[k] for k in ("educ1", "gender", "income")]
    posterior = linear(
        "nes1980-nes",
        "regression of party identification",
        _columns(data["real_ideo"], data["race_adj"], *ages, *rest),
        data["partyid7"],
    )
    return with_reference(posterior, database)


def blr(database: Database, correlated: bool = True) -> Posterior:
    """A regression on simulated covariates, correlated or independent."""
    data = database.data("sblrc" if correlated else "sblri")
    posterior = linear(
        f"{'sblrc' if correlated else 'sblri'}-blr",
        f"regression on {'correlated' if correlated else 'independent'} covariates",
        np.asarray(data["X"], float),
        np.asarray(data["y"], float),
        normal(0, 10),
        normal(0, 10),
    )
    return with_reference(posterior, database)
