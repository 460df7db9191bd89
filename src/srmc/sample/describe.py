"""Settings in words, by which a checkpoint knows them again."""

import dataclasses
import inspect
import re
import zlib
from types import CodeType
from typing import Any

import jax
import numpy as np


def describe(value: Any, depth: int = 6) -> str:
    """A setting in words that are the same in every process.

    Functions are told apart by what they close over, and those of a user also by their code.
    """
    if isinstance(value, tuple):
        return f"({', '.join(describe(part, depth - 1) for part in value)})"
    if dataclasses.is_dataclass(value) and depth > 0:
        fields = (describe(getattr(value, f.name), depth - 1) for f in dataclasses.fields(value))
        return f"{type(value).__name__}({', '.join(fields)})"
    if inspect.isfunction(value) and depth > 0:
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        inside = [describe(c, depth - 1) for c in cells]
        if value.__module__.partition(".")[0] not in ("srmc", "jax", "optax", "blackjax"):
            defaults = (value.__defaults__, value.__kwdefaults__)
            inside.append(f"code {_digest(value.__code__):08x}, {describe(defaults, depth - 1)}")
        return f"{value.__qualname__}[{', '.join(inside)}]"
    if isinstance(value, np.ndarray | jax.Array):
        return f"array{np.asarray(value).tolist()}"
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))


def _digest(code: CodeType) -> int:
    """A checksum of what a function does, wherever its source is."""
    parts = [code.co_code, *(str(names).encode() for names in (code.co_names, code.co_freevars))]
    for constant in code.co_consts:
        is_code = isinstance(constant, CodeType)
        parts.append(str(_digest(constant) if is_code else constant).encode())
    return zlib.crc32(b"|".join(parts))
