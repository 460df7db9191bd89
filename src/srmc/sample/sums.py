"""Sums over the draws of chains, from which means and covariances follow without the draws.

Stein features of a draw x with score s, s and x s^T + I, have mean 0 under the target. A regression
of the values of a draw, and of their products, on these features removes the part of the noise that
they explain; it needs the means and the second moments of features and values, which add up.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from srmc._files import Place, read_arrays, write_arrays
from srmc.metrics.errors import batch_means_error
from srmc.metrics.sketch import LEVELS
from srmc.results.kept import Kept, Named
from srmc.results.result import Result
from srmc.sample.stored import grouped, joined
from srmc.types import Float

MOST = 32  # largest number of values or coordinates whose pairwise products are summed
DRAWS_PER_FEATURE = 200  # fewest draws per feature; overfitting is then negligible
NUM_BATCHES = 64


class Sums(NamedTuple):
    """Averages over the draws of a chain: of values f, their products g, and features phi."""

    # Those of (f, g, phi) over equal batches, of which the last one may be shorter.
    batches: Float[np.ndarray, "batch k"]
    counts: Float[np.ndarray, " batch"]  # number of draws in each batch
    # Those of phi phi^T, and of phi (f, g)^T.
    gram: Float[np.ndarray, "p p"]
    cross: Float[np.ndarray, "p m"]
    dim: int  # number of features that are scores, which come first
    stats: dict[str, Float[np.ndarray, " batch"]]  # statistics per batch, by name
    quantiles: Float[np.ndarray, "level k"]  # quantiles of the values at `LEVELS`


def of_chains(
    values: Mapping[str, Any], stats: Mapping[str, Any], scored: Mapping[str, Any] | None
) -> list[Sums]:
    """The sums of each chain; without features, if there are no scores that can be trusted."""
    f = _rows(values)
    quantiles = np.quantile(f, LEVELS, axis=1).swapaxes(0, 1)
    i, j = _pairs(f.shape[2])
    f = np.concatenate([f, f[..., i] * f[..., j]], axis=2)
    phi, dim = np.zeros((*f.shape[:2], 0)), 0
    if scored is not None:
        x, s = (np.asarray(scored[name], float) for name in ("position", "score"))
        phi, dim = _features(x, s), x.shape[2]
    named = {name: np.asarray(x, float) for name, x in stats.items() if np.ndim(x) == 2}
    own = ({name: x[chain] for name, x in named.items()} for chain in range(len(f)))
    return [_of_chain(*parts, dim) for parts in zip(f, phi, own, quantiles, strict=True)]


def _of_chain(
    f: np.ndarray, phi: np.ndarray, stats: dict[str, np.ndarray], quantiles: np.ndarray, dim: int
) -> Sums:
    count = len(f)
    size = -(-count // NUM_BATCHES)
    starts = np.arange(0, count, size)
    counts = np.diff([*starts, count])
    over = lambda x: np.add.reduceat(x, starts, axis=-1) / counts
    both = np.concatenate([f, phi], axis=1)
    gram, cross = (phi.T @ x / count for x in (phi, f))
    sums = over(both.T).T, counts, gram, cross, dim, jax.tree.map(over, stats)
    return Sums(*sums, quantiles)


def _rows(values: Mapping[str, Any]) -> Float[np.ndarray, "chain draw k"]:
    """The values of draws as vectors, in the order of their names."""
    arrays = [np.asarray(values[name], float) for name in sorted(values)]
    return np.concatenate([x.reshape(*x.shape[:2], -1) for x in arrays], axis=2)


def _pairs(size: int) -> tuple[np.ndarray, np.ndarray]:
    """The products that are summed: of all pairs, or of each with itself."""
    if size > MOST:
        return np.arange(size), np.arange(size)
    return np.triu_indices(size)


def _features(
    x: Float[np.ndarray, "chain draw d"], s: Float[np.ndarray, "chain draw d"]
) -> Float[np.ndarray, "chain draw p"]:
    i, j = _pairs(x.shape[2])
    products = (x[..., i] * s[..., j] + x[..., j] * s[..., i]) / 2 + (i == j)
    return np.concatenate([s, products], axis=2)


def moments_of(chains: Sequence[Sums], shapes: Mapping[str, Sequence[int]]) -> Kept:
    """The moments of all chains, by regression on their features and by plain averages.

    `shapes` has the shape of each value. The regression is on the scores alone, or skipped, where
    draws are too few for all features.
    """
    one = chains[0]
    batches = np.stack([sums.batches for sums in chains])
    size = one.cross.shape[1]
    plain, phi = batches[..., :size], batches[..., size:]
    total = len(chains) * one.counts.sum()
    most = int(total / DRAWS_PER_FEATURE)
    used = next((p for p in (phi.shape[2], one.dim) if p <= most), 0)
    weights = one.counts / one.counts.sum()
    beta = _regression(chains, np.einsum("b,cbk->k", weights, batches) / len(chains), used)
    better = plain - phi[..., :used] @ beta
    covariance = _covariance(better, weights, sum(int(np.prod(s)) for s in shapes.values()))
    moments, base = (_named(x, one.counts, shapes) for x in (better, plain))
    quantiles = np.stack([sums.quantiles for sums in chains])
    for name, at in _places(shapes).items():
        own = quantiles[..., at].reshape(*quantiles.shape[:2], *shapes[name])
        base[name]["quantiles"] = own
        moments[name]["quantiles"] = _shifted(own, base[name], moments[name])
    return Kept(
        stats=jax.tree.map(lambda *x: np.stack(x), *(sums.stats for sums in chains)),
        moments=moments,
        base_moments=base,
        covariance=covariance,
        batch_sizes=[int(n) for n in one.counts],
    )


def _regression(
    chains: Sequence[Sums], mean: Float[np.ndarray, " k"], used: int
) -> Float[np.ndarray, "p m"]:
    """The coefficients of values and products on the first features, by least squares."""
    size = chains[0].cross.shape[1]
    at, of = mean[size : size + used], mean[:size]
    average = lambda parts: sum(parts) / len(chains)
    gram = average([sums.gram[:used, :used] for sums in chains]) - np.outer(at, at)
    cross = average([sums.cross[:used] for sums in chains]) - np.outer(at, of)
    scale = np.sqrt(np.maximum(np.diag(gram), 1e-300))[:, None]
    return np.linalg.pinv(gram / scale / scale.T, 1e-10, True) @ (cross / scale) / scale


def _named(
    batches: Float[np.ndarray, "chain batch m"],
    counts: np.ndarray,
    shapes: Mapping[str, Sequence[int]],
) -> Named:
    """Moments by name; a chain's variance is E f^2 - (E f)^2."""
    weights, full = counts / counts.sum(), counts == counts[0]
    k = sum(int(np.prod(shape)) for shape in shapes.values())
    i, j = _pairs(k)
    mean = np.einsum("b,cbm->cm", weights, batches)
    variance = mean[:, k:][:, i == j] - mean[:, :k] ** 2
    error = batch_means_error(batches[:, full, :k])
    found: Named = {}
    for name, at in _places(shapes).items():
        cut = lambda x, at=at, s=shapes[name]: x[..., at].reshape(*x.shape[:-1], *s)
        parts = {"mean": mean, "variance": variance, "error": error}
        parts["batch_means"] = batches[..., :k].mean(axis=0)
        found[name] = jax.tree.map(cut, parts)
    return found


