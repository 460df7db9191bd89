"""Base kernels that BlackJAX lacks, each with BlackJAX's `init`, `build_kernel` and builder."""

from blackjax import generate_top_level_api_from

from srmc.kernels import _ula, _uld

ula = generate_top_level_api_from(_ula)
uld = generate_top_level_api_from(_uld)

__all__ = ["ula", "uld"]
