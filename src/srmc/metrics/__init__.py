"""Measures of how well a run did: standard errors, convergence, distances and coverage.

`r_hat` and `between_chains_error` require chains with separate histories; the others do not.
"""

from srmc.metrics.convergence import bfmi, r_hat
from srmc.metrics.distances import (
    ReplicateMSE,
    kl_divergence,
    mode_coverage,
    normalised_entropy,
    replicate_mse,
    total_variation,
    vendi_score,
)
from srmc.metrics.errors import (
    autocorrelation_time,
    batch_means_error,
    between_chains_error,
    repelled_error,
)
from srmc.metrics.weighted import weighted_covariance, weighted_mean, weighted_quantile

__all__ = [
    "ReplicateMSE",
    "autocorrelation_time",
    "batch_means_error",
    "between_chains_error",
    "bfmi",
    "kl_divergence",
    "mode_coverage",
    "normalised_entropy",
    "r_hat",
    "repelled_error",
    "replicate_mse",
    "total_variation",
    "vendi_score",
    "weighted_covariance",
    "weighted_mean",
    "weighted_quantile",
]
