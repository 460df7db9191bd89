"""Commits of a run to its checkpoint, at the same draw in all processes."""

import contextlib
import errno
import time
import warnings
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
        if store is not None and store.lost:
            self._store = None

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

    def save(
        self, done: int, carry: Carry, store_draws: Callable[[], Arrays], in_memory: bool = True
    ) -> None:
        """Commit after `store_draws`, which returns the checksums of draws, or moments.

        If the folder has disappeared, and all is `in_memory`, the run goes on without commits.
        """
        store = self._store
        if store is None:
            return
        host = self._task.layout.collect(_raw(carry))
        with _disk_errors(store, self._safe):
            write = lambda: store.save(Commit(done, host, store_draws()))
            if not written(store, write, in_memory):
                self._store = None
        self._safe, self._last = done, time.monotonic()


def written(store: Checkpoint, write: Callable[[], None], in_memory: bool = True) -> bool:
    """Let all processes write to the checkpoint; False, with a warning, if it has disappeared.

    A folder that is still there but cannot be written has the run up to the last commit; then, with
    several processes, and if draws are on the disk alone, the run ends with an error.
    """

    def write_if_there() -> None:
        if not store.is_there:
            raise FileNotFoundError(errno.ENOENT, "the folder has disappeared", str(store.folder))
        write()

    try:
        together(write_if_there)
    except Exception:  # whatever a folder that disappears meanwhile makes of it
        if store.is_there or not in_memory or jax.process_count() > 1:
            raise
        store.lost = (
            f"checkpoint {store.folder} disappeared during the run, which went on in memory and "
            "cannot be resumed; save the result"
        )
        warnings.warn(store.lost, stacklevel=2)
        return False
    return True


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
        safe = f"{done} draws per chain are safe in it, and resume=True goes on from there"
        lost = f"the draws, {done} per chain or more, were too many to be kept in memory as well"
        raise OSError(
            error.errno,
            f"could not write the checkpoint: {error.strerror or error}; "
            f"{safe if store.is_there else lost}",
            str(store.folder),
        ) from error
