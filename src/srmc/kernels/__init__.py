"""Base kernels that BlackJAX lacks, in BlackJAX's form: `init`, `build_kernel`, and a call."""

from blackjax import generate_top_level_api_from

from srmc.kernels import _ula, _uld
from srmc.kernels._dlp import dlp
from srmc.kernels._flip_mh import flip_mh
from srmc.kernels._gibbs import gibbs
from srmc.kernels._informed import gwg, locally_balanced
from srmc.kernels._sitewise import SiteAlgorithm

ula = generate_top_level_api_from(_ula)
uld = generate_top_level_api_from(_uld)

__all__ = ["SiteAlgorithm", "dlp", "flip_mh", "gibbs", "gwg", "locally_balanced", "ula", "uld"]
