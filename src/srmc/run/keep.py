"""Run a task and keep what was asked for, on disk too, until it is done or told to stop."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from srmc._progress import Show
from srmc.run import loop as _run
from srmc.run import moments as _moments
from srmc.run.plan import Plan
from srmc.store.checkpoint import Checkpoint

PyTree = Any


class Kept(NamedTuple):
    """What came of the run: values and statistics (chain, draw, ...), or moments."""

    values: dict[str, Any] | None
    stats: dict[str, Any]
    moments: dict[str, dict[str, np.ndarray]] | None
    covariance: np.ndarray | None
    done: int
    batches: list[int] | None = None  # draws a chain of each batch of the statistics of moments


def keep_draws(
    task: _run.Task,
    states: list[Any],
    plan: Plan,
    store: Checkpoint | None,
    seconds: float,
    show: Show,
) -> Kept:
    """Draws in memory, or with a checkpoint on disk, committed every so many seconds."""
    num_draws = plan.num_draws
    parts: list[dict[str, np.ndarray]] = []
    first, disk, grain = 0, None, 1
    if store is not None:
        grain = max(1, num_draws // 100)
        disk = store.draws(num_draws, grain)
        first, states, _ = _restored(task, states, store) or (0, states, {})
    chunks = _run.draws(
        task, states, num_draws, first=first, seconds=seconds if disk else 0.5, grain=grain
    )
    done = first
    with _stops() as stopping:
        for chunk in chunks:
            values = chunk.values | {f"stats/{k}": x for k, x in chunk.stats.items()}
            if store is None or disk is None:
                parts.append(values)
            else:
                with _disk_errors(store, done):
                    disk.write(done, values)
                    store.save(chunk.done, task.layout.collect(_raw(chunk.carry)), {})
            done = chunk.done
            _tell(show, done, num_draws, chunk.stats)
            if stopping():
                break
    if disk is not None:
        values = disk.read(done)
    else:
        names = parts[0]
        values = {k: np.swapaxes(np.concatenate([p[k] for p in parts]), 0, 1) for k in names}
    values = task.layout.of_all_processes(values)
    stats = {k[6:]: x for k, x in values.items() if k.startswith("stats/")}
    values = {k: x for k, x in values.items() if not k.startswith("stats/")}
    return Kept(values, stats, None, None, done)


def keep_moments(
    task: _run.Task,
    states: list[Any],
    plan: Plan,
    store: Checkpoint | None,
    seconds: float,
    show: Show,
) -> Kept:
    """Moments alone."""
    num_draws = plan.num_draws
    summed = _moments.Moments(num_draws)
    carry = _moments.begin(task, states, plan.keep == "covariance")
    first = 0
    if store is not None and (found := _restored(task, carry, store)):
        first, carry, arrays = found
        summed.restore(arrays)
    done = first
    with _stops() as stopping:
        for chunk in _moments.moments(
            task, carry, summed, num_draws, first=first, seconds=seconds if store else 0.5
        ):
            carry = chunk.carry
            if store is not None:
                with _disk_errors(store, done):
                    state = task.layout.collect(_raw(carry))
                    store.save(chunk.done, state, summed.arrays())
            done = chunk.done
            _tell(show, done, num_draws, chunk.stats)
            if stopping():
                break
    if summed.count < done:
        _moments.finish(task, carry, summed)
    stats = np.moveaxis(np.stack(summed.batch_stats), 0, -1)  # (statistic, chain, batch)
    stats = task.layout.of_all_processes(dict(zip(_run.STATISTICS, stats, strict=True)))
    one = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), states[0])
    shapes = jax.eval_shape(task.record, one)
    moments, covariance = summed.of_all_processes(task.layout).by_name(shapes)
    return Kept(None, stats, moments, covariance, done, summed.batch_counts)


def _restored(task, carry, store):
    """Where a stored run stands, with the carry on the devices."""
    found = store.load(task.layout.collect(_raw(carry)))
    if found is None:
        return None
    done, stored, moments = found
    wrap = lambda x, like: jax.random.wrap_key_data(x) if _is_key(like) else x
    parts = zip(task.layout.spread_mine(task.layout.cut(stored)), carry, strict=True)
    return done, [jax.tree.map(wrap, part, like) for part, like in parts], moments


def _is_key(x) -> bool:
    return jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def _raw(tree: PyTree) -> PyTree:
    """With plain numbers in place of random keys, which have no file format."""
    return jax.tree.map(lambda x: jax.random.key_data(x) if _is_key(x) else x, tree)


@contextlib.contextmanager
def _stops() -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C or SIGTERM into a wish to stop; the second one raises."""
    asked: list[int] = []

    def ask(number, frame):
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
def _disk_errors(store, done):
    try:
        yield
    except OSError as error:
        raise OSError(
            error.errno,
            f"could not write the checkpoint: {error.strerror or error}; {done} draws a chain are "
            "safe in it, and resume=True goes on from there",
            str(store.folder),
        ) from error


def _tell(show, done, total, stats):
    acceptance, alpha = stats["acceptance_rate"], stats["alpha"]
    remark = "" if np.all(np.isnan(acceptance)) else f"acceptance {np.nanmean(acceptance):.2f}, "
    show("sampling", done, total, remark + f"alpha {np.mean(alpha[-1:]):.3g}")
