"""Running many chains in lockstep: on which devices, how they advance, and what is kept."""

from srmc.sample.devices import in_order
from srmc.sample.loop import ALL_CHAINS, CHAINS, Statistics, run

__all__ = ["ALL_CHAINS", "CHAINS", "Statistics", "in_order", "run"]
