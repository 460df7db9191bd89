"""Moments of a run of any length, of the draws or by control variates."""

import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from blackjax.base import SamplingAlgorithm
from jax.flatten_util import ravel_pytree
from jax.sharding import Sharding
from jax.tree_util import Partial

from srmc._programs import Code, remembered
from srmc.metrics.errors import at_least_between, batch_means_error
from srmc.models.problem import name_leaves
from srmc.rebalance.check import least_likely
from srmc.repel.state import RepelState
from srmc.results.kept import Named
from srmc.results.trouble import FLAT, GROWS
from srmc.sample.devices import Layout, compiled
from srmc.sample.loop import (
    Carry,
    Chunk,
    Pace,
    Parameters,
    Recorded,
    Statistics,
    Task,
    drawing,
    dtypes,
    paced,
)
from srmc.types import Array, Float, Position, PyTree

FEWEST = 16  # fewest batches for control variates; with fewer, plain averages are returned
CHANCE = 1e-3  # probability that a correct run is refused; it then keeps its plain moments


def centre_of(named: Partial, positions: Position) -> dict[str, Any]:
    """The average values of positions (chain, ...), near which squares are summed."""
    means = lambda values: {k: jnp.mean(x.astype(float), axis=0) for k, x in values.items()}
    return {
        "values": means(jax.vmap(named)(positions)),
        "positions": means(name_leaves(positions)),
    }


@remembered
def recorder(code: Code) -> Callable[[Parameters, RepelState], Recorded]:
    """What is summed of a state: its values, and their squares with the features."""

    def record(given: Parameters, state: RepelState) -> Recorded:
        inner = state.inner_state
        values, own = code(given.values)(inner.position), name_leaves(inner.position)
        scores = name_leaves(inner.logdensity_grad)
        centre, origin = given.loop["values"], given.loop["positions"]
        summed = {}
        for name, x in values.items():
            parts = [(x - centre[name]) ** 2]
            if name in own and own[name].shape == x.shape:  # a parameter, or its transform
                s = scores[name]
                parts += [s, 1 + (own[name] - origin[name]) * s]
            summed[name] = jnp.stack(parts)
        return Recorded(values, features=summed)

    return record


def corrected(
    values: Named, summed: Named, centre: dict[str, Any], counts: list[int]
) -> Named | None:
    """The moments of values by regression on the features that were summed with them.

    None, with a warning, if the features cannot have mean 0 under the target.
    """
    if improper := _improper(summed):
        warnings.warn(improper, stacklevel=2)
        return None
    full = np.array(counts) == counts[0]
    features = [one["batch_means"][full, 1:].reshape(full.sum(), -1) for one in summed.values()]
    t, limit = least_likely(np.concatenate(features, axis=1)[None], 2.0, CHANCE)
    if t > limit:
        warnings.warn(
            "the moments are those of the plain draws, without control variates: the mean of a "
            f"Stein feature is {t:.1f} standard errors from 0, and chance allows {limit:.1f}. The "
            "log density has a jump, a wall or a wrong gradient, or the chains have not settled",
            stacklevel=2,
        )
        return None
    return {
        name: _corrected(own, summed[name], np.asarray(centre["values"][name]), full)
        for name, own in values.items()
    }


def _improper(summed: Named) -> str:
    """Of a proper target, E[(x - c)·s] = -d; where it is positive, the score points outwards."""
    means = [one["mean"][:, 1:] for one in summed.values() if one["mean"].shape[1] > 1]
    if not means:
        return ""
    if not any(np.any(mean[:, 0]) for mean in means):
        return FLAT
    slope = sum(np.sum(mean[:, 1].reshape(len(mean), -1) - 1, axis=1) for mean in means)
    return GROWS if np.all(slope > 0) else ""


def _corrected(
    own: dict[str, Any], summed: dict[str, Any], centre: np.ndarray, full: np.ndarray
) -> dict[str, Any]:
    f = np.stack([own["batch_means"], summed["batch_means"][:, 0]], axis=1)
    phi = summed["batch_means"][:, 1:]
    if full.sum() < FEWEST or not phi.shape[1]:
        return own
    beta = _coefficients(f[full], phi[full])
    explained = lambda phi: np.einsum("fp...,np...->nf...", beta, phi)
    left = (f - explained(phi))[full]
    of_chains = np.stack([own["mean"], summed["mean"][:, 0]], axis=1)
    mean, square = np.swapaxes(of_chains - explained(summed["mean"][:, 1:]), 0, 1)
    variance = square - (mean - centre) ** 2
    lost = batch_means_error(f[full][None, :, 0]) < own["error"] * (1 - 1e-9)  # chains are stuck
    freedom = np.sqrt((len(left) - 1) / (len(left) - 1 - phi.shape[1]))
    error = freedom * batch_means_error(left[None, :, 0])
    rounding = np.finfo(centre.dtype).eps * np.sqrt(np.abs(variance).mean(axis=0))
    error = np.hypot(error, rounding)
    fine = np.all(variance > 0, axis=0) & ~lost & np.isfinite(error)
    found = {"mean": mean, "variance": variance, "error": error}
    found["batch_means"] = (f - explained(phi))[:, 0]
    return {name: np.where(fine, value, own[name]) for name, value in found.items()}


def _coefficients(
    f: Float[np.ndarray, "batch f ..."], phi: Float[np.ndarray, "batch p ..."]
) -> Float[np.ndarray, "f p ..."]:
    """Least squares with an intercept, coordinate by coordinate."""
    f, phi = (np.moveaxis(v - v.mean(axis=0), (0, 1), (-1, -2)) for v in (f, phi))
    gram, cross = phi @ np.swapaxes(phi, -1, -2), f @ np.swapaxes(phi, -1, -2)
    scale = np.sqrt(np.maximum(np.einsum("...pp->...p", gram), 1e-300))
    inverse = np.linalg.pinv(gram / scale[..., :, None] / scale[..., None, :], 1e-8, True)
    beta = cross / scale[..., None, :] @ inverse / scale[..., None, :]
    return np.moveaxis(beta, (-2, -1), (0, 1))


NUM_BATCHES = 64  # the number of batches whose means are kept, for errors and plots
LONGEST = 2**14  # largest number of draws summed in the precision of the run


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
        return total / (self.count * len(self.mean) - 1)

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
