"""Run a task to its end, or until it is told to stop, and keep what was asked for."""

import functools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax
import numpy as np

from srmc._progress import Show
from srmc.results.kept import Kept
from srmc.sample.checkpoint import Checkpoint
from srmc.sample.commits import Commits
from srmc.sample.controlled import corrected
from srmc.sample.loop import Carry, Chunk, Recorded, Statistics, Task, chunks, dtypes
from srmc.sample.moments import Accumulator, begin, finish, moments
from srmc.sample.processes import together
from srmc.sample.stop import Stop
from srmc.sample.stored import IN_MEMORY, Arrays

CHUNK_SECONDS = 0.5  # the time between two looks at signals, and two updates of the progress bar


class Recording(NamedTuple):
    """A run in progress: its task, its length, its checkpoint, and how to show its progress.

    seconds
        The time between two commits.
    stop
        Knows of a signal to stop, which is noticed between two chunks.
    """

    task: Task
    num_draws: int
    store: Checkpoint | None
    seconds: float
    show: Show
    stop: Stop

    @property
    def commits(self) -> Commits:
        """The commits of this run."""
        return Commits(self.task, self.store, self.seconds, self.stop)

    @property
    def chunk_seconds(self) -> float:
        """The time that a chunk should take."""
        return CHUNK_SECONDS if self.store is None else min(CHUNK_SECONDS, self.seconds)


def keep_draws(run: Recording, states: Carry, looks: Sequence[int]) -> Iterator[tuple[Kept, int]]:
    """Keep draws, in memory or in a checkpoint; yield them and their number per chain.

    That is done at each of the `looks`, in draws per chain, and where the run is stopped.
    """
    task, commits = run.task, run.commits
    store = None if run.store is None or run.store.lost else run.store
    in_memory = _size(task, states, run.num_draws) <= IN_MEMORY
    disk = None if store is None else together(lambda: store.draws(run.num_draws))
    parts: list[dict[str, Arrays]] = []
    done = 0
    if disk is not None and (found := commits.restored(states)):
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
            commits_now, stops = commits.due(sum(x.size for x in jax.tree.leaves(new)))
            if disk is not None and (commits_now or done == look):
                write = functools.partial(disk.write, written, _joined(new))
                commits.save(done, states, write, in_memory)
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
    joined: dict[str, Arrays] = jax.tree.map(lambda *x: np.concatenate(x), *parts)
    return joined


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
    task, commits = run.task, run.commits
    summed = Accumulator(run.num_draws)
    carry, done = begin(task, states, covariance), 0
    if found := commits.restored(carry):
        carry, commit = found
        done = commit.done
        summed.restore(commit.kept)
    for chunk in moments(task, carry, summed, run.num_draws, first=done, seconds=run.chunk_seconds):
        carry, done = chunk.carry, chunk.done
        _tell(run.show, done, run.num_draws, chunk.stats)
        commits_now, stops = commits.due()
        if commits_now or done == run.num_draws:
            commits.save(done, carry, summed.arrays)
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
