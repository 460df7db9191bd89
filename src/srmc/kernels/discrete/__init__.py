"""Base kernels on discrete spaces, in BlackJAX's form: `init`, `build_kernel`, and a call."""

from srmc.kernels.discrete.all_sites import acs, block_gibbs, dlmc, dlp
from srmc.kernels.discrete.informed import gwg, locally_balanced, longest_mean, path_auxiliary
from srmc.kernels.discrete.one_site import flip_mh, gibbs
from srmc.kernels.discrete.sitewise import SiteAlgorithm

__all__ = [
    "SiteAlgorithm",
    "acs",
    "block_gibbs",
    "dlmc",
    "dlp",
    "flip_mh",
    "gibbs",
    "gwg",
    "locally_balanced",
    "longest_mean",
    "path_auxiliary",
]
