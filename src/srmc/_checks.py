"""Argument checks whose messages name the argument, the value and what is allowed."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np


def is_concrete(value: Any) -> bool:
    """Whether the numbers in `value` are known now, that is outside of any trace."""
    return not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(value))


def check_number(
    name: str,
    value: Any,
    *,
    above: float = -np.inf,
    at_least: float = -np.inf,
    at_most: float = np.inf,
    scalar: bool = True,
) -> None:
    """Raise if a number, or an entry of an array if not `scalar`, is not finite or out of range."""
    if not is_concrete(value):
        return
    if isinstance(value, str) or (scalar and np.ndim(value) > 0):
        raise TypeError(f"{name} must be a number, got {value!r}")
    allowed = [
        text
        for text, given in (
            ("finite", True),
            (f"> {above:g}", above > -np.inf),
            (f">= {at_least:g}", at_least > -np.inf),
            (f"<= {at_most:g}", at_most < np.inf),
        )
        if given
    ]
    try:
        numbers = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number, got {value!r}") from None
    inside = (numbers > above) & (numbers >= at_least) & (numbers <= at_most)
    if not np.all(np.isfinite(numbers) & inside):
        raise ValueError(f"{name} must be {' and '.join(allowed)}, got {value!r}")


def check_count(name: str, value: Any, *, at_least: int = 1) -> None:
    """Raise unless the value is a whole number of at least `at_least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    if value < at_least:
        raise ValueError(f"{name} must be >= {at_least}, got {value!r}")


def check_option(name: str, value: Any, allowed: Iterable[Any]) -> None:
    """Raise unless the value is one of the allowed ones."""
    options = list(allowed)
    if value not in options:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, options))}, got {value!r}")


def check_call(
    what: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """Raise if `function` does not accept the arguments; return them by name."""
    signature = inspect.signature(function)
    try:
        return signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        hint = ""
        if "alpha" in signature.parameters and "'alpha'" in str(error):
            hint = "; give its own alpha by position, or with functools.partial"
        takes = ", ".join(signature.parameters)
        raise TypeError(f"{what}: {error}; it takes {takes}{hint}") from None
