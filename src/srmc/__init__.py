"""Score-Repellent Monte Carlo on JAX: smaller errors from MCMC draws, finished or running."""

from typing import Any

from srmc import kernels, metrics, models, targets, theory
from srmc._programs import enable_cache
from srmc.coordinates import learn_coordinates
from srmc.kernels.ais import ais
from srmc.kernels.builders import (
    acs,
    block_gibbs,
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
from srmc.kernels.discrete.space import Binary, Categorical, Ordinal
from srmc.kernels.stochastic import sghmc, sgld
from srmc.kernels.tempering import tempering
from srmc.models.improve import improve
from srmc.models.model import Model
from srmc.rebalance.control_variates import zv
from srmc.rebalance.rebalance import rebalance
from srmc.rebalance.reweight import reweight
from srmc.repel.history import gain
from srmc.repel.repel import repel, repelled
from srmc.repel.strength import capped, fixed, gain_limited, guarded, watched
from srmc.repel.surrogate import shift, tilt
from srmc.results.formats import load
from srmc.results.result import Result
from srmc.results.summarise import summary
from srmc.results.trouble import RunWarning
from srmc.sample.front import sample
from srmc.sample.many import sample_many
from srmc.sample.merge import merge
from srmc.sample.plan import Keep
from srmc.sample.stream import rebalance_stream

__version__ = "0.2.0"

__all__ = [
    "Binary",
    "Categorical",
    "Keep",
    "Model",
    "Ordinal",
    "Result",
    "RunWarning",
    "acs",
    "ais",
    "block_gibbs",
    "capped",
    "dlmc",
    "dlp",
    "enable_cache",
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
    "learn_coordinates",
    "load",
    "locally_balanced",
    "mala",
    "merge",
    "metrics",
    "mh",
    "models",
    "nuts",
    "paper_settings",
    "path_auxiliary",
    "rebalance",
    "rebalance_stream",
    "repel",
    "repelled",
    "reweight",
    "sample",
    "sample_many",
    "sghmc",
    "sgld",
    "shift",
    "summary",
    "targets",
    "tempering",
    "theory",
    "tilt",
    "ula",
    "uld",
    "watched",
    "zv",
]


def __getattr__(name: str) -> Any:
    from srmc._deprecated import moved

    return moved(name)
