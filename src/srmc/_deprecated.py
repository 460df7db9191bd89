"""Names of older versions, which work for one version more.

A name that moves is kept here until the next minor version, with a DeprecationWarning that says
the new one; docs/howto/upgrading.md lists them.
"""

import importlib
import warnings
from typing import Any

# The old name, and the module and the name that took its place.
MOVED = {
    **{name: ("srmc.repel", name) for name in ("Field", "RepelInfo", "RepelState", "Seen")},
    **{name: ("srmc.repel", name) for name in ("Strength", "Surrogate", "affine", "along")},
    **{name: ("srmc.repel", name) for name in ("combined", "field", "scalings", "shears")},
    "translations": ("srmc.repel", "translations"),
    **{name: ("srmc.kernels", name) for name in ("AISResult", "SiteDifferences", "Space")},
    **{name: ("srmc.kernels", name) for name in ("TemperingInfo", "TemperingState")},
    "find_temperatures": ("srmc.kernels", "find_temperatures"),
    **{name: ("srmc.rebalance", name) for name in ("Controlled", "rebalanced_error")},
    "Rebalancing": ("srmc.rebalance", "Report"),
    "rebalancing": ("srmc", "rebalance_stream"),
    "discrete": ("srmc.kernels", "discrete"),
    "run": ("srmc.sample", ""),
    "tune": ("srmc.sample", "tune"),
}


def moved(name: str) -> Any:
    """The object that an old name of the package stands for."""
    if name not in MOVED:
        raise AttributeError(f"module 'srmc' has no attribute {name!r}")
    module, new = MOVED[name]
    where = (
        f"from {module} import {new}" if new and module != "srmc" else f"{module}.{new}".rstrip(".")
    )
    warnings.warn(f"srmc.{name} is now {where}", DeprecationWarning, stacklevel=3)
    found = importlib.import_module(module)
    return getattr(found, new) if new else found
