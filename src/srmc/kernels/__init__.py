"""Kernels that BlackJAX lacks, discrete spaces, the named builders, tempering and annealing.

`plain` has the base kernels in BlackJAX's form; `builders` are the repelled ones by name.
"""

from srmc.kernels import plain
from srmc.kernels.ais import AISResult
from srmc.kernels.discrete.changes import SiteDifferences
from srmc.kernels.discrete.space import Space
from srmc.kernels.mixed import mixed
from srmc.kernels.tempering import TemperingInfo, TemperingState, find_temperatures

__all__ = [
    "AISResult",
    "SiteDifferences",
    "Space",
    "TemperingInfo",
    "TemperingState",
    "find_temperatures",
    "mixed",
    "plain",
]
