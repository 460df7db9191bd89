"""Commits of a run to its checkpoint, at the same draw in all processes."""

import contextlib
import time
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp

from srmc.sample.checkpoint import Checkpoint, Commit
from srmc.sample.loop import LARGEST_CHUNK, Carry, Task
from srmc.sample.processes import latest_common, together
from srmc.sample.stop import Stop
from srmc.sample.stored import Arrays
from srmc.types import Array


class Commits:
    """The commits of a run, every so many `seconds`; without a store there are none."""

    def __init__(self, task: Task, store: Checkpoint | None, seconds: float, stop: Stop) -> None:
        self._task, self._store, self._seconds, self._stop = task, store, seconds, stop
        self._safe, self._last = 0, time.monotonic()

    def restored(self, carry: Carry) -> tuple[Carry, Commit] | None:
        """The last commit of all processes, and its carry on the devices."""
        store, layout = self._store, self._task.layout
        if store is None:
            return None
        like = layout.collect(_raw(carry))
        found = together(lambda: store.commits(like))
        done = latest_common(list(found))
        if done is None:
            return None
        together(lambda: store.go_back(done))
        commit = found[done]
        wrap = lambda x, like: jax.random.wrap_key_data(x) if _is_key(like) else x
        parts = zip(layout.spread_mine(layout.cut(commit.carry)), carry, strict=True)
        self._safe = done
        return [jax.tree.map(wrap, part, like) for part, like in parts], commit

    def due(self, pending: int = 0) -> tuple[bool, bool]:
        """Whether to commit now, with so many numbers to be written, and whether to stop."""
        late = time.monotonic() - self._last >= self._seconds or pending > LARGEST_CHUNK
        (late,) = self._stop.agree(late)
        stop = self._stop.signal is not None
        return self._store is not None and (late or stop), stop

    def save(self, done: int, carry: Carry, store_draws: Callable[[], Arrays]) -> None:
        """Commit after `store_draws`, which returns the checksums of draws, or moments."""
        store = self._store
        if store is None:
            return
        host = self._task.layout.collect(_raw(carry))
        with _disk_errors(store, self._safe):
            together(lambda: store.save(Commit(done, host, store_draws())))
        self._safe, self._last = done, time.monotonic()


def _is_key(x: Array) -> bool:
    return jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def _raw(carry: Carry) -> Carry:
    """The carry with random keys as plain numbers, since keys have no file format."""
    raw: Carry = jax.tree.map(lambda x: jax.random.key_data(x) if _is_key(x) else x, carry)
    return raw


@contextlib.contextmanager
def _disk_errors(store: Checkpoint, done: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OSError(
            error.errno,
            f"could not write the checkpoint: {error.strerror or error}; {done} draws per chain "
            "are safe in it, and resume=True goes on from there",
            str(store.folder),
        ) from error
