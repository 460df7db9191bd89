"""ArviZ, imported on first use and without its daily announcement."""

import warnings
from typing import Any


def import_arviz() -> Any:
    """The `arviz` package."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        import arviz
    return arviz
