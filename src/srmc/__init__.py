"""Score-Repellent Monte Carlo on JAX: MCMC samplers that remember where they have been."""

from srmc import kernels, metrics, models, targets, theory
from srmc._programs import enable_cache
from srmc.kernels.ais import AISResult, ais
from srmc.kernels.builders import (
    dlmc,
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
    path_auxiliary,
    ula,
    uld,
)
from srmc.kernels.discrete.changes import SiteDifferences
from srmc.kernels.discrete.space import Binary, Categorical, Ordinal, Space
from srmc.kernels.tempering import TemperingInfo, TemperingState, find_temperatures, tempering
from srmc.models.improve import improve
from srmc.models.model import Model
from srmc.rebalance.control_variates import Controlled, zv
from srmc.rebalance.errors import rebalanced_error
from srmc.rebalance.rebalance import rebalance
from srmc.rebalance.report import Report as Rebalancing
from srmc.rebalance.reweight import reweight
from srmc.repel.field import Field, affine, combined, field, scalings, shears, translations
from srmc.repel.history import gain
from srmc.repel.repel import repel, repelled
from srmc.repel.schedules import capped, guarded
from srmc.repel.state import RepelInfo, RepelState
from srmc.repel.strength import Seen, Strength, fixed, gain_limited, watched
from srmc.repel.surrogate import Surrogate, along, shift
from srmc.repel.tilt import tilt
from srmc.results.netcdf import load
from srmc.results.result import Result
from srmc.results.trouble import RunWarning
from srmc.sample.front import sample
from srmc.sample.plan import Keep
from srmc.sample.stream import rebalancing

__version__ = "0.2.0"

__all__ = [
    "AISResult",
    "Binary",
    "Categorical",
    "Controlled",
    "Field",
    "Keep",
    "Model",
    "Ordinal",
    "Rebalancing",
    "RepelInfo",
    "RepelState",
    "Result",
    "RunWarning",
    "Seen",
    "SiteDifferences",
    "Space",
    "Strength",
    "Surrogate",
    "TemperingInfo",
    "TemperingState",
    "affine",
    "ais",
    "along",
    "capped",
    "combined",
    "dlmc",
    "dlp",
    "enable_cache",
    "field",
    "find_temperatures",
    "fixed",
    "flip_mh",
    "gain",
    "gain_limited",
    "gibbs",
    "guarded",
    "gwg",
    "hmc",
    "improve",
    "kernels",
    "load",
    "locally_balanced",
    "mala",
    "metrics",
    "mh",
    "models",
    "nuts",
    "paper_settings",
    "path_auxiliary",
    "rebalance",
    "rebalanced_error",
    "rebalancing",
    "repel",
    "repelled",
    "reweight",
    "sample",
    "scalings",
    "shears",
    "shift",
    "targets",
    "tempering",
    "theory",
    "tilt",
    "translations",
    "ula",
    "uld",
    "watched",
    "zv",
]
