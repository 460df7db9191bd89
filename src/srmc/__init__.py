"""Score-Repellent Monte Carlo on JAX: MCMC samplers that remember where they have been."""

from srmc import kernels, targets
from srmc._history import gain
from srmc._repel import RepelInfo, RepelState, repel
from srmc._samplers import hmc, mala, mh, nuts, ula, uld
from srmc._strength import Strength, capped, fixed, gain_limited, guarded
from srmc._surrogate import Surrogate, shift, tilt

__version__ = "0.1.0"

__all__ = [
    "RepelInfo",
    "RepelState",
    "Strength",
    "Surrogate",
    "capped",
    "fixed",
    "gain",
    "gain_limited",
    "guarded",
    "hmc",
    "kernels",
    "mala",
    "mh",
    "nuts",
    "repel",
    "shift",
    "targets",
    "tilt",
    "ula",
    "uld",
]
