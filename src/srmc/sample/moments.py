"""Moments of a run of any length: Welford sums on the device, merged in double precision."""

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from blackjax.base import SamplingAlgorithm
from jax.flatten_util import ravel_pytree
from jax.sharding import Sharding

from srmc._programs import remembered
from srmc.metrics.errors import at_least_between, batch_means_error
from srmc.repel.state import RepelState
from srmc.sample.devices import Layout, compiled
from srmc.sample.loop import Carry, Chunk, Pace, Statistics, Task, drawing, dtypes, paced
from srmc.types import Array, Float, PyTree

NUM_BATCHES = 64  # the number of batches whose means are kept, for errors and plots
LONGEST = 2**14  # the most draws that are summed in the precision of the run


class Sums(NamedTuple):
    """Sums over the draws of a unit, per chain, about an origin near the draws."""

    number: Float[Array, " chain"]
    mean: Float[Array, "chain d"]
    square: Float[Array, "chain ..."]
    totals: Statistics


class Accumulator:
    """Mean, variance or covariance of each chain, and averages of up to 64 batches.

    `num_draws` is the number of draws to come; memory does not grow with it.
    """

    def __init__(self, num_draws: int) -> None:
        self.unit = min(LONGEST, -(-num_draws // NUM_BATCHES))
        num_units = -(-num_draws // self.unit)
        self._units_per_batch = -(-num_units // NUM_BATCHES)
        self.count = 0
        self.mean: Any = 0.0  # (chain, d)
        self.square: Any = 0.0  # sums of squares about the mean, (chain, d) or (chain, d, d)
        self.between: Any = 0.0  # the part of these squares between units, (chain, d)
        self.batch_counts: list[int] = []
        self.batch_means: list[np.ndarray] = []  # over all chains, (d,)
        self.batch_stats: list[np.ndarray] = []  # (statistic, chain), averages per draw
        self._units = 0

    def add(self, count: int, mean: np.ndarray, square: np.ndarray, stats: np.ndarray) -> None:
        """Merge the sums of one unit (Chan, Golub and LeVeque)."""
        total = self.count + count
        delta = mean - self.mean
        product = delta[..., None] * delta[..., None, :] if square.ndim == 3 else delta**2
        weight = self.count * count / total
        self.mean = self.mean + delta * (count / total)
        self.square = self.square + square + product * weight
        self.between = self.between + delta**2 * weight
        self.count = total
        if self._units % self._units_per_batch == 0:
            self.batch_counts.append(0)
            self.batch_means.append(np.zeros(mean.shape[1:]))
            self.batch_stats.append(np.zeros(stats.shape))
        self._units += 1
        self.batch_counts[-1] += count
        share = count / self.batch_counts[-1]
        self.batch_means[-1] += share * (mean.mean(axis=0) - self.batch_means[-1])
        self.batch_stats[-1] += share * (stats - self.batch_stats[-1])

    def of_all_processes(self, layout: Layout) -> "Accumulator":
        """The same for the chains of all processes, which have equally many each."""
        share = np.stack(self.batch_means)[None].repeat(len(self.mean), axis=0)
        whole = layout.of_all_processes((self.mean, self.square, self.between, share))
        self.mean, self.square, self.between, shares = whole
        self.batch_means = list(shares.mean(axis=0))
        return self

    def by_name(self, shapes: PyTree[Any]) -> tuple[PyTree[Any], np.ndarray | None]:
        """Moments in the structure of `shapes`, the values of a draw, and their covariance."""
        full = self.square.ndim == 3
        variance = np.einsum("cii->ci", self.square) if full else self.square
        variance = variance / max(1, self.count - 1)
        count, batches = np.array(self.batch_counts), np.stack(self.batch_means)
        error = batch_means_error(batches[count == count[0]][None])  # the last one may be short
        error = self._at_least_between(error)
        leaves, structure = jax.tree.flatten(shapes)
        ends = np.cumsum([leaf.size for leaf in leaves])

        def cut(x: np.ndarray, leaf: Any, end: int) -> np.ndarray:
            return x[..., end - leaf.size : end].reshape((*x.shape[:-1], *leaf.shape))

        named = [
            {
                "mean": cut(self.mean, leaf, end),
                "variance": cut(variance, leaf, end),
                "error": cut(error, leaf, end),
                "batch_means": cut(batches, leaf, end),
            }
            for leaf, end in zip(leaves, ends, strict=True)
        ]
        return jax.tree.unflatten(structure, named), self._covariance() if full else None

    def _at_least_between(self, error: np.ndarray) -> np.ndarray:
        """The error, or that between chains if they are stuck; `between` has n Var(unit mean)."""
        if len(self.mean) < 2 or self._units < 4:
            return error
        within = self.between.mean(axis=0) / ((self._units - 1) * self.count)
        return at_least_between(self.mean[:, None], error, within)

    def _covariance(self) -> np.ndarray:
        between = self.mean - self.mean.mean(axis=0)
        total = self.square.sum(axis=0) + self.count * between.T @ between
        covariance: np.ndarray = total / (self.count * len(self.mean) - 1)
        return covariance

    def arrays(self) -> dict[str, np.ndarray]:
        """The whole state as arrays, to be stored."""
        return {k: np.asarray(v) for k, v in vars(self).items()}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Restore the state from what `arrays` returned."""
        for name, old in vars(self).items():
            new = arrays[name]
            value: Any = list(new) if isinstance(old, list) else new
            setattr(self, name, int(new) if isinstance(old, int) else value)
        self.batch_counts = [int(n) for n in self.batch_counts]


def begin(task: Task, states: Carry, covariance: bool) -> Carry:
    """The carry that `moments` starts from: states, an origin near the draws, and empty sums."""
    program = _empty_program(task.record, covariance, task.layout.places[0])
    blocks = zip(states, task.layout.share(task.parameters), strict=True)
    return [program(part, own) for part, own in blocks]


@remembered
def _empty_program(
    record: Callable[[Any, RepelState], Any], covariance: bool, place: Sharding
) -> Callable[..., tuple[RepelState, Array, Sums]]:
    def empty(states: RepelState, own: PyTree[Any]) -> tuple[RepelState, Array, Sums]:
        origin = jax.vmap(lambda state: ravel_pytree(record(own, state))[0])(states)
        shape = (*origin.shape, origin.shape[1]) if covariance else origin.shape
        zeros = jnp.zeros(len(origin), origin.dtype)
        whole = lambda t: jnp.issubdtype(t, jnp.integer)
        totals = {k: zeros.astype(int if whole(t) else float) for k, t in dtypes().items()}
        square = jnp.zeros(shape, origin.dtype)
        return states, origin, Sums(zeros, jnp.zeros_like(origin), square, Statistics(**totals))

    return compiled(empty, place, (0, None), 0)


def moments(
    task: Task,
    carry: Carry,
    into: Accumulator,
    num_draws: int,
    *,
    first: int = 0,
    seconds: float = 0.5,
) -> Iterator[Chunk]:
    """Run the chains, and merge each unit of draws into `into`."""
    place = task.layout.places[0]
    program = _advance_program(task.build, task.record, task.thin, into.unit, place)
    pace = Pace(first, num_draws, seconds, most=num_draws, boundary=into.unit)
    for done, _, now, _ in paced(program, task, carry, pace):
        sums = task.layout.collect([part[2] for part in now])
        if done % into.unit == 0 or done == num_draws:
            finish(task, now, into)
        averages = Statistics(*(total / sums.number for total in sums.totals))
        yield Chunk(done, None, averages, now)


@remembered
def _advance_program(
    build: Callable[[Any], SamplingAlgorithm],
    record: Callable[[Any, RepelState], Any],
    thin: int,
    unit: int,
    place: Sharding,
) -> Callable[..., tuple[Any, Any]]:
    """The program that makes draws and sums them up; `unit` of them in a sum."""

    def advance(
        carry: tuple[RepelState, Array, Sums],
        keys: Array,
        first: Array,
        count: Array,
        parameters: PyTree[Any],
    ) -> tuple[tuple[RepelState, Array, Sums], tuple[()]]:
        one_draw = drawing(build(parameters), functools.partial(record, parameters), thin)
        states, origin, sums = carry
        sums = jax.tree.map(lambda x: jnp.where(first % unit == 0, 0, x), sums)

        def body(i: Array, carry: tuple[RepelState, Sums]) -> tuple[RepelState, Sums]:
            states, (n, mean, square, totals) = carry
            states, values, stats = one_draw(states, first + i, keys)
            # About a nearby origin, single precision suffices wherever the draws are.
            x = jax.vmap(lambda v: ravel_pytree(v)[0])(values) - origin
            delta = x - mean
            mean = mean + delta / (n + 1)[:, None]
            rest = x - mean
            full = square.ndim == 3
            square = square + (jnp.einsum("ci,cj->cij", delta, rest) if full else delta * rest)
            return states, Sums(n + 1, mean, square, jax.tree.map(jnp.add, totals, stats))

        states, sums = jax.lax.fori_loop(0, count, body, (states, sums))
        return (states, origin, sums), ()

    return compiled(advance, place, (0, 0, None, None, None), 0)


def finish(task: Task, carry: Carry, into: Accumulator) -> None:
    """Merge the sums that the carry holds."""
    origin, sums = task.layout.collect([part[1:] for part in carry])
    stats = np.stack([total / sums.number for total in sums.totals])
    mean = sums.mean.astype(float) + origin
    into.add(int(sums.number[0]), mean, sums.square.astype(float), stats)
