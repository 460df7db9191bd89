"""Score-Repellent Monte Carlo on JAX: MCMC samplers that remember where they have been."""

from srmc import kernels, metrics, targets, theory
from srmc._ais import AISResult, ais
from srmc._control_variates import Controlled, zv
from srmc._field import Field, affine, combined, field, scalings, shears, translations
from srmc._history import gain
from srmc._loop import RepelInfo, RepelState
from srmc._rebalance import rebalance, rebalancing
from srmc._repel import repel
from srmc._results import Result, load
from srmc._sample import sample
from srmc._samplers import (
    dlp,
    flip_mh,
    gibbs,
    gwg,
    hmc,
    locally_balanced,
    mala,
    mh,
    nuts,
    paper_settings,
    ula,
    uld,
)
from srmc._space import Binary, Categorical, Ordinal, Space
from srmc._strength import Seen, Strength, capped, fixed, gain_limited, guarded, watched
from srmc._surrogate import Surrogate, along, shift, tilt

__version__ = "0.1.0"

__all__ = [
    "AISResult",
    "Binary",
    "Categorical",
    "Controlled",
    "Field",
    "Ordinal",
    "RepelInfo",
    "RepelState",
    "Result",
    "Seen",
    "Space",
    "Strength",
    "Surrogate",
    "affine",
    "ais",
    "along",
    "capped",
    "combined",
    "dlp",
    "field",
    "fixed",
    "flip_mh",
    "gain",
    "gain_limited",
    "gibbs",
    "guarded",
    "gwg",
    "hmc",
    "kernels",
    "load",
    "locally_balanced",
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
    "theory",
    "tilt",
    "translations",
    "ula",
    "uld",
    "watched",
    "zv",
]
