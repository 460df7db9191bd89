"""The fingerprint of a run in a checkpoint: settings in words, and a probe of the model."""

import dataclasses
import inspect
import re
import zlib
from collections.abc import Callable
from types import CodeType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.tree_util import Partial

from srmc._programs import program_of
from srmc.types import Array, Float, Position


def describe(value: Any, depth: int = 6) -> str:
    """A setting in words that are the same in every process.

    Functions are distinguished by their closures, and user functions also by their code.
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


NUM_STARTS = 8
SCALES = np.geomspace(0.1, 100.0, 13)  # distances of the probe points from the first start
RELATIVE = 1e-4  # tolerance, relative to the difference from the value at the first start
ROUNDING = 64  # tolerance in units in the last place of the value

Probe = dict[str, list[float]]


def probe(function: Callable[[Any], dict[str, Float[Array, ""]]], positions: Position) -> Probe:
    """Values by name at the starts of chains, (chain, ...), and at points ever further away.

    These are on both sides of the first start in every coordinate, in directions that do not
    depend on a generator of random numbers.
    """
    rows = jax.vmap(lambda x: ravel_pytree(x)[0])(positions)[:NUM_STARTS]
    unravel = ravel_pytree(jax.tree.map(lambda x: x[0], positions))[1]
    angles = np.arange(1, len(SCALES) * rows.shape[1] + 1).reshape(len(SCALES), -1)
    moves = jnp.asarray(SCALES[:, None] * np.sin(angles), rows.dtype)
    points = jnp.concatenate([rows, rows[:1] + moves, rows[:1] - moves])
    with jax.debug_nans(False), jax.debug_infs(False):
        program = program_of(Partial(jax.lax.map, function))
        values = jax.tree.map(np.asarray, program(jax.vmap(unravel)(points)))
    return {name: x.astype(float).tolist() for name, x in values.items()}


def compare(old: Probe, new: Probe, precision: float) -> list[str]:
    """What differs by more than rounding to a relative `precision` explains, in words."""
    differences = []
    for name, values in new.items():
        a, b = np.array(old.get(name, [np.nan])), np.array(values)
        with np.errstate(invalid="ignore"):
            first = np.nan_to_num(b[0], posinf=0.0, neginf=0.0)
            allowed = RELATIVE * abs(b - first)
            allowed += ROUNDING * precision * np.maximum(abs(b), abs(first))
            same = (abs(a - b) <= allowed) | (a == b) | (np.isnan(a) & np.isnan(b))
        if not np.all(same):
            k = int(np.argmin(same))
            differences.append(f"{name} was {a[k % len(a)]} at a point where it is {b[k]}")
    return differences
