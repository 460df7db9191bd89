"""Many chains in lockstep: where they are, how they advance, and what is kept of them."""

from srmc.run.devices import in_order
from srmc.run.loop import ALL_CHAINS, CHAINS, Statistics, run

__all__ = ["ALL_CHAINS", "CHAINS", "Statistics", "in_order", "run"]
