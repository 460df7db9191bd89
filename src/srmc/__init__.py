"""Score-Repellent Monte Carlo on JAX: MCMC samplers that remember where they have been."""

from srmc import kernels, metrics, targets
from srmc._field import Field, affine, combined, field, scalings, shears, translations
from srmc._history import gain
from srmc._rebalance import rebalance, rebalancing
from srmc._repel import RepelInfo, RepelState, repel
from srmc._results import Result, load
from srmc._sample import sample
from srmc._samplers import hmc, mala, mh, nuts, paper_settings, ula, uld
from srmc._strength import Seen, Strength, capped, fixed, gain_limited, guarded, watched
from srmc._surrogate import Surrogate, along, shift, tilt

__version__ = "0.1.0"

__all__ = [
    "Field",
    "RepelInfo",
    "RepelState",
    "Result",
    "Seen",
    "Strength",
    "Surrogate",
    "affine",
    "along",
    "capped",
    "combined",
    "field",
    "fixed",
    "gain",
    "gain_limited",
    "guarded",
    "hmc",
    "kernels",
    "load",
    "mala",
    "metrics",
    "mh",
    "nuts",
    "paper_settings",
    "rebalance",
    "rebalancing",
    "repel",
    "sample",
    "scalings",
    "shears",
    "shift",
    "targets",
    "tilt",
    "translations",
    "ula",
    "uld",
    "watched",
]
