"""What rebalancing adds to plain draws: errors on the same draws, which cost no more gradients."""

import functools
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import srmc
from srmc.rebalance import Report
from srmc.sample import in_order
from srmc.targets import Target
from srmc.types import Array, Float, PRNGKey
from srmc_studies.bench.errors import QUANTILES, Truth, control_variate_errors, ratio_error
from srmc_studies.bench.study import Case, Flat, Replicate, flatten
from srmc_studies.bench.targets import TARGETS

# The same function for the same density, so that it is compiled once.
gradient = functools.lru_cache(8)(jax.grad)


def rebalance(
    targets: Sequence[str] | None = None,
    kernels: Sequence[str] | None = None,
    *,
    num_chains: int = 1,
    num_samples: int = 1000,
    replicates: int = 48,
    seed: int = 0,
    quick: bool = False,
    keep: Path | None = None,
    on_progress: Callable[..., None] = lambda *args: None,
) -> list[dict[str, Any]]:
    """Rows for each kernel on each target; `quick` takes one of each, with few and short runs.

    Truths and plain runs are taken from the folder `keep` if they are there, and else put there.
    """
    names = list(targets or (["gaussian-10"] if quick else TARGETS))
    unknown = [name for name in names if name not in TARGETS]
    if unknown:
        raise ValueError(f"targets must be among {', '.join(TARGETS)}, got {unknown}")
    if keep is not None and not keep.is_dir():
        raise ValueError(f"keep must be an existing folder, got {keep}")
    jobs = [(name, kernel) for name in names for kernel in kernels or ["nuts"]]
    rows = []
    for done, (name, kernel) in enumerate(jobs):
        on_progress("rebalance", done, len(jobs), f"{kernel} on {name}")
        alone = kernel in ("mala", "mh", "ula") and num_chains == 1
        case = Case(
            kernel, 500 if quick else 5000 if alone else 1000, 200 if quick else num_samples
        )
        target, count = TARGETS[name](), 4 if quick else replicates
        size = f"{case.num_warmup}+{case.num_samples}-x{num_chains}x{count}-seed{seed}"
        find = functools.partial(find_rebalanced_truth, target, quick)
        truth = _kept_truth(keep, f"truth-{name}{'-quick' * quick}", find)
        make = functools.partial(plain_runs, flatten(target), case, num_chains, count, seed)
        runs = functools.partial(_kept_runs, keep, f"{name}-{kernel}-{size}", make)
        row = compare(target, truth, case, num_chains, runs)
        row |= {"replicates": count, "seed": seed}
        rows.append({"target": name} | row)
    on_progress("rebalance", len(jobs), len(jobs), "")
    return rows


Runs = Iterator[tuple[np.ndarray, np.ndarray, float]]  # draws, scores, and gradients per chain


def _kept_truth(folder: Path | None, name: str, find: Callable[[], Truth]) -> Truth:
    """The truth, from a file in the folder if there is one."""
    if folder is None:
        return find()
    found = _kept(folder / f"{name}.npz", lambda: find()._asdict())
    return Truth(**{key: jnp.asarray(value) for key, value in found.items()})


def _kept_runs(folder: Path | None, name: str, make: Callable[[], Runs]) -> Runs:
    """The runs, from a file in the folder if there is one."""
    if folder is None:
        yield from make()
        return
    names = ("x", "s", "cost")
    joined = lambda: dict(zip(names, map(np.array, zip(*make(), strict=True)), strict=True))
    found = _kept(folder / f"{name}.npz", joined)
    for x, s, cost in zip(*(found[key] for key in names), strict=True):
        yield x, s, float(cost)


def _kept(path: Path, find: Callable[[], dict[str, Any]]) -> dict[str, np.ndarray]:
    """Arrays from a file, or else found now and put there; a file is whole or not there."""
    if not path.exists():
        unfinished = path.with_suffix(".tmp.npz")
        np.savez(unfinished, **find())
        unfinished.replace(path)
    with np.load(path) as file:
        return dict(file)


def compare(
    target: Target, truth: Truth, case: Case, num_chains: int, runs: Callable[[], Runs]
) -> dict[str, Any]:
    """Plain draws of one kernel, rebalanced, reweighted, and with control variates."""
    flat = flatten(target)
    errors, reports = dict[str, list[dict[str, float]]](), []
    costs = []
    for x, s, cost in runs():
        moved, report = rebalanced(flat, x, s)
        sides = {
            "plain": _errors(x, truth),
            "rebalanced": _errors(moved, truth),
            "reweighted": _weighted_errors(x, _weights(x, s), truth),
            "control variates": _controlled(x, s, truth),
        }
        for side, found in sides.items():
            errors.setdefault(side, []).append(found)
        reports.append(report)
        costs.append(cost)
    by_name = {
        side: {k: np.array([one[k] for one in found]) for k in found[0]}
        for side, found in errors.items()
    }
    checks = np.mean([r.cost for r in reports]) / (num_chains * case.num_samples)
    choices: dict[str, Counter[str]] = {}
    for r in reports:
        for kind, counts in r.chosen.items():
            choices.setdefault(kind, Counter()).update(counts)
    return {
        "kernel": case.kernel,
        "chains": num_chains,
        "draws": case.num_samples,
        "dim": flat.mean.size,
        "gradients_per_draw": float(np.mean(costs)) / case.num_samples,
        "checks_per_draw": float(checks),
        "moved": sum(r.moved for r in reports),
        "chosen": {kind: dict(found.most_common()) for kind, found in choices.items()},
        "failed_checks": sum(any(f.failed for f in r.findings) for r in reports),
        "errors": {
            side: {k: _against(by_name["plain"][k], e) for k, e in found.items()}
            for side, found in by_name.items()
        },
    }


