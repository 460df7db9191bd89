"""A JAX function of one draw, applied to many."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from srmc.after.transport import Rows

NUMBERS_AT_ONCE = 2**22  # of draws that are evaluated together


class Batched:
    """A function of one draw, applied to rows of draws in batches; it counts the rows."""

    def __init__(self, name: str, function: Any, draws: np.ndarray, shape: tuple[int, ...]) -> None:
        if not callable(function):
            raise TypeError(f"{name} must be a function of a draw, got {function!r}")
        try:
            out = jax.eval_shape(function, jnp.asarray(draws[0, 0]))
        except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError):
            raise TypeError(
                f"{name} must be written with jax.numpy, or wrapped in jax.pure_callback; "
                f"{function!r} cannot be traced"
            ) from None
        if getattr(out, "shape", None) != shape:
            raise ValueError(
                f"{name} must return an array of shape {shape} at a draw of shape "
                f"{draws.shape[2:]}, got {getattr(out, 'shape', out)}"
            )
        self._program = jax.jit(jax.vmap(function))
        self._size = max(1, NUMBERS_AT_ONCE // draws.shape[2])
        self.count = 0

    def __call__(self, x: Rows) -> np.ndarray:
        self.count += len(x)
        parts = []
        for start in range(0, len(x), self._size):
            rows = x[start : start + self._size]
            # Padded to a power of two, so that few sizes are compiled.
            size = min(self._size, 1 << (len(rows) - 1).bit_length())
            padded = np.concatenate([rows, np.repeat(rows[:1], size - len(rows), axis=0)])
            parts.append(np.asarray(self._program(jnp.asarray(padded)), float)[: len(rows)])
        return np.concatenate(parts)
