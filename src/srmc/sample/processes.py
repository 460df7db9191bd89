"""Agreement between processes: on numbers, on a commit to resume from, and on failure."""

import itertools
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils
from numpy.typing import ArrayLike

T = TypeVar("T")
DAY = 86_400_000  # milliseconds that a process waits for another, which is not dead, to catch up


def of_all(values: ArrayLike) -> np.ndarray:
    """The same numbers from every process, (process, ...); each process must call it."""
    mine = np.asarray(values, np.int32)
    if jax.process_count() == 1:
        return mine[None]
    return np.asarray(multihost_utils.process_allgather(mine))


class Notice:
    """A notice that one process gives and all can see, even while their devices are busy.

    What devices compute, `of_all` too, waits for the programs before it.
    """

    _numbers = itertools.count()  # the same in all processes, which make the same calls

    def __init__(self) -> None:
        self._name, self._mine = f"srmc/notice/{next(self._numbers)}", False

    def give(self) -> None:
        """Give notice."""
        self._mine = True
        if (client := _client()) is not None:
            key = f"{self._name}/{jax.process_index()}"
            client.key_value_set(key, "given", allow_overwrite=True)

    def is_given(self) -> bool:
        """Whether some process gave notice."""
        client = _client()
        return self._mine if client is None else bool(client.key_value_dir_get(self._name))

    def meet(self) -> bool:
        """Wait for all processes; whether notice was given before, on which all then agree."""
        client = _client()
        if client is None:
            return bool(of_all(self._mine).any())
        client.wait_at_barrier(self._name, timeout_in_ms=DAY)
        return self.is_given()


def _client() -> Any:
    """The client of `jax.distributed`, if that was initialised.

    No public name gives it. A version of JAX that keeps it elsewhere has None here: then a notice
    is seen when the programs that devices run have ended.
    """
    if not jax.distributed.is_initialized():
        return None
    try:
        from jax._src import distributed

        return distributed.global_state.client
    except (ImportError, AttributeError):
        return None


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
