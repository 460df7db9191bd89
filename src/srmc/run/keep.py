"""Run a task to its end, or until it is told to stop, and keep what was asked for."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from srmc._progress import Show
from srmc._types import Array
from srmc.run.loop import Carry, Chunk, Recorded, Statistics, Task, chunks
from srmc.run.moments import Accumulator, Named, begin, finish, moments
from srmc.store.checkpoint import Arrays, Checkpoint


class Kept(NamedTuple):
    """What was kept of a run.

    draws, base
        Arrays (chain, draw, ...) by name: the draws, and those of the base chain if there is one.
    scored
        In a rebalanced run, plain draws of the unconstrained position and their scores, (chain,
        draw, d), from which errors are computed: all of them, or of sticky chains some.
    stats
        Statistics (chain, draw), or (chain, batch) in a run that kept moments.
    moments, base_moments, covariance
        Kept in place of draws.
    batch_sizes
        The number of draws per chain in each batch of moments.
    """

    stats: dict[str, np.ndarray]
    draws: dict[str, Any] | None = None
    base: dict[str, Any] | None = None
    scored: dict[str, np.ndarray] | None = None
    moments: Named | None = None
    base_moments: Named | None = None
    covariance: np.ndarray | None = None
    batch_sizes: list[int] | None = None


class Recording(NamedTuple):
    """A run in progress: its task, its length, its checkpoint, and how to show its progress.

    seconds
        The time between two commits, or two updates of the progress bar.
    """

    task: Task
    num_draws: int
    store: Checkpoint | None
    seconds: float
    show: Show


def keep_draws(run: Recording, states: Carry) -> tuple[Kept, int]:
    """Keep draws, in memory or in a checkpoint; also returns the number of draws per chain."""
    task, store = run.task, run.store
    parts: list[dict[str, Arrays]] = []
    first, disk, grain = 0, None, 1
    if store is not None:
        grain = max(1, run.num_draws // 100)
        disk = store.draws(run.num_draws, grain)
        first, states, _ = _restored(task, states, store) or (0, states, {})
    done = first
    with _stops() as stopping:
        for chunk in chunks(
            task, states, run.num_draws, first=first, seconds=run.seconds, grain=grain
        ):
            groups = _groups(chunk)
            if store is None or disk is None:
                parts.append(groups)
            else:
                with _disk_errors(store, done):
                    disk.write(done, groups)
                    store.save(chunk.done, task.layout.collect(_raw(chunk.carry)), {})
            done = chunk.done
            _tell(run.show, done, run.num_draws, chunk.stats)
            if stopping():
                break
    if disk is not None:
        found = disk.read(done)
    else:
        found = jax.tree.map(lambda *x: np.swapaxes(np.concatenate(x), 0, 1), *parts)
    found = task.layout.of_all_processes(found)
    return Kept(stats=found["stats"], draws=found["values"], base=found.get("base")), done


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
    task, store = run.task, run.store
    summed = Accumulator(run.num_draws)
    carry, first = begin(task, states, covariance), 0
    if store is not None and (found := _restored(task, carry, store)):
        first, carry, arrays = found
        summed.restore(arrays)
    done = first
    with _stops() as stopping:
        for chunk in moments(task, carry, summed, run.num_draws, first=first, seconds=run.seconds):
            carry = chunk.carry
            if store is not None:
                with _disk_errors(store, done):
                    store.save(chunk.done, task.layout.collect(_raw(carry)), summed.arrays())
            done = chunk.done
            _tell(run.show, done, run.num_draws, chunk.stats)
            if stopping():
                break
    if summed.count < done:
        finish(task, carry, summed)
    return _moments_kept(task, states, summed), done


def _moments_kept(task: Task, states: Carry, summed: Accumulator) -> Kept:
    stats = np.moveaxis(np.stack(summed.batch_stats), 0, -1)  # (statistic, chain, batch)
    stats = task.layout.of_all_processes(dict(zip(Statistics._fields, stats, strict=True)))
    one = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), states[0])
    shapes: Recorded = jax.eval_shape(task.record, one)
    named, covariance = summed.of_all_processes(task.layout).by_name(shapes)
    if covariance is not None:
        size = sum(leaf.size for leaf in jax.tree.leaves(shapes.values))
        covariance = covariance[:size, :size]
    return Kept(
        stats=stats,
        moments=named.values,
        base_moments=named.base,
        covariance=covariance,
        batch_sizes=summed.batch_counts,
    )


def _restored(task: Task, carry: Carry, store: Checkpoint) -> tuple[int, Carry, Arrays] | None:
    """The number of draws in the checkpoint, the carry on the devices, and stored moments."""
    found = store.load(task.layout.collect(_raw(carry)))
    if found is None:
        return None
    done, stored, arrays = found
    wrap = lambda x, like: jax.random.wrap_key_data(x) if _is_key(like) else x
    parts = zip(task.layout.spread_mine(task.layout.cut(stored)), carry, strict=True)
    return done, [jax.tree.map(wrap, part, like) for part, like in parts], arrays


def _is_key(x: Array) -> bool:
    return jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def _raw(carry: Carry) -> Carry:
    """The carry with random keys as plain numbers, since keys have no file format."""
    raw: Carry = jax.tree.map(lambda x: jax.random.key_data(x) if _is_key(x) else x, carry)
    return raw


@contextlib.contextmanager
def _stops() -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C or SIGTERM into a request to stop; the second one raises."""
    asked: list[int] = []

    def ask(number: int, frame: FrameType | None) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)

    signals = (signal.SIGINT, signal.SIGTERM)
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = {number: signal.signal(number, ask) for number in signals}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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


def _tell(show: Show, done: int, total: int, stats: Statistics) -> None:
    acceptance, alpha = stats.acceptance_rate, stats.alpha
    remark = "" if np.all(np.isnan(acceptance)) else f"acceptance {np.nanmean(acceptance):.2f}, "
    show("sampling", done, total, remark + f"alpha {np.mean(alpha[-1:]):.3g}")
