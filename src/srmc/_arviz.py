"""ArviZ, imported when it is first used and without the announcement that it makes once a day."""

import warnings
from typing import Any


def import_arviz() -> Any:
    """The `arviz` package."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        import arviz
    return arviz