def _places(shapes: Mapping[str, Sequence[int]]) -> dict[str, slice]:
    """Where the entries of each value are in a vector of all."""
    ends = np.cumsum([int(np.prod(shapes[name])) for name in sorted(shapes)]).tolist()
    return {n: slice(a, b) for n, a, b in zip(sorted(shapes), [0, *ends], ends, strict=False)}


def _shifted(quantiles: np.ndarray, old: dict[str, Any], new: dict[str, Any]) -> np.ndarray:
    """Quantiles of chains, moved by the map that takes the old mean and sd to the new ones."""
    (mean, sd), (to, wide) = (
        (m["mean"].mean(axis=0), np.sqrt(m["variance"].mean(axis=0) + m["mean"].var(axis=0)))
        for m in (old, new)
    )
    scale = np.divide(wide, sd, out=np.ones_like(sd), where=(sd > 0) & (wide > 0))
    moved: np.ndarray = to + (quantiles - mean) * scale
    return moved


def _covariance(
    batches: Float[np.ndarray, "chain batch m"], weights: np.ndarray, k: int
) -> Float[np.ndarray, "k k"] | None:
    """The covariance of the values, if the products of all pairs were summed."""
    if k > MOST:
        return None
    mean = np.einsum("b,cbm->m", weights, batches) / len(batches)
    i, j = _pairs(k)
    second = np.zeros((k, k))
    second[i, j] = second[j, i] = mean[k:]
    return second - np.outer(mean[:k], mean[:k])


def sums_of(result: Result) -> list[Sums]:
    """The sums of the chains of a result, of its plain draws."""
    values = result.draws if result.base is None else result.base
    failed = any(finding.failed for report in result.rebalancing for finding in report.findings)
    scored = result.kept.scored
    known = scored is not None and "score" in scored and not failed
    return of_chains(values, result.stats, scored if known else None)


def write_sums(path: Place, sums: Sums) -> None:
    """Write the sums of a chain to a file."""
    own = {name: np.asarray(x) for name, x in sums._asdict().items() if name != "stats"}
    write_arrays(path, joined({"sums": own, "stats": sums.stats}))


def read_sums(path: Place) -> Sums:
    """Read what `write_sums` wrote."""
    groups = grouped(read_arrays(path))
    own = groups["sums"]
    return Sums(**own | {"dim": int(own["dim"]), "stats": groups["stats"]})
