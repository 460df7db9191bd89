"""Argument checks whose messages name the argument, the value and what is allowed."""

import difflib
import inspect
import os
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

MOST = 2**31 - 1  # what JAX counts up to in its default precision


IMPORTED_BY = os.getpid()  # the process that imported srmc, and with it JAX


def check_fork() -> None:
    """Raise in a process that was forked, where the threads of JAX are missing: it would hang."""
    if os.getpid() != IMPORTED_BY:
        raise RuntimeError(
            f"this process was forked from process {IMPORTED_BY} after srmc was imported, and the "
            "threads of JAX do not survive a fork; start processes with "
            'multiprocessing.get_context("spawn"), or import srmc in each of them'
        )


def printable(text: str) -> str:
    """Text without characters that steer a terminal; these are written as escapes."""
    known = lambda c: c.isprintable() or c in "\n\t"
    return "".join(c if known(c) else c.encode("unicode_escape").decode() for c in text)


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
    numbers = as_numbers(name, value, "a number" if scalar else "an array of numbers")
    if isinstance(value, bool) or (scalar and numbers.ndim > 0):
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
    inside = (numbers > above) & (numbers >= at_least) & (numbers <= at_most)
    if not numbers.size:
        raise ValueError(f"{name} must hold one number at least, got {value!r}")
    if not np.all(np.isfinite(numbers) & inside):
        raise ValueError(f"{name} must be {' and '.join(allowed)}, got {value!r}")


def as_numbers(name: str, value: Any, what: str = "an array of numbers") -> np.ndarray:
    """A number, or an array of them, in double precision; raise if it is anything else."""
    try:
        array = np.asarray(value)
    except ValueError:  # rows of different lengths
        array = np.asarray(None)
    is_number = jnp.issubdtype(array.dtype, np.number) and array.dtype.kind != "m"
    if not is_number and array.dtype != bool:
        raise TypeError(f"{name} must be {what}, got {short(value)}")
    if np.iscomplexobj(array):
        raise TypeError(f"{name} must be real, got {short(value)}")
    return array.astype(float)


