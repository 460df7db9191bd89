"""The coordinates of draws, by name and in blocks that fit into memory."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from srmc.models.problem import Labels

NUMBERS_AT_ONCE = 2**18  # block size of summaries, which fits into a processor's cache


def labels(
    name: str, shape: tuple[int, ...], known: Labels | None = None
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The name of each entry of an array, such as `theta[3]` or `mu[london]`, with its index."""
    axes = (known or Labels()).along(name, shape)
    for index in np.ndindex(shape):
        place = ",".join(str(axis[i]) for axis, i in zip(axes, index, strict=True))
        yield (f"{name}[{place}]" if index else name), index


def columns(
    draws: dict[str, Any], known: Labels | None = None
) -> Iterator[tuple[list[str], np.ndarray]]:
    """The coordinates of all variables, in the form of `blocks`."""
    names: list[str] = []
    parts: list[np.ndarray] = []
    for name, array in draws.items():
        for found, block in blocks(name, array, known):
            if parts and (len(names) + len(found)) * block[..., 0].size > NUMBERS_AT_ONCE:
                yield names, np.concatenate(parts, axis=2)
                names, parts = [], []
            names, parts = names + found, [*parts, block]
    if parts:
        yield names, np.concatenate(parts, axis=2)


def blocks(
    name: str, array: Any, known: Labels | None = None
) -> Iterator[tuple[list[str], np.ndarray]]:
    """The coordinates of draws, in blocks that fit into memory, as arrays (chain, draw, k)."""
    shape = array.shape[2:]
    names = [label for label, _ in labels(name, shape, known)]
    size = int(np.prod(shape[1:])) if shape else 1
    rows = max(1, NUMBERS_AT_ONCE // (array.shape[0] * array.shape[1] * size))
    for start in range(0, shape[0] if shape else 1, rows):
        block = array[:, :, start : start + rows] if shape else array[:, :]
        block = np.asarray(block, float)
        yield (
            names[start * size : (start + rows) * size],
            block.reshape(*block.shape[:2], -1),
        )
