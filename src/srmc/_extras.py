"""Packages that only some uses need, with an error that says how to install them."""

from collections.abc import Iterator
from contextlib import contextmanager


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