def check_flag(name: str, value: Any) -> None:
    """Raise unless the value is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}")


def check_seed(name: str, value: Any) -> None:
    """Raise unless the value is a whole number that JAX can tell from others."""
    check_count(name, value, at_least=0)
    if value >= 2**32:
        raise ValueError(f"{name} must be < 2**32, got {value!r}")


def as_seed(name: str, value: Any) -> int:
    """A whole number below 2**64, from one or from a key of JAX, typed or raw."""
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    if dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key) and shape == ():
        value = jax.random.key_data(value)
        dtype, shape = value.dtype, value.shape
        if shape != (2,):
            raise ValueError(
                f"{name} must be a number or a key of two words, got one of {shape[0]}"
            )
    if dtype == np.uint32 and shape == (2,):
        high, low = (int(word) for word in np.asarray(value))
        return high << 32 | low
    if isinstance(value, np.generic | np.ndarray | jax.Array) and value.ndim == 0:
        value = value.item()
    check_count(name, value, at_least=0, at_most=2**64 - 1)
    return int(value)


def check_key(name: str, value: Any) -> None:
    """Raise unless the value is one key of JAX, typed or raw."""
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    is_typed = dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)
    if not (is_typed and shape == ()) and not (dtype == np.uint32 and shape == (2,)):
        raise TypeError(f"{name} must be a key, such as jax.random.key(0), got {short(value)}")


def check_count(
    name: str, value: Any, *, at_least: int = 1, at_most: int = MOST, why: str = ""
) -> None:
    """Raise unless the value is a whole number of at least `at_least` and at most `at_most`."""
    if isinstance(value, bool | np.timedelta64) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    if value < at_least:
        raise ValueError(f"{name} must be >= {at_least}, got {value!r}")
    if value > at_most:
        raise ValueError(f"{name} must be <= {at_most:,}{why}, got {value!r}")


def check_option(name: str, value: Any, allowed: Iterable[Any]) -> None:
    """Raise unless the value is one of the allowed ones."""
    options = list(allowed)
    if not (isinstance(value, Hashable) and value in options):
        raise ValueError(f"{name} must be one of {', '.join(map(repr, options))}, got {value!r}")


def check_known(name: str, value: Any, known: Iterable[str]) -> tuple[str, ...]:
    """The names that are asked for, one or several, or all if None; raise if one is unknown."""
    every = list(known)
    if value is None:
        return tuple(every)
    asked = [value] if isinstance(value, str) else value
    if not isinstance(asked, Iterable) or not all(isinstance(word, str) for word in asked):
        raise TypeError(f"{name} must be a name or a list of names, got {value!r}")
    words = tuple(dict.fromkeys(asked))
    unknown = [word for word in words if word not in every]
    if unknown or not words:
        near = difflib.get_close_matches(unknown[0], every) if unknown else []
        first = [*near, *(word for word in every if word not in near)]
        raise ValueError(f"{name} must be among {', '.join(first)}, got {value!r}")
    return words


def check_quantiles(name: str, value: Any) -> tuple[float, ...]:
    """Levels between 0 and 1, or an error that names them."""
    levels = as_numbers(name, value, "levels such as (0.05, 0.5, 0.95)")
    if levels.ndim != 1 or not np.all((levels > 0) & (levels < 1)):
        raise ValueError(f"{name} must be levels between 0 and 1, got {value!r}")
    if len(set(levels.tolist())) < len(levels):
        raise ValueError(f"{name} must differ, got {value!r}")
    return tuple(levels.tolist())


def check_call(
    what: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """Raise if `function` does not accept the arguments; return them by name."""
    if not callable(function):
        raise TypeError(f"{what} must be a function, got {function!r}")
    signature = inspect.signature(function)
    takes = ", ".join(signature.parameters)
    unknown = [name for name in kwargs if name not in signature.parameters]
    if unknown and not any(p.kind == p.VAR_KEYWORD for p in signature.parameters.values()):
        raise TypeError(f"{what} has no argument {', '.join(unknown)}; it takes {takes}")
    try:
        return signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        hint = ""
        if "alpha" in signature.parameters and "'alpha'" in str(error):
            hint = "; give its own alpha by position, or with functools.partial"
        raise TypeError(f"{what}: {error}; it takes {takes}{hint}") from None


def outputs_of(name: str, function: Any, *args: Any, of: str = "a position") -> Any:
    """The shapes that a JAX function returns at these arguments; raise if it cannot be traced.

    What the function itself raises is left as it is.
    """
    if not callable(function):
        raise TypeError(f"{name} must be a function of {of}, got {function!r}")

    def checked(*args: Any) -> Any:
        out = function(*args)
        wrong = [x for x in jax.tree.leaves(out) if not is_numeric(x)]
        if wrong or out is None:
            raise TypeError(f"{name} must return numbers, got {short(out)}")
        return out

    try:
        inspect.signature(function).bind(*args)
    except TypeError as error:
        raise TypeError(f"{name} must be a function of {of} alone: {error}") from None
    except ValueError:  # it has no signature
        pass
    try:
        return jax.eval_shape(checked, *args)
    except (TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, jax.errors.JAXTypeError) or "Tracer" in str(error):
            raise TypeError(
                f"{name} must be written with jax.numpy, but {function!r} cannot be traced by JAX; "
                "if it is of NumPy or PyTorch, give its value and gradient to "
                f"srmc.models.from_value_and_grad: {str(error).splitlines()[0]}"
            ) from error
        raise


def is_numeric(value: Any) -> bool:
    """Whether this is a number or an array of numbers."""
    if isinstance(value, np.ndarray | np.generic):
        size = value.dtype.itemsize // (
            2 if value.dtype.kind == "c" else 1
        )  # JAX has up to 8 bytes
        return value.dtype.kind in "biufcV" and size <= 8 and value.dtype.names is None
    return isinstance(value, jax.Array | float | int | complex)


def short(value: Any) -> str:
    """A value in an error message."""
    text = str(value) if hasattr(value, "shape") else repr(value)
    return text if len(text) < 200 else f"{text[:200]} ..."
