"""Packages that only some uses need: errors that say how to install them, and ArviZ in silence."""

import contextlib
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def extra(use: str, name: str = "all") -> Iterator[None]:
    """Import what `use` needs; a package that is missing is named, with its extra.

    >>> with extra("plot()"):
    ...     import no_such_package
    Traceback (most recent call last):
    ModuleNotFoundError: plot() needs no_such_package: pip install 'srmc[all]'
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{use} needs {error.name}: pip install 'srmc[{name}]'", name=error.name
        ) from None


_one_at_a_time = threading.Lock()


def import_arviz() -> Any:
    """The `arviz` package."""
    with _one_at_a_time, warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        with contextlib.nullcontext() if "arviz" in sys.modules else _stamped_elsewhere():
            try:
                import arviz
            except AttributeError as error:
                raise ImportError(
                    f"arviz cannot be imported: {error}. arviz-plots 0.8, which Bambi installs, "
                    "needs an older matplotlib: pip install 'matplotlib<3.11'"
                ) from error
    return arviz


@contextlib.contextmanager
def _stamped_elsewhere() -> Iterator[None]:
    """Inside, the user's cache is a folder of this process alone.

    On import, ArviZ 0.23 writes the day of its announcement there, under a temporary name that
    processes share: those that start at once lose it, and without a writable home all fail.
    """
    try:
        import platformdirs
    except ImportError:  # nor does this ArviZ use it
        yield
        return
    usual = platformdirs.user_cache_dir
    with tempfile.TemporaryDirectory() as folder:
        platformdirs.user_cache_dir = lambda *_, **__: folder
        try:
            yield
        finally:
            platformdirs.user_cache_dir = usual
