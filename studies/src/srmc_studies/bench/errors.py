"""Squared errors of estimates from draws, and from control variates on the same draws."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from srmc.types import Array, Bool, Float

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
Errors = dict[str, Float[Array, ""]]


class Truth(NamedTuple):
    """The truth: mean and variance, and if it comes from draws also the other functionals."""

    mean: Float[Array, " d"]
    variance: Float[Array, " d"]
    covariance: Float[Array, "d d"] | None = None
    quantiles: Float[Array, "q d"] | None = None
    tail: Float[Array, " d"] | None = None

    @staticmethod
    def of(
        draws: Float[Array, "draw d"], mean: Float[Array, " d"], variance: Float[Array, " d"]
    ) -> "Truth":
        """The truth estimated from many draws, with the mean and variance given."""
        covariance = jnp.cov(draws, rowvar=False).reshape(mean.size, mean.size)
        scale = jnp.sqrt(variance / jnp.diag(covariance))
        return Truth(
            mean,
            variance,
            covariance * (scale[None] * scale[:, None]),
            jnp.quantile(draws, jnp.array(QUANTILES), axis=0),
            jnp.mean(draws > (mean + 1.5 * jnp.sqrt(variance))[None], axis=0),
        )

    @property
    def correlation(self) -> Float[Array, "d d"]:
        """The covariance in units of the standard deviations."""
        sd = jnp.sqrt(self.variance)
        assert self.covariance is not None
        return self.covariance / (sd[None] * sd[:, None])


def errors_of(
    draws: Float[Array, "draw chain d"], use: Bool[Array, " draw"], truth: Truth
) -> Errors:
    """Squared errors in units of the target's variances, over the draws in use."""
    sd = jnp.sqrt(truth.variance)
    weight = (use / jnp.maximum(jnp.sum(use), 1))[:, None, None] / draws.shape[1]
    y = (draws - truth.mean[None, None]) / sd[None, None]
    off = jnp.sum(weight * y**2, axis=(0, 1)) - 1
    out = {
        "mean": jnp.mean(jnp.sum(weight * y, axis=(0, 1)) ** 2),
        "second": jnp.mean(off**2),
        "radius": jnp.mean(off) ** 2,
    }
    if truth.quantiles is not None and truth.tail is not None:
        second = jnp.einsum("nci,ncj->ij", weight * y, y)
        out["covariance"] = jnp.mean((second - truth.correlation) ** 2)
        used = jnp.where(use[:, None, None], draws, jnp.nan).reshape(-1, draws.shape[-1])
        found = jnp.nanquantile(used, jnp.array(QUANTILES), axis=0)
        out["quantile"] = jnp.mean(((found - truth.quantiles) / sd[None]) ** 2)
        tail = jnp.sum(weight * (y > 1.5), axis=(0, 1))
        out["tail"] = jnp.mean((tail - truth.tail) ** 2)
    return out


def control_variate_errors(
    draws: Float[Array, "draw chain d"],
    scores: Float[Array, "draw chain d"],
    order: int,
    truth: Truth,
) -> Errors:
    """Errors with zero-variance control variates by least squares, pooled over chains.

    They are empty if there are fewer than two draws per control variate.
    """
    dim = draws.shape[-1]
    x, s = (a.reshape(-1, dim) for a in (draws, scores))
    sd = jnp.sqrt(truth.variance)
    y, s = (x - truth.mean[None]) / sd[None], s * sd[None]
    pairs = jnp.triu_indices(dim)
    if order == 2:
        if 2 * (dim + len(pairs[0])) > len(y):
            return {}
        centred = y - jnp.mean(y, axis=0)[None]
        quadratic = centred[:, pairs[0]] * s[:, pairs[1]] + centred[:, pairs[1]] * s[:, pairs[0]]
        s = jnp.concatenate([s, quadratic / 2 + (pairs[0] == pairs[1])[None]], axis=1)
    f = jnp.concatenate([y, y**2], axis=1)
    if truth.covariance is not None:
        f = jnp.concatenate([f, y[:, pairs[0]] * y[:, pairs[1]]], axis=1)
    estimate = _controlled(f, s)
    off = estimate[dim : 2 * dim] - 1
    out = {
        "mean": jnp.mean(estimate[:dim] ** 2),
        "second": jnp.mean(off**2),
        "radius": jnp.mean(off) ** 2,
    }
    if truth.covariance is not None:
        square = (estimate[2 * dim :] - truth.correlation[pairs]) ** 2
        out["covariance"] = jnp.sum(square * jnp.where(pairs[0] == pairs[1], 1, 2)) / dim**2
    return out


def _controlled(f: Float[Array, "n k"], s: Float[Array, "n m"]) -> Float[Array, " k"]:
    """The means of f, minus the part that s explains."""
    mean_s, mean_f = jnp.mean(s, axis=0), jnp.mean(f, axis=0)
    centred_s, centred_f = s - mean_s[None], f - mean_f[None]
    gram = centred_s.T @ centred_s
    gram = gram + 1e-6 * jnp.diag(jnp.diag(gram))
    estimate: Array = mean_f - mean_s @ jnp.linalg.solve(gram, centred_s.T @ centred_f)
    return estimate


def ratio_error(plain: np.ndarray, other: np.ndarray) -> float:
    """The standard error of mean(other) / mean(plain), by the jackknife over replicates."""
    n = len(plain)
    with np.errstate(over="ignore", invalid="ignore"):  # a run that blew up
        left_out = (other.sum() - other) / (plain.sum() - plain)
        return float(np.sqrt((n - 1) / n * np.sum((left_out - left_out.mean()) ** 2)))
