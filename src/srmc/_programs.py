"""Compiled programs are kept, in memory and, if asked for, on disk: none is compiled twice."""

import contextlib
import functools
import hashlib
import os
import platform
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from srmc._checks import check_fork

P = ParamSpec("P")
T = TypeVar("T")

MOST = 2**30  # bytes of programs that are kept; those not used for longest are removed first
MODELS = 8  # programs of one kind that are kept in memory
KINDS = 8  # of the programs that `program_of` makes for a model
SWITCH = "SRMC_PROGRAMS"  # a folder; "off" for the command line, which otherwise keeps programs


def enable_cache(folder: str | os.PathLike[str] | None = None) -> Path:
    """Keep compiled programs on disk, so that later processes need not compile them again.

    This sets JAX's own options of the whole process: up to 1 GB of programs, however fast they
    compile. A cache that was configured before is left as it is.

    Parameters
    ----------
    folder
        Where to keep programs; the user's cache folder if not given.

    Returns
    -------
    The folder of the programs that this machine can run.
    """
    known = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    if known is not None:
        return Path(known)
    path = (_user_cache() if folder is None else Path(folder)) / _machine()
    path.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=path):  # fails here rather than at each program
        pass
    jax.config.update("jax_compilation_cache_dir", str(path))
    jax.config.update("jax_compilation_cache_max_size", MOST)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    return path


def keep_programs(unasked: bool = False) -> None:
    """Enable the cache if the environment variable SRMC_PROGRAMS names a folder, or `unasked`.

    SRMC_PROGRAMS=off keeps it off. A folder that cannot be written to does not stop a run.
    """
    check_fork()
    asked = os.environ.get(SWITCH, "")
    if asked.lower() != "off" and (asked or unasked):
        with contextlib.suppress(OSError, RuntimeError):  # RuntimeError: nobody has a home
            enable_cache(asked or None)


def remembered(make: Callable[P, T], most: int = MODELS) -> Callable[P, T]:
    """Remember what a function of hashable arguments made, a compiled program for a model, say."""
    cached = functools.lru_cache(most)(make)

    @functools.wraps(make)
    def recall(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            hash((args, tuple(kwargs.items())))
        except TypeError:  # a callable without a hash, such as a module with arrays
            return make(*args, **kwargs)
        return cached(*args, **kwargs)  # type: ignore[arg-type]

    return recall


class Code(NamedTuple):
    """A function without its data: `code(data)` is the function again."""

    structure: Any  # function as a pytree, such as `jax.tree_util.Partial(function, data)`
    # For each leaf None if it is data, and else its type and value: 1 is not 1.0 or True.
    rest: tuple[tuple[type, Any] | None, ...]

    def __call__(self, data: list[Any]) -> Callable[..., Any]:
        numbers = iter(data)
        leaves = [next(numbers) if leaf is None else leaf[1] for leaf in self.rest]
        return jax.tree.unflatten(self.structure, leaves)


def parted(function: Callable[..., Any]) -> tuple[Code, list[Any]]:
    """A function as code, by which programs are remembered, and data, which are their arguments.

    Data are the arrays and floats of a function that is a pytree. Whole numbers are code, since
    they may be shapes.
    """
    leaves, structure = jax.tree.flatten(function)
    rest = tuple(None if _is_data(leaf) else (type(leaf), leaf) for leaf in leaves)
    return Code(structure, rest), [leaf for leaf in leaves if _is_data(leaf)]


def _is_data(leaf: Any) -> bool:
    if isinstance(leaf, np.ndarray):
        return jnp.issubdtype(leaf.dtype, np.number) or leaf.dtype == bool
    return isinstance(leaf, jax.Array | float | complex | np.inexact)


def pinned(function: Callable[..., Any], *examples: Any) -> Callable[..., Any]:
    """The function, known by what it computes at such arguments as well as by its identity.

    So no program serves for a function that closes over other data than before, such as a global
    variable. If the function cannot be traced without the values of its data, these become
    constants, and the compiled program is not used again.
    """
    if not callable(function):
        return function  # the next caller raises the error
    code, data = parted(function)
    try:
        traced = jax.make_jaxpr(lambda data, *args: code(data)(*args))(data, *examples)
    except Exception:  # whatever the function raises; who calls it next will see it
        return functools.partial(function) if data else function
    return jax.tree_util.Partial(_pinned, _digest(traced), function)


def _pinned(_: str, function: Callable[..., T], *args: Any) -> T:
    return function(*args)


def _digest(traced: Any) -> str:
    """A digest of a traced function and of the constants in it."""
    found = hashlib.sha256(re.sub(r" at 0x[0-9a-f]+", "", str(traced)).encode())
    for constant in _constants(traced.jaxpr, traced.consts):
        is_key = jnp.issubdtype(constant.dtype, jax.dtypes.prng_key)
        numbers = np.asarray(jax.random.key_data(constant) if is_key else constant)
        found.update(f"{numbers.dtype}{numbers.shape}".encode())
        found.update(np.ascontiguousarray(numbers).data)
    return found.hexdigest()


def _constants(jaxpr: Any, known: Sequence[Any]) -> Iterator[Any]:
    """The arrays that a traced function closes over, in its loops and branches, too."""
    yield from known
    for equation in jaxpr.eqns:
        yield from (x.val for x in equation.invars if hasattr(getattr(x, "val", None), "dtype"))
        for part in jax.tree.leaves(list(equation.params.values()), is_leaf=_is_traced):
            if _is_traced(part):
                yield from _constants(getattr(part, "jaxpr", part), getattr(part, "consts", ()))


def _is_traced(x: Any) -> bool:
    from jax.extend.core import ClosedJaxpr, Jaxpr  # which takes a while to import

    return isinstance(x, Jaxpr | ClosedJaxpr)


def program_of(function: Callable[..., T]) -> Callable[..., T]:
    """The compiled function; the same program serves for other data of the same shapes."""
    code, data = parted(function)
    return functools.partial(_program(code), jax.device_put(data))


@functools.partial(remembered, most=MODELS * KINDS)
def _program(code: Code) -> Callable[..., Any]:
    return jax.jit(lambda data, *args: code(data)(*args))


def over_rows(function: Callable[[Any], T]) -> Callable[[Any], T]:
    """The compiled function of rows, from a function of one of them."""
    return program_of(jax.tree_util.Partial(_over_rows, function))


def _over_rows(function: Callable[[Any], T], rows: Any) -> T:
    return jax.vmap(function)(rows)


def _user_cache() -> Path:
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "srmc" / "programs"


def _machine() -> str:
    """A name for this kind of processor, since programs of one may not run on another."""
    flags = platform.processor() + platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        flags += "".join(line for line in lines if line.startswith(("flags", "model name")))
    except OSError:
        pass
    return hashlib.sha256(flags.encode()).hexdigest()[:16]
