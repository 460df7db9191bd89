"""Base kernels in BlackJAX's form: `init`, `build_kernel`, and a call.

These are the ones that BlackJAX lacks, and its MALA; each can be given a target in two parts.
"""

from types import ModuleType

from srmc.kernels import _mala, _ula, _uld
from srmc.kernels.discrete import (
    block_gibbs,
    dlmc,
    dlp,
    flip_mh,
    gibbs,
    gwg,
    locally_balanced,
    path_auxiliary,
)
from srmc.repel.split import SplitAlgorithm


def _algorithm(
    module: ModuleType, name: str, *, bends_proposal: bool, adjusted: bool
) -> SplitAlgorithm:
    parts = module.as_top_level_api, module.init, module.build_kernel
    return SplitAlgorithm(*parts, name, module.build_split_kernel, bends_proposal, adjusted)


mala = _algorithm(_mala, "mala", bends_proposal=True, adjusted=True)
ula = _algorithm(_ula, "ula", bends_proposal=False, adjusted=False)
uld = _algorithm(_uld, "uld", bends_proposal=True, adjusted=False)

__all__ = [
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
