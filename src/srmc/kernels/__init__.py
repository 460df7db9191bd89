"""Base kernels that BlackJAX lacks, in BlackJAX's form: `init`, `build_kernel`, and a call."""

from blackjax import generate_top_level_api_from

from srmc.discrete.kernels import dlp, flip_mh, gibbs, gwg, locally_balanced
from srmc.kernels import _ula, _uld

ula = generate_top_level_api_from(_ula)
uld = generate_top_level_api_from(_uld)

__all__ = ["dlp", "flip_mh", "gibbs", "gwg", "locally_balanced", "ula", "uld"]