def _weights(x: np.ndarray, s: np.ndarray) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few draws, which is what is measured here
        return srmc.reweight(x, s)


def _against(plain: np.ndarray, e: np.ndarray) -> dict[str, float]:
    return {"ratio": float(e.mean() / plain.mean()), "error": ratio_error(plain, e)}


def rebalanced(flat: Flat, x: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, Report]:
    """The draws of a run, rebalanced as by `srmc.sample`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what stayed as it was is in the report
        moved, report = srmc.rebalance(
            x,
            gradient(flat.logdensity_fn),
            scores=s,
            logdensity_fn=flat.logdensity_fn,
            report=True,
            progress=False,
        )
    assert not isinstance(report, list)
    return moved, report


def plain_runs(flat: Flat, case: Case, num_chains: int, replicates: int, seed: int) -> Runs:
    """Draws and scores (chain, draw, d) of tuned plain chains, and the gradients per chain."""
    replicate = Replicate(flat, case, num_chains)

    def one(key: PRNGKey) -> tuple[Array, Array, Array]:
        ran = replicate.run(*replicate.tune(key, 0.0), {"alpha": 0.0})
        return jnp.swapaxes(ran.draws, 0, 1), jnp.swapaxes(ran.scores, 0, 1), jnp.sum(ran.cost)

    batch = min(8, replicates)
    program = jax.jit(
        lambda keys: jax.lax.map(one, keys, batch_size=batch),
        compiler_options=in_order(),
    )
    scored = jax.jit(jax.vmap(jax.vmap(jax.vmap(jax.grad(flat.logdensity_fn)))))
    keys = jax.random.split(jax.random.key(seed), replicates)
    for first in range(0, replicates, batch):  # as many as fit into memory
        draws, scores, cost = program(keys[first : first + batch])
        if case.kernel == "mh":
            scores = scored(draws)
        for x, s, spent in zip(*map(np.asarray, (draws, scores, cost)), strict=True):
            yield x, s, float(spent)


def find_rebalanced_truth(target: Target, quick: bool = False) -> Truth:
    """Exact moments where they are known in closed form; the rest from a long rebalanced run.

    Its errors are some hundred times below those of a run of 1,000 draws, and where exact draws
    can be had these take its place.
    """
    flat = flatten(target)
    key, dim = jax.random.key(99), flat.mean.size
    if target.sample is not None:
        size = min(2**18 if quick else 2**20, 2**26 // dim)
        draws = jax.jit(jax.vmap(flat.start))(jax.random.split(key, size))
        return Truth.of(draws, flat.mean, flat.variance)
    case = Case("nuts", 300, 250) if quick else Case("nuts", 1000, 4000)
    replicate = Replicate(flat, case, 16)
    plain = lambda key: replicate.run(*replicate.tune(key, 0.0), {"alpha": 0.0}).draws
    found = np.asarray(jax.jit(plain, compiler_options=in_order())(key))
    moved = srmc.rebalance(
        np.swapaxes(found, 0, 1),
        gradient(flat.logdensity_fn),
        logdensity_fn=flat.logdensity_fn,
        progress=False,
    ).reshape(-1, dim)
    mean, variance = (jnp.asarray(f(moved.astype(float), axis=0)) for f in (np.mean, np.var))
    return Truth.of(jnp.asarray(moved), mean, variance)


def _errors(x: np.ndarray, truth: Truth) -> dict[str, float]:
    """Squared errors in units of the target's variances, with all draws of equal weight."""
    return _weighted_errors(x, np.full(x.shape[:2], 1 / x[..., 0].size), truth)


def _controlled(x: np.ndarray, s: np.ndarray, truth: Truth) -> dict[str, float]:
    found = control_variate_errors(jnp.asarray(x), jnp.asarray(s), 2, truth)
    return {k: float(v) for k, v in found.items()}


def _weighted_errors(
    x: np.ndarray, weights: Float[np.ndarray, "chain draw"], truth: Truth
) -> dict[str, float]:
    x, weights = x.reshape(-1, x.shape[2]).astype(float), weights.ravel()
    sd = np.sqrt(np.asarray(truth.variance, float))
    y = (x - np.asarray(truth.mean)) / sd
    second = (weights[:, None] * y).T @ y
    quantiles = srmc.metrics.weighted_quantile(x, weights, QUANTILES)
    off = np.diag(second) - 1
    return {
        "mean": float(np.mean((weights @ y) ** 2)),
        "second": float(np.mean(off**2)),
        "radius": float(np.mean(off) ** 2),
        "covariance": float(np.mean((second - np.asarray(truth.correlation)) ** 2)),
        "quantile": float(np.mean(((quantiles - np.asarray(truth.quantiles)) / sd) ** 2)),
        "tail": float(np.mean((weights @ (y > 1.5) - np.asarray(truth.tail)) ** 2)),
    }
