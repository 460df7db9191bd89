"""The paper's limit theorem as functions: predict what repellence will do before a run.

A `Case` holds what the theorem needs of a target, its kernel and a function f. It comes
from a finite chain (`finite`), a Gaussian (`gaussian`) or the draws of a base run (`estimate`), and
is passed on as `asymptotic_covariance(*case, alpha=1, rho=1)`.
"""

from srmc.theory._assumption import Tails, check_tails
from srmc.theory._finite import MeanField, Simulated, metropolis, simulate, transition_matrix
from srmc.theory._limit import (
    Blocks,
    asymptotic_covariance,
    average_covariance,
    blocks,
    budget_covariance,
    control_variate_covariance,
    gaussian_mean_covariance,
    independent_covariance,
    jacobian,
    largest_gain,
    residual_covariance,
)
from srmc.theory._noise import (
    Case,
    estimate,
    estimated_noise,
    finite,
    gaussian,
    independent_noise,
    markov_noise,
)

__all__ = [
    "Blocks",
    "Case",
    "MeanField",
    "Simulated",
    "Tails",
    "asymptotic_covariance",
    "average_covariance",
    "blocks",
    "budget_covariance",
    "check_tails",
    "control_variate_covariance",
    "estimate",
    "estimated_noise",
    "finite",
    "gaussian",
    "gaussian_mean_covariance",
    "independent_covariance",
    "independent_noise",
    "jacobian",
    "largest_gain",
    "markov_noise",
    "metropolis",
    "residual_covariance",
    "simulate",
    "transition_matrix",
]
