"""Score-Repellent Monte Carlo on JAX: MCMC samplers that remember where they have been."""

from srmc import kernels, metrics, targets
from srmc._history import gain
from srmc._repel import RepelInfo, RepelState, repel
from srmc._samplers import hmc, mala, mh, nuts, paper_settings, ula, uld
from srmc._strength import Seen, Strength, capped, fixed, gain_limited, guarded, watched
from srmc._surrogate import Surrogate, shift, tilt

__version__ = "0.1.0"

__all__ = [
    "RepelInfo",
    "RepelState",
    "Seen",
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
    "metrics",
    "mh",
    "nuts",
    "paper_settings",
    "repel",
    "shift",
    "targets",
    "tilt",
    "ula",
    "uld",
    "watched",
]
