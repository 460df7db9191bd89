"""Agreement between processes: on numbers, on a commit to resume from, and on failure."""

from collections.abc import Callable
from typing import TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils
from numpy.typing import ArrayLike

T = TypeVar("T")


def of_all(values: ArrayLike) -> np.ndarray:
    """The same numbers from every process, (process, ...); each process must call it."""
    mine = np.asarray(values, np.int32)
    if jax.process_count() == 1:
        return mine[None]
    return np.asarray(multihost_utils.process_allgather(mine))


def together(action: Callable[[], T]) -> T:
    """What the action returns; if it fails in one process, an error in every process."""
    error: Exception | None = None
    try:
        found = action()
    except Exception as failure:
        error = failure
    failed = np.flatnonzero(of_all(error is not None))
    if error is not None:
        raise error
    if len(failed):
        raise RuntimeError(
            f"process {', '.join(map(str, failed))} failed, so that no process goes on; its own "
            "error says why"
        )
    return found


def latest_common(mine: list[int]) -> int | None:
    """The largest number that every process has among its at most two; None if there is none."""
    padded = [*mine, -1, -1][:2]
    common = set.intersection(*(set(row) for row in of_all(padded).tolist())) - {-1}
    return max(common, default=None)
