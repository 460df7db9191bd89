"""Moments of a run of any length: Welford on the device, merged on the host in double precision."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from srmc.metrics.errors import batch_means_error
from srmc.run.devices import Layout
from srmc.run.loop import STATISTICS, Chunk, Task, drawing, paced

PyTree = Any
NUM_BATCHES = 64
LONGEST = 2**14  # draws that are summed up in the precision of the run


class Moments:
    """Mean, variance or covariance of each chain, and averages of up to 64 batches.

    Of `num_draws` draws that are to come; memory does not grow with their number.
    """

    def __init__(self, num_draws: int) -> None:
        self.unit = min(LONGEST, -(-num_draws // NUM_BATCHES))
        num_units = -(-num_draws // self.unit)
        self._units_a_batch = -(-num_units // NUM_BATCHES)
        self.count = 0
        self.mean: Any = 0.0  # (chain, d)
        self.square: Any = 0.0  # sums of squares about the mean, (chain, d) or (chain, d, d)
        self.batch_counts: list[int] = []
        self.batch_means: list[np.ndarray] = []  # over all chains, (d,)
        self.batch_stats: list[np.ndarray] = []  # (statistic, chain), averages a draw
        self._units = 0

    def add(self, count: int, mean: np.ndarray, square: np.ndarray, stats: np.ndarray) -> None:
        """Merge what a unit has summed up (Chan, Golub and LeVeque)."""
        total = self.count + count
        delta = mean - self.mean
        product = delta[..., None] * delta[..., None, :] if square.ndim == 3 else delta**2
        self.mean = self.mean + delta * (count / total)
        self.square = self.square + square + product * (self.count * count / total)
        self.count = total
        if self._units % self._units_a_batch == 0:
            self.batch_counts.append(0)
            self.batch_means.append(np.zeros(mean.shape[1:]))
            self.batch_stats.append(np.zeros(stats.shape))
        self._units += 1
        self.batch_counts[-1] += count
        share = count / self.batch_counts[-1]
        self.batch_means[-1] += share * (mean.mean(axis=0) - self.batch_means[-1])
        self.batch_stats[-1] += share * (stats - self.batch_stats[-1])

    def of_all_processes(self, layout: Layout) -> "Moments":
        """The same for the chains of all processes, each of which has as many."""
        share = np.stack(self.batch_means)[None].repeat(len(self.mean), axis=0)
        self.mean, self.square, shares = layout.of_all_processes((self.mean, self.square, share))
        self.batch_means = list(shares.mean(axis=0))
        return self

    def by_name(self, shapes: dict[str, Any]) -> tuple[dict[str, dict], np.ndarray | None]:
        """Moments of each value, whose shapes are given, and the covariance of all of them."""
        count = np.array(self.batch_counts)
        batches = np.stack(self.batch_means)
        full = self.square.ndim == 3
        variance = np.einsum("cii->ci", self.square) if full else self.square
        variance = variance / max(1, self.count - 1)
        whole = batches[count == count[0]]  # the last batch may be short
        error = batch_means_error(whole[None])
        moments, start = {}, 0
        for name, shape in sorted((k, v.shape) for k, v in shapes.items()):
            size = int(np.prod(shape))
            cut = lambda x, a=start, b=start + size, s=shape: x[..., a:b].reshape(
                (*x.shape[:-1], *s)
            )
            moments[name] = {
                "mean": cut(self.mean),
                "variance": cut(variance),
                "error": cut(error),
                "batch_means": cut(batches),
            }
            start += size
        if not full:
            return moments, None
        between = self.mean - self.mean.mean(axis=0)
        total = self.square.sum(axis=0) + self.count * between.T @ between
        return moments, total / (self.count * len(self.mean) - 1)

    def arrays(self) -> dict[str, np.ndarray]:
        """All of it, to be stored."""
        return {k: np.asarray(v) for k, v in vars(self).items()}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """What `arrays` gave."""
        for name, old in vars(self).items():
            new = arrays[name]
            value: Any = list(new) if isinstance(old, list) else new
            setattr(self, name, int(new) if isinstance(old, int) else value)
        self.batch_counts = [int(n) for n in self.batch_counts]


def begin(task: Task, states: list[Any], covariance: bool) -> list[Any]:
    """What `moments` starts from: states, an origin near the draws, and empty sums."""

    def empty(states):
        origin = jax.vmap(lambda state: ravel_pytree(task.record(state))[0])(states)
        shape = (*origin.shape, origin.shape[1]) if covariance else origin.shape
        number = jnp.zeros(len(origin), origin.dtype)
        totals = {k: number.astype(int if t is int else float) for k, t in STATISTICS.items()}
        square = jnp.zeros(shape, origin.dtype)
        return states, origin, (number, jnp.zeros_like(origin), square, totals)

    return [task.layout.program(empty, (0,), 0)(part) for part in states]


def moments(
    task: Task,
    carry: list[Any],
    into: Moments,
    num_draws: int,
    *,
    first: int = 0,
    seconds: float = 0.5,
) -> Iterator[Chunk]:
    """Run, and merge each unit of draws into `into`."""
    one_draw = drawing(task)

    def advance(carry, keys, first, count):
        states, origin, sums = carry
        sums = jax.tree.map(lambda x: jnp.where(first % into.unit == 0, 0, x), sums)

        def body(i, carry):
            states, (n, mean, square, totals) = carry
            states, values, stats = one_draw(states, first + i, keys)
            # From a near origin single precision does, wherever the draws are.
            x = jax.vmap(lambda v: ravel_pytree(v)[0])(values) - origin
            delta = x - mean
            mean = mean + delta / (n + 1)[:, None]
            rest = x - mean
            full = square.ndim == 3
            square = square + (jnp.einsum("ci,cj->cij", delta, rest) if full else delta * rest)
            totals = {k: total + stats[k] for k, total in totals.items()}
            return states, (n + 1, mean, square, totals)

        states, sums = jax.lax.fori_loop(0, count, body, (states, sums))
        return (states, origin, sums), ()

    program = task.layout.program(advance, (0, 0, None, None), 0)
    for done, _, now, _ in paced(
        program, task, carry, first, num_draws, seconds, most=num_draws, boundary=into.unit
    ):
        count, _, _, totals = task.layout.collect([sums for _, _, sums in now])
        if done % into.unit == 0 or done == num_draws:
            finish(task, now, into)
        yield Chunk(done, None, {k: v / count for k, v in totals.items()}, now)


def finish(task: Task, carry: list[Any], into: Moments) -> None:
    """Merge the sums that the carry holds."""
    origin, (count, mean, square, totals) = task.layout.collect([part[1:] for part in carry])
    stats = np.stack([totals[k] / count for k in STATISTICS])
    into.add(int(count[0]), mean.astype(float) + origin, square.astype(float), stats)
