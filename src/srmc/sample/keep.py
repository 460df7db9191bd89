"""Run a task to its end, or until it is told to stop; keep and commit what was asked for."""

import contextlib
import errno
import functools
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from srmc._progress import Show
from srmc.results.kept import Kept
from srmc.sample.checkpoint import Checkpoint, Commit
from srmc.sample.devices import latest_common, together
from srmc.sample.loop import LARGEST_CHUNK, Carry, Chunk, Recorded, Statistics, Task, chunks, dtypes
from srmc.sample.moments import Accumulator, begin, corrected, finish, moments
from srmc.sample.stored import IN_MEMORY, Arrays
from srmc.sample.task import Call
from srmc.types import Array

CHUNK_SECONDS = 0.5  # interval between checks for signals and updates of the progress bar


class Recording:
    """A run in progress: its task, its length, and its checkpoint, to which it commits in between.

    A signal to stop is noticed between two chunks. Without a store there are no commits.
    """

    def __init__(self, call: Call, task: Task, store: Checkpoint | None) -> None:
        self.task, self.num_draws = task, call.plan.num_draws
        self.seconds, self.show, self.stop = call.seconds, call.show, call.stop
        self.store = None if store is None or store.lost else store
        self._safe, self._last = 0, time.monotonic()

    @property
    def chunk_seconds(self) -> float:
        """The time that a chunk should take."""
        return CHUNK_SECONDS if self.store is None else min(CHUNK_SECONDS, self.seconds)

    def restored(self, carry: Carry) -> tuple[Carry, Commit] | None:
        """The last commit of all processes, and its carry on the devices."""
        store, layout = self.store, self.task.layout
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
        """Whether to commit now, with `pending` values to be written, and whether to stop."""
        late = time.monotonic() - self._last >= self.seconds or pending > LARGEST_CHUNK
        (late,) = self.stop.agree(late)
        stop = self.stop.signal is not None
        return self.store is not None and (late or stop), stop

    def save(
        self, done: int, carry: Carry, store_draws: Callable[[], Arrays], in_memory: bool = True
    ) -> None:
        """Commit after `store_draws`, which returns the checksums of draws, or moments.

        If the folder has disappeared, and all is `in_memory`, the run goes on without commits.
        """
        store = self.store
        if store is None:
            return
        host = self.task.layout.collect(_raw(carry))
        with _disk_errors(store, self._safe):
            write = lambda: store.save(Commit(done, host, store_draws()))
            if not written(store, write, in_memory):
                self.store = None
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
    return jax.tree.map(lambda x: jax.random.key_data(x) if _is_key(x) else x, carry)


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


def keep_draws(run: Recording, states: Carry, looks: Sequence[int]) -> Iterator[tuple[Kept, int]]:
    """Keep draws, in memory or in a checkpoint; yield them and their number per chain.

    That is done at each of the `looks`, in draws per chain, and where the run is stopped.
    """
    task, store = run.task, run.store
    in_memory = _size(task, states, run.num_draws) <= IN_MEMORY
    disk = None if store is None else together(lambda: store.draws(run.num_draws))
    parts: list[dict[str, Arrays]] = []
    done = 0
    if disk is not None and (found := run.restored(states)):
        states, commit = found
        done = commit.done
        together(lambda: disk.restore(commit.kept, done))
        if in_memory:
            parts.append(jax.tree.map(lambda x: np.swapaxes(x, 0, 1), disk.read(done)))
    new: list[dict[str, Arrays]] = []  # not on the disk yet
    written = done
    for look in (n for n in looks if n >= done):
        for chunk in chunks(task, states, look, first=done, seconds=run.chunk_seconds):
            new.append(_groups(chunk))
            if in_memory or disk is None:
                parts.append(new[-1])
            states, done = chunk.carry, chunk.done
            _tell(run.show, done, look, chunk.stats)
            commits, stops = run.due(sum(x.size for x in jax.tree.leaves(new)))
            if disk is not None and (commits or done == look):
                write = functools.partial(disk.write, written, _joined(new))
                run.save(done, states, write, in_memory)
                new, written = [], done
            if stops:
                break
        if parts:
            kept = jax.tree.map(lambda x: np.swapaxes(x, 0, 1), _joined(parts))
        else:
            assert disk is not None
            kept = together(functools.partial(disk.read, done))
        kept = task.layout.of_all_processes(kept)
        yield Kept(stats=kept["stats"], draws=kept["values"], base=kept.get("base")), done
        if run.stop.signal is not None:
            return


def _joined(parts: list[dict[str, Arrays]]) -> dict[str, Arrays]:
    return jax.tree.map(lambda *x: np.concatenate(x), *parts)


def _size(task: Task, states: Carry, num_draws: int) -> int:
    """The bytes of all draws and their statistics."""
    shapes = jax.tree.leaves(task.shape_of(states))
    one: int = sum(math.prod(x.shape) * x.dtype.itemsize for x in shapes)
    one += sum(dtype.itemsize for dtype in dtypes().values())
    return one * num_draws * task.layout.num_chains


def _groups(chunk: Chunk) -> dict[str, Arrays]:
    """The arrays that a chunk recorded, by group and name."""
    recorded: Recorded = chunk.recorded
    stats = chunk.stats._asdict()
    if recorded.features is not None:
        stats["features"] = recorded.features
    groups = {"values": recorded.values, "stats": stats}
    return groups if recorded.base is None else groups | {"base": recorded.base}


def keep_moments(run: Recording, states: Carry, covariance: bool) -> tuple[Kept, int]:
    """Keep moments, in memory that does not grow; also returns the number of draws per chain."""
    task = run.task
    summed = Accumulator(run.num_draws)
    carry, done = begin(task, states, covariance), 0
    if found := run.restored(carry):
        carry, commit = found
        done = commit.done
        summed.restore(commit.kept)
    for chunk in moments(task, carry, summed, run.num_draws, first=done, seconds=run.chunk_seconds):
        carry, done = chunk.carry, chunk.done
        _tell(run.show, done, run.num_draws, chunk.stats)
        commits, stops = run.due()
        if commits or done == run.num_draws:
            run.save(done, carry, summed.arrays)
        if stops:
            break
    if summed.count < done:
        finish(task, carry, summed)
    return _moments_kept(task, states, summed), done


def _moments_kept(task: Task, states: Carry, summed: Accumulator) -> Kept:
    stats = np.moveaxis(np.stack(summed.batch_stats), 0, -1)  # (statistic, chain, batch)
    stats = task.layout.of_all_processes(dict(zip(Statistics._fields, stats, strict=True)))
    shapes: Recorded = task.shape_of(states)
    named, covariance = summed.of_all_processes(task.layout).by_name(shapes)
    moments, base = named.values, named.base
    if named.features is not None:
        counts = summed.batch_counts
        better = corrected(named.values, named.features, task.parameters.loop, counts)
        if better is not None:
            moments, base = better, named.values
    if covariance is not None:
        size = sum(leaf.size for leaf in jax.tree.leaves(shapes.values))
        covariance = covariance[:size, :size]
    return Kept(
        stats=stats,
        moments=moments,
        base_moments=base,
        covariance=covariance,
        batch_sizes=summed.batch_counts,
    )


def _tell(show: Show, done: int, total: int, stats: Statistics) -> None:
    acceptance, alpha = stats.acceptance_rate, stats.alpha
    remarks = [] if np.all(np.isnan(acceptance)) else [f"acceptance {np.nanmean(acceptance):.2f}"]
    if np.any(alpha > 0):
        remarks.append(f"alpha {np.mean(alpha[-1:]):.3g}")
    show("sampling", done, total, ", ".join(remarks))
