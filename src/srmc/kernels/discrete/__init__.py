"""Base kernels on discrete spaces, in BlackJAX's form: `init`, `build_kernel`, and a call."""

from srmc.kernels.discrete._block_gibbs import block_gibbs
from srmc.kernels.discrete._dlmc import dlmc
from srmc.kernels.discrete._dlp import dlp
from srmc.kernels.discrete._flip_mh import flip_mh
from srmc.kernels.discrete._gibbs import gibbs
from srmc.kernels.discrete._informed import gwg, locally_balanced
from srmc.kernels.discrete._path_auxiliary import longest_mean, path_auxiliary
from srmc.kernels.discrete._sitewise import SiteAlgorithm

__all__ = [
    "SiteAlgorithm",
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
