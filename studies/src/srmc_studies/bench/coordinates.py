"""Learned coordinates against plain ones and other samplers, with all gradients counted."""

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import srmc
from srmc.types import Array, Float
from srmc_studies.bench import rivals
from srmc_studies.bench.errors import QUANTILES, ratio_error
from srmc_studies.bench.posteriors import Posterior, find
from srmc_studies.bench.posteriors.base import of_target
from srmc_studies.bench.posteriors.hierarchies import hierarchy, radon, twisted

FUNCTIONALS = ("mean", "variance", "quantile", "tail")
CHAINS = 4


class Case(NamedTuple):
    """A posterior, and the functions of its coordinates whose moments are compared.

    control
        Whether it is near a Gaussian, where learned coordinates should change nothing.
    """

    posterior: Callable[[], Posterior]
    view: Callable[[np.ndarray], np.ndarray] = lambda x: x
    control: bool = False


def _logs(x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """The neck of a funnel, and the logarithms of the others, whose variances are too large."""
    return np.concatenate([x[:, :1], np.log(np.abs(x[:, 1:]) + 1e-300)], axis=1)


def _funnel(dim: int) -> Case:
    return Case(lambda: of_target(f"funnel-{dim}", srmc.targets.funnel(dim)), _logs)


CASES = {
    "funnel-5": _funnel(5),
    "funnel-10": _funnel(10),
    "funnel-100": _funnel(100),
    "banana": Case(lambda: find("banana")),
    "twisted-2": Case(lambda: twisted(2)),
    "twisted-10": Case(lambda: twisted(10)),
    "eight-schools-centred": Case(lambda: find("eight_schools_centred")),
    "radon-centred": Case(radon),
    "hierarchy-48": Case(hierarchy),
    "brownian-motion": Case(lambda: find("brownian_motion")),
    "german-credit-sparse": Case(lambda: find("german_credit_sparse_simulated")),
    "item-response": Case(lambda: find("item_response")),
    "logistic": Case(lambda: of_target("logistic", srmc.targets.logistic()), control=True),
    "gaussian-100": Case(lambda: find("gaussian-100"), control=True),
    "eight-schools": Case(lambda: find("eight_schools"), control=True),
}
RIVALS = ("BlackJAX NUTS", "NumPyro NUTS", "nutpie", "nutpie, low rank")


class Size(NamedTuple):
    """How many replicates, steps of warm-up and draws per chain; and the seed."""

    replicates: int = 32
    warmup: int = 1000
    draws: int = 500
    seed: int = 0


class Truth(NamedTuple):
    """Moments of the view, and quantiles and tails of the coordinates, in units of their scales."""

    mean: Float[np.ndarray, " d"]
    sd: Float[np.ndarray, " d"]
    quantile: Float[np.ndarray, "q d"]
    scale: Float[np.ndarray, " d"]
    far: Float[np.ndarray, " d"]
    draws: Float[np.ndarray, "draw d"]
    source: str


class Run(NamedTuple):
    """Draws of one replicate, pooled, by side; all gradients, and seconds of the processor."""

    draws: dict[str, Float[np.ndarray, "draw d"]]
    gradients: float
    seconds: float
    divergences: int | None = None


def coordinates(
    targets: Sequence[str] | None = None,
    *,
    size: Size | None = None,
    quick: bool = False,
    on_progress: Callable[..., None] = lambda *args: None,
    on_row: Callable[[dict[str, Any]], None] = lambda row: None,
) -> list[dict[str, Any]]:
    """A row for each sampler on each target, four chains each, in double precision."""
    names = list(targets or (["banana"] if quick else CASES))
    unknown = [name for name in names if name not in CASES]
    if unknown:
        raise ValueError(f"targets must be among {', '.join(CASES)}, got {unknown}")
    size = Size(2, 200, 100) if quick else size or Size()
    others = RIVALS[:1] if quick else [name for name in RIVALS if name in rivals.installed()]
    sides = [*others, "srmc, plain", "srmc, auto"]
    rows = []
    with jax.enable_x64(True):
        for n, name in enumerate(names):
            case = CASES[name]
            posterior = case.posterior()
            truth = find_truth(posterior, case.view, quick)
            for k, side in enumerate(sides):
                done = n * len(sides) + k
                on_progress("coordinates", done, len(names) * len(sides), f"{side} on {name}")
                own = _ours if side.startswith("srmc") else _theirs
                compiling, runs = own(side, posterior, truth, size)
                row = {"target": name, "sampler": side, "dim": posterior.dim}
                row |= {"control": case.control, "truth": truth.source}
                row |= size._asdict() | {"compile_seconds": compiling}
                rows.append(row | _measured(runs, case.view, truth))
                on_row(rows[-1])
    on_progress("coordinates", len(names) * len(sides), len(names) * len(sides), "")
    return rows


def find_truth(
    posterior: Posterior, view: Callable[[np.ndarray], np.ndarray], quick: bool = False
) -> Truth:
    """The truth from exact draws, from references, or from a long run in learned coordinates."""
    if posterior.sample is not None:
        size = 2**14 if quick else 2**20 if posterior.dim <= 10 else 2**17
        keys = jax.random.split(jax.random.key(99), size)
        x, source = np.asarray(jax.jit(jax.vmap(posterior.sample))(keys)), f"{size:,} exact draws"
    elif posterior.reference is not None:
        chains = posterior.reference()
        x = chains.reshape(-1, posterior.dim)
        source = f"{len(x):,} draws of a form that is easier to sample"
    else:
        length = 100 if quick else 5000
        result = _sample(posterior, jnp.zeros((8, posterior.dim)), "auto", 2000, length, 99)
        x = np.asarray(result.draws["x"]).reshape(-1, posterior.dim)
        source = f"{len(x):,} draws of srmc.sample, rebalanced"
    seen = view(x)
    quantile = np.quantile(x, QUANTILES, axis=0)
    scale = (quantile[3] - quantile[1]) / 1.349
    far = np.quantile(x, TAIL, axis=0)
    return Truth(*(seen.mean(axis=0), seen.std(axis=0), quantile, scale, far, x[:100_000], source))


TAIL = 0.9331927987311419  # the normal probability below 1.5 standard deviations


def squared_errors(
    x: Float[np.ndarray, "n d"], view: Callable[[np.ndarray], np.ndarray], truth: Truth
) -> dict[str, float]:
    """Squared errors averaged over coordinates, in units of the truth's scales."""
    y = (view(x) - truth.mean) / truth.sd
    off = (np.quantile(x, QUANTILES, axis=0) - truth.quantile) / truth.scale
    return {
        "mean": float(np.mean(y.mean(axis=0) ** 2)),
        "variance": float(np.mean((y.var(axis=0) - 1) ** 2)),
        "quantile": float(np.mean(off**2)),
        "tail": float(np.mean((np.mean(x > truth.far, axis=0) - (1 - TAIL)) ** 2)),
    }


def _theirs(
    name: str, posterior: Posterior, truth: Truth, size: Size
) -> tuple[float, Iterator[Run]]:
    """Four chains of another sampler for each replicate."""
    starts = _starts(truth, CHAINS * size.replicates, size.seed)
    key = jax.random.key(size.seed)
    runs = rivals.run(
        name, posterior, key, starts, size.warmup, size.draws, clock=time.process_time
    )

    def each() -> Iterator[Run]:
        for n in range(size.replicates):
            own = slice(CHAINS * n, CHAINS * (n + 1))
            gradients = float(np.sum(runs.tuning[own]) + np.sum(runs.gradients[own]))
            x = runs.draws[own].reshape(-1, posterior.dim)
            yield Run({"draws": x}, gradients, CHAINS * runs.seconds)

    return runs.compile_seconds, each()


def _ours(name: str, posterior: Posterior, truth: Truth, size: Size) -> tuple[float, Iterator[Run]]:
    """`srmc.sample`; its plain chain and its rebalanced draws are two sides of one run."""
    starts = _starts(truth, CHAINS * size.replicates, size.seed)
    starts = starts.reshape(size.replicates, CHAINS, -1)
    way = name.removeprefix("srmc, ")

    def one(n: int) -> Run:
        began = time.process_time()
        result = _sample(posterior, starts[n], way, size.warmup, size.draws, size.seed + n)
        seconds = time.process_time() - began
        flat = lambda x: np.asarray(x["x"]).reshape(-1, posterior.dim)
        base = result.base if result.base is not None else result.draws
        stats = result.stats
        gradients = result.about["gradients_of_warmup"] + np.sum(stats["gradients"])
        gradients += sum(report.cost for report in result.rebalancing)
        sides = {"draws": flat(base), "rebalanced": flat(result.draws)}
        return Run(sides, float(gradients), seconds, int(np.sum(stats["diverging"])))

    first, again = one(0), one(0)  # the first one compiles

    def each() -> Iterator[Run]:
        yield again
        for n in range(1, size.replicates):
            yield one(n)

    return max(0.0, first.seconds - again.seconds), each()


def _sample(
    posterior: Posterior, starts: Array, way: str, num_warmup: int, num_samples: int, seed: int
) -> srmc.Result:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # divergences are counted, and errors tell the rest
        return srmc.sample(
            posterior.logdensity_fn,
            initial_position=list(starts),
            num_chains=len(starts),
            num_warmup=num_warmup,
            num_samples=num_samples,
            coordinates=way,
            seed=seed,
            progress=False,
        )


def _starts(truth: Truth, count: int, seed: int) -> Float[Array, "n d"]:
    """Draws of the posterior."""
    rng = np.random.default_rng(seed)
    return jnp.asarray(truth.draws[rng.integers(0, len(truth.draws), count)])


def _measured(
    runs: Iterator[Run], view: Callable[[np.ndarray], np.ndarray], truth: Truth
) -> dict[str, Any]:
    """Errors of all replicates by side, and means of what was spent."""
    errors: dict[str, dict[str, list[float]]] = {}
    spent = []
    for run in runs:
        for side, x in run.draws.items():
            for name, value in squared_errors(x, view, truth).items():
                errors.setdefault(side, {}).setdefault(name, []).append(value)
        spent.append((run.gradients, run.seconds, run.divergences))
    gradients, seconds, divergences = zip(*spent, strict=True)
    counted = [count for count in divergences if count is not None]
    return {
        "gradients": float(np.mean(gradients)),
        "seconds": float(np.median(seconds)),
        "divergences": sum(counted) if counted else None,
        "errors": errors,
    }


def against(
    ours: dict[str, Any], side: str, theirs: dict[str, Any], name: str, per: str
) -> tuple[float, float]:
    """The ratio of squared errors times what was spent, and its standard error."""
    mine = np.array(ours["errors"][side][name])
    other = np.array(theirs["errors"]["draws"][name])
    factor = spent(ours, per) / spent(theirs, per)
    return float(factor * mine.mean() / other.mean()), float(factor * ratio_error(other, mine))


def spent(row: dict[str, Any], per: str) -> float:
    """Gradients, seconds without compilation, or seconds with it."""
    if per == "first call":
        return float(row["seconds"] + row["compile_seconds"])
    return float(row[per])
