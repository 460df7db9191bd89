"""Compiled programs are kept, in memory and on disk: a call compiles nothing that another did."""

import functools
import hashlib
import os
import platform
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

import jax

P = ParamSpec("P")
T = TypeVar("T")

MOST = 2**30  # bytes of programs that are kept; those not used for longest are removed first
MODELS = 8  # programs of one kind that are kept in memory
SWITCH = "SRMC_PROGRAMS"  # a folder, or "off"


@functools.cache
def keep_programs() -> None:
    """Switch on JAX's own cache, unless it is on already or the environment says "off".

    Programs are in the user's cache folder, or where the environment variable SRMC_PROGRAMS says.
    """
    asked = os.environ.get(SWITCH, "")
    if asked.lower() == "off" or jax.config.values["jax_compilation_cache_dir"] is not None:
        return
    folder = Path(asked) if asked else _user_cache() / "srmc" / "programs"
    folder = folder / _machine()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError:  # a home that cannot be written to
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_compilation_cache_max_size", MOST)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


def remembered(make: Callable[P, T]) -> Callable[P, T]:
    """Remember what a function of hashable arguments made, a compiled program for a model, say."""
    cached = functools.lru_cache(MODELS)(make)

    @functools.wraps(make)
    def recall(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            hash((args, tuple(kwargs.items())))
        except TypeError:  # a callable without a hash, such as a module with arrays
            return make(*args, **kwargs)
        return cached(*args, **kwargs)  # type: ignore[arg-type]

    return recall


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _machine() -> str:
    """A name for this kind of processor, since programs of one may not run on another."""
    flags = platform.processor() + platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        flags += "".join(line for line in lines if line.startswith(("flags", "model name")))
    except OSError:
        pass
    return hashlib.sha256(flags.encode()).hexdigest()[:16]
