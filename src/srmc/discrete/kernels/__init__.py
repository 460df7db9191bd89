"""Base kernels on discrete spaces, in BlackJAX's form: `init`, `build_kernel`, and a call."""

from srmc.discrete.kernels._dlmc import dlmc
from srmc.discrete.kernels._dlp import dlp
from srmc.discrete.kernels._flip_mh import flip_mh
from srmc.discrete.kernels._gibbs import gibbs
from srmc.discrete.kernels._informed import gwg, locally_balanced
from srmc.discrete.kernels._path_auxiliary import longest_mean, path_auxiliary
from srmc.discrete.kernels._sitewise import SiteAlgorithm

__all__ = [
    "SiteAlgorithm",
    "dlmc",
    "dlp",
    "flip_mh",
    "gibbs",
    "gwg",
    "locally_balanced",
    "longest_mean",
    "path_auxiliary",
]
