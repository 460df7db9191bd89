"""The paper's experiments, one a module, each a command: `srmc reproduce NAME`.

An experiment takes (size, seed, on_progress), size "quick" or "full", and returns an `Outcome`:
settings, numbers, pictures, and rows of the ledger.
"""

from collections.abc import Callable

from srmc.paper._ledger import Estimate, Outcome, Row
from srmc.paper.adaptive_alpha import adaptive_alpha
from srmc.paper.epsilon import epsilon
from srmc.paper.figure1 import figure1
from srmc.paper.figure2 import figure2
from srmc.paper.mixture_cifar import mixture_cifar
from srmc.paper.rho import rho
from srmc.paper.variance_laws import variance_laws

EXPERIMENTS: dict[str, Callable[..., Outcome]] = {
    "figure1": figure1,
    "figure2": figure2,
    "rho": rho,
    "epsilon": epsilon,
    "adaptive-alpha": adaptive_alpha,
    "variance-laws": variance_laws,
    "mixture-cifar": mixture_cifar,
}

__all__ = ["EXPERIMENTS", "Estimate", "Outcome", "Row"]
