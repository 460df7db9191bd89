"""Base kernels in BlackJAX's form: those that BlackJAX lacks, and its MALA."""

from srmc.kernels.discrete import (
    acs,
    block_gibbs,
    dlmc,
    dlp,
    flip_mh,
    gibbs,
    gwg,
    locally_balanced,
    path_auxiliary,
)
from srmc.kernels.langevin import mala, ula, uld

__all__ = [
    "acs",
    "block_gibbs",
    "dlmc",
    "dlp",
    "flip_mh",
    "gibbs",
    "gwg",
    "locally_balanced",
    "mala",
    "path_auxiliary",
    "ula",
    "uld",
]
