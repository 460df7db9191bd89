"""Algorithm 1 of the paper: target, history, strength, surrogate and kernel, combined by `repel`.

`loop.py` has Algorithm 1 (`Loop.step`), `frames.py` the move of each frame, and `history.py` and
`strength.py` what is updated. `repel.py` puts them together.
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
