"""Algorithm 1 of the paper: target, history, strength, surrogate and kernel, combined by `repel`.

`repel.py` combines the components. `fixed.py` and `moving.py` hold one step each, in the order in
which the paper prints it; `memory.py` updates history and strength for both.
"""

from srmc.repel.field import Field, affine, combined, field, scalings, shears, translations
from srmc.repel.state import RepelInfo, RepelState
from srmc.repel.strength import Seen, Strength
from srmc.repel.surrogate import Surrogate, along

__all__ = [
    "Field",
    "RepelInfo",
    "RepelState",
    "Seen",
    "Strength",
    "Surrogate",
    "affine",
    "along",
    "combined",
    "field",
    "scalings",
    "shears",
    "translations",
]
