"""What is measured on a posterior: estimates from draws, the truth, and squared errors."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import srmc
from srmc.types import Array, Float
from srmc_studies.bench import rivals
from srmc_studies.bench.errors import QUANTILES, ratio_error
from srmc_studies.bench.posteriors import Posterior

FUNCTIONALS = ("mean", "variance", "covariance", "quantile", "tail")
NUMBERS = 2**25  # draws times products at once
MOST = 700  # control variates; a regression on more takes minutes
Estimates = dict[str, np.ndarray]


class Truth(NamedTuple):
    """The truth about a posterior, in units of `scale` around `centre`.

    values
        The estimates that errors refer to.
    errors
        Their own squared errors, averaged over coordinates, from two halves of the draws.
    draws
        Draws of the posterior, from which chains start.
    source
        Where it comes from.
    """

    centre: Float[np.ndarray, " d"]
    scale: Float[np.ndarray, " d"]
    values: Estimates
    errors: dict[str, float]
    draws: Float[np.ndarray, "draw d"]
    source: str


def estimates(x: Float[np.ndarray, "draw d"], centre: np.ndarray, scale: np.ndarray) -> Estimates:
    """Estimates of all functionals, in units of the posterior's standard deviations.

    Quantiles are those at 5, 25, 50, 75 and 95%, and `tail` is the probability of more than 1.5
    standard deviations above the mean.
    """
    y = (x - centre) / scale
    products = np.cov(y, rowvar=False, bias=True).reshape(len(scale), -1)
    return {
        "mean": y.mean(axis=0),
        "variance": np.diag(products),
        "covariance": products[np.triu_indices(len(scale), 1)],
        "quantile": np.quantile(y, QUANTILES, axis=0),
        "tail": np.mean(y > 1.5, axis=0),
    }


def controlled(
    x: np.ndarray, s: np.ndarray, truth: Truth, plain: Estimates
) -> tuple[Estimates, int]:
    """Estimates with control variates of the second order where they can run, else of the first.

    There must be two draws per control variate; if there are not, the order is 0. It is 0, too, if
    `srmc.zv` refuses the draws, as those of a chain that is far from its target; the estimates
    are then the plain ones.
    """
    n, dim = x.shape
    quadratic = dim * (dim + 3) <= min(n, 2 * MOST)
    order = 2 if quadratic else 1 if 2 * dim <= n else 0
    if order == 0:
        return {}, 0
    y, pairs = (x - truth.centre) / truth.scale, np.triu_indices(dim)
    control = lambda values: srmc.zv(y, s * truth.scale, order, values).mean
    count = -(-len(pairs[0]) * n // NUMBERS)  # so that products of coordinates fit into memory
    first, *more = zip(*(np.array_split(index, count) for index in pairs), strict=True)
    product = lambda part: y[:, part[0]] * y[:, part[1]]
    try:
        found = control({"y": y, "tail": 1.0 * (y > 1.5), "products": product(first)})
        rest = [control(product(part)) for part in more]
    except ValueError:
        return {k: v for k, v in plain.items() if k != "quantile"}, 0
    mean, tail = found["y"], found["tail"]
    products = np.concatenate([found["products"], *rest]) - mean[pairs[0]] * mean[pairs[1]]
    same = pairs[0] == pairs[1]
    second = {"variance": products[same], "covariance": products[~same]}
    return {"mean": mean, "tail": tail} | second, order


class Errors:
    """Squared errors of a side, gathered over replicates."""

    def __init__(self, truth: Truth):
        self._truth = truth.values
        self._sums: Estimates = {}
        self.averages: dict[str, list[float]] = {}

    def add(self, found: Estimates) -> None:
        """Take the estimates of a replicate."""
        for name, values in found.items():
            square = (values - self._truth[name]) ** 2
            if square.size == 0:  # one coordinate has no covariances
                continue
            self._sums[name] = self._sums.get(name, 0.0) + square
            self.averages.setdefault(name, []).append(float(square.mean()))

    def row(self, plain: "Errors") -> dict[str, dict[str, float]]:
        """The errors, the largest over coordinates, and their ratios to those of plain draws."""
        out = {}
        for name, sums in self._sums.items():
            ours, theirs = (np.array(side.averages[name]) for side in (self, plain))
            out[name] = {
                "average": float(ours.mean()),
                "standard_error": float(ours.std(ddof=1) / np.sqrt(len(ours))),
                "worst": float(sums.max() / len(ours)),
                "ratio": float(ours.mean() / theirs.mean()),
                "worst_ratio": float(sums.max() / plain._sums[name].max()),
                "error": ratio_error(theirs, ours),
            }
        return out


def find_truth(posterior: Posterior, quick: bool = False, seed: int = 99) -> Truth:
    """The truth from exact draws, or else from rebalanced reference draws or a long run of NUTS."""
    chains, source = _long(posterior, quick, seed)
    x = chains.reshape(-1, posterior.dim)
    centre, scale = x.mean(axis=0), x.std(axis=0)
    half = len(chains) // 2
    found = []
    for part in (chains[:half], chains[half:]):
        moved = part
        if "rebalanced" in source:
            score, logdensity = jax.grad(posterior.logdensity_fn), posterior.logdensity_fn
            moved = srmc.rebalance(part, score, logdensity_fn=logdensity, progress=False)
        found.append(estimates(moved.reshape(-1, posterior.dim), centre, scale))
    values = {k: (found[0][k] + found[1][k]) / 2 for k in found[0]}
    errors = {
        k: float(np.mean((found[0][k] - found[1][k]) ** 2) / 4) for k in values if values[k].size
    }
    return Truth(centre, scale, values, errors, x, source)


def _long(
    posterior: Posterior, quick: bool, seed: int
) -> tuple[Float[np.ndarray, "chain draw d"], str]:
    """Many draws, and where they come from."""
    key, dim = jax.random.key(seed), posterior.dim
    if posterior.sample is not None:
        # Few coordinates can have so many draws that rebalancing them would add nothing.
        many = dim <= 10
        size = (2**17 if quick else 2**20) if many else 2**15
        draws = jax.jit(jax.vmap(posterior.sample))(jax.random.split(key, size))
        found = np.asarray(draws, float).reshape(2, -1, dim)
        return found, f"{size:,} exact draws{'' if many else ', rebalanced'}"
    if posterior.reference is not None:
        found = posterior.reference()
        return found, f"{found[..., 0].size:,} reference draws of posteriordb, rebalanced"
    num_chains = 4 if quick else 32 if dim <= 100 else 16
    length = 500 if quick else 2000 if dim <= 100 else 1000
    start_key, run_key = jax.random.split(key)
    starts = 0.1 * jax.random.normal(start_key, (num_chains, dim))
    found = rivals.run("BlackJAX NUTS", posterior, run_key, starts, 1000, length).draws
    return found, f"{num_chains} chains of {length:,} NUTS draws, rebalanced"


def starts(truth: Truth, replicates: int, seed: int) -> Float[Array, "replicate d"]:
    """Places where chains start: draws of the posterior."""
    rng = np.random.default_rng(seed)
    return jnp.asarray(truth.draws[rng.integers(0, len(truth.draws), replicates)])
