"""Score-Repellent Monte Carlo on JAX: MCMC samplers that remember where they have been."""

from srmc import discrete, kernels, metrics, models, run, targets, theory, tune
from srmc._programs import enable_cache
from srmc.after.ais import AISResult, ais
from srmc.after.control_variates import Controlled, zv
from srmc.after.errors import rebalanced_error
from srmc.after.improve import improve
from srmc.after.rebalance import rebalance
from srmc.after.rebalancing import rebalancing
from srmc.after.report import Report as Rebalancing
from srmc.after.reweight import reweight
from srmc.core.field import Field, affine, combined, field, scalings, shears, translations
from srmc.core.history import gain
from srmc.core.repel import repel, repelled
from srmc.core.schedules import capped, guarded
from srmc.core.state import RepelInfo, RepelState
from srmc.core.strength import Seen, Strength, fixed, gain_limited, watched
from srmc.core.surrogate import Surrogate, along, shift
from srmc.core.tilt import tilt
from srmc.discrete.changes import SiteDifferences
from srmc.discrete.space import Binary, Categorical, Ordinal, Space
from srmc.kernels.stochastic import sghmc, sgld
from srmc.kernels.tempering import TemperingInfo, TemperingState, find_temperatures, tempering
from srmc.models.model import Model
from srmc.results.netcdf import load
from srmc.results.result import Result
from srmc.results.trouble import RunWarning
from srmc.run.plan import Keep
from srmc.sample import sample
from srmc.samplers import (
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
    "discrete",
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
    "rebalance",
    "rebalanced_error",
    "rebalancing",
    "repel",
    "repelled",
    "reweight",
    "run",
    "sample",
    "scalings",
    "sghmc",
    "sgld",
    "shears",
    "shift",
    "targets",
    "tempering",
    "theory",
    "tilt",
    "translations",
    "tune",
    "ula",
    "uld",
    "watched",
    "zv",
]
