"""A JAX function of one draw, applied to many."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from srmc._checks import outputs_of
from srmc._programs import over_rows, program_of
from srmc.coordinates.whiten import Rows
from srmc.types import Bool

ROWS_AT_ONCE = 512  # draws that are evaluated together,
NUMBERS_AT_ONCE = 2**22  # numbers in a batch, at most


class Batched:
    """A function of one draw, applied to rows of draws in batches; it counts what it evaluates.

    It must return an array of this shape, which is not checked if it is None.
    A row that repeats the one before it, as Metropolis leaves them, is not evaluated again.
    """

    def __init__(
        self, name: str, function: Any, draws: np.ndarray, shape: tuple[int, ...] | None = None
    ) -> None:
        if shape is not None:
            out = outputs_of(name, function, jnp.asarray(draws[0, 0]), of="a draw")
            if getattr(out, "shape", None) != shape:
                raise ValueError(
                    f"{name} must return an array of shape {shape} at a draw of shape "
                    f"{draws.shape[2:]}, got {getattr(out, 'shape', out)}"
                )
            if not jnp.issubdtype(out.dtype, jnp.floating):
                raise ValueError(f"{name} must return floating-point numbers, got {out.dtype}")
        self._program, self._function = over_rows(function), function
        self._size = max(1, min(ROWS_AT_ONCE, NUMBERS_AT_ONCE // draws.shape[2]))
        self.count, self.is_one_by_one = 0, False

    def __call__(self, x: Rows) -> np.ndarray:
        fresh = is_fresh(x)
        values: np.ndarray = self._values(x[fresh])[np.cumsum(fresh) - 1]
        return values

    def one_by_one(self) -> None:
        """Evaluate rows one after the other from now on, in a program that has no batches."""
        self._program, self.is_one_by_one = program_of(Partial(_in_turn, self._function)), True

    def _values(self, x: Rows) -> np.ndarray:
        self.count += len(x)
        # In batches of one size, so that one program serves for any number of rows.
        padded = np.concatenate([x, np.repeat(x[:1], -len(x) % self._size, axis=0)])
        batches = np.split(padded, len(padded) // self._size)
        parts = [self._program(jnp.asarray(batch)) for batch in batches]
        return np.concatenate([np.asarray(part, float) for part in parts])[: len(x)]


def _in_turn(function: Any, rows: Any) -> Any:
    return jax.lax.map(function, rows)


def is_fresh(x: Rows) -> Bool[np.ndarray, " n"]:
    """Which rows differ from the ones before them."""
    fresh = np.ones(len(x), bool)
    fresh[1:] = np.any(x[1:] != x[:-1], axis=1)
    return fresh
