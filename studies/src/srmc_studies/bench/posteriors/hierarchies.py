"""Centred hierarchies and twisted Gaussians, which are Gaussian in other coordinates."""

import jax
import jax.numpy as jnp
import numpy as np

from srmc.types import Array, Float, PRNGKey, Scalar
from srmc_studies.bench.gallery import data
from srmc_studies.bench.posteriors.base import Parameters, Posterior, Vector


def twisted(dim: int, bend: float = 0.1) -> Posterior:
    """Haario's twisted Gaussian: x0 ~ N(0, 10^2), x1 given x0 ~ N(bend (100 - x0^2), 1)."""

    def logdensity(x: Vector) -> Scalar:
        second = x[1] - bend * (100 - x[0] ** 2)
        return -0.5 * (x[0] ** 2 / 100 + second**2 + jnp.sum(x[2:] ** 2))

    def sample(key: PRNGKey) -> Vector:
        z = jax.random.normal(key, (dim,))
        first = 10 * z[0]
        return z.at[0].set(first).at[1].add(bend * (100 - first**2))

    return _whole(f"twisted-{dim}", f"twisted Gaussian, bend {bend:g}", logdensity, dim, sample)


def hierarchy(groups: int = 48, seed: int = 0) -> Posterior:
    """A centred normal hierarchy: theta_j ~ N(mu, tau^2), mean_j ~ N(theta_j, 3^2 / size_j).

    mu ~ N(0, 5^2) and tau ~ half-Cauchy(1); sizes are from 1 to 400. The numbers are log tau, mu
    and theta.
    """
    rng = np.random.RandomState(seed)
    sizes = np.exp(rng.uniform(0, np.log(400), groups)).round()
    errors = 3 / np.sqrt(sizes)
    means = 1 + 0.5 * rng.standard_normal(groups) + errors * rng.standard_normal(groups)

    def logdensity(x: Vector) -> Scalar:
        log_tau, mu, theta = x[0], x[1], x[2:]
        prior = log_tau - jnp.log1p(jnp.exp(2 * log_tau)) - 0.5 * (mu / 5) ** 2
        spread = jnp.sum(((theta - mu) * jnp.exp(-log_tau)) ** 2)
        fits = jnp.sum(((means - theta) / errors) ** 2)
        return prior - groups * log_tau - 0.5 * (spread + fits)

    # Given tau, mean_j ~ N(mu, error_j^2 + tau^2); tau comes from a fine grid.
    log_tau = np.linspace(-12, 5, 2**14)
    variance = np.exp(2 * log_tau)[:, None] + errors**2
    precision = 1 / 25 + np.sum(1 / variance, axis=1)
    center = np.sum(means / variance, axis=1) / precision
    log_weight = 0.5 * (precision * center**2 - np.log(precision)) + log_tau
    log_weight -= np.log1p(np.exp(2 * log_tau))
    log_weight -= 0.5 * np.sum(means**2 / variance + np.log(variance), axis=1)
    cumulated = np.cumsum(np.exp(log_weight - log_weight.max()))

    def sample(key: PRNGKey) -> Vector:
        keys = jax.random.split(key, 3)
        log = jnp.interp(jax.random.uniform(keys[0]) * cumulated[-1], cumulated, log_tau)
        square = jnp.exp(2 * log)
        weight = 1 / (square + errors**2)
        own = 1 / 25 + jnp.sum(weight)
        mu = jnp.sum(means * weight) / own + jax.random.normal(keys[1]) / jnp.sqrt(own)
        center = (mu * errors**2 + means * square) * weight
        noise = jnp.exp(log) * errors * jnp.sqrt(weight) * jax.random.normal(keys[2], (groups,))
        return jnp.concatenate([jnp.stack([log, mu]), center + noise])

    about = f"centred hierarchy of {groups} groups of very different size"
    return _whole("hierarchy-48", about, logdensity, groups + 2, sample)


def radon() -> Posterior:
    """Log radon in 85 counties, centred; the numbers are both log scales, three effects, counties.

    Given both scales the rest is Gaussian; the reference is a long run of the non-centred form.
    """
    homes = data.radon()
    counties = len(homes.uranium)

    def level(x: Vector) -> Float[Array, " county"]:
        return x[2] + x[3] * homes.uranium

    def scales(x: Vector) -> Scalar:
        half_normal = jnp.sum(x[:2] - 0.5 * jnp.exp(2 * x[:2]))
        return half_normal - 0.5 * jnp.sum((x[2:5] / 2) ** 2)

    def fits(x: Vector, county: Float[Array, " county"]) -> Scalar:
        off = (homes.log_radon - county[homes.county] - x[4] * homes.floor) * jnp.exp(-x[1])
        return -0.5 * jnp.sum(off**2) - len(homes.county) * x[1]

    def logdensity(x: Vector) -> Scalar:
        off = (x[5:] - level(x)) * jnp.exp(-x[0])
        return scales(x) + fits(x, x[5:]) - 0.5 * jnp.sum(off**2) - counties * x[0]

    def centred(z: Vector) -> Vector:
        return jnp.concatenate([z[:5], level(z) + jnp.exp(z[0]) * z[5:]])

    def other(z: Vector) -> Scalar:
        return scales(z) + fits(z, centred(z)[5:]) - 0.5 * jnp.sum(z[5:] ** 2)

    def reference() -> Float[np.ndarray, "chain draw d"]:
        from srmc_studies.bench import rivals

        form = Posterior("radon", "", other, counties + 5, _named, _bare)
        starts = 0.1 * jax.random.normal(jax.random.key(1), (8, counties + 5))
        draws = rivals.run("BlackJAX NUTS", form, jax.random.key(2), starts, 1000, 4000).draws
        return np.asarray(jax.vmap(jax.vmap(centred))(jnp.asarray(draws)))

    about = f"centred hierarchy of {counties} counties, simulated data"
    name, dim = "radon-centred", counties + 5
    return Posterior(name, about, logdensity, dim, _named, _bare, reference=reference)


def _whole(name: str, about: str, logdensity: object, dim: int, sample: object) -> Posterior:
    return Posterior(name, about, logdensity, dim, _named, _bare, sample=sample)  # type: ignore[arg-type]


def _named(x: Vector) -> Parameters:
    return {"x": x}


def _bare(parameters: Parameters) -> Vector:
    return parameters["x"]
