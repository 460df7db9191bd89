"""What rebalancing adds to plain NUTS: errors on the same draws, and at equal cost."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import srmc
from srmc._types import Array, Float, PRNGKey
from srmc.bench.errors import Truth, control_variate_errors, errors_of, ratio_error
from srmc.bench.noharm import TARGETS
from srmc.bench.study import Case, Flat, Replicate, flatten
from srmc.targets import Target

COST = 8  # gradients per draw that rebalancing takes at most, where the kernel's scores are kept


def rebalance(
    targets: Sequence[str] | None = None,
    kernels: Sequence[str] | None = None,
    *,
    num_samples: int = 1000,
    replicates: int = 48,
    seed: int = 0,
    quick: bool = False,
    on_progress: Callable[..., None] = lambda *args: None,
) -> list[dict[str, Any]]:
    """Rows for each kernel on each target; `quick` takes one of each, with few and short runs."""
    names = list(targets or (["logistic"] if quick else TARGETS))
    unknown = [name for name in names if name not in TARGETS]
    if unknown:
        raise ValueError(f"targets must be among {', '.join(TARGETS)}, got {unknown}")
    jobs = [(name, kernel) for name in names for kernel in kernels or ["nuts"]]
    rows = []
    for done, (name, kernel) in enumerate(jobs):
        on_progress("rebalance", done, len(jobs), f"{kernel} on {name}")
        case = Case(kernel, 500 if quick else 1000, 200 if quick else num_samples)
        row = compare(TARGETS[name](), case, 4 if quick else replicates, seed, quick)
        rows.append({"target": name} | row)
    on_progress("rebalance", len(jobs), len(jobs), "")
    return rows


def compare(
    target: Target, case: Case, replicates: int, seed: int = 0, quick: bool = False
) -> dict[str, Any]:
    """Plain draws of one kernel, rebalanced, reweighted, and with control variates."""
    flat = flatten(target)
    truth = _truth(target, flat, quick)
    draws, scores, cost = _plain_runs(flat, case, replicates, seed)
    score, errors = jax.grad(flat.logdensity_fn), dict[str, list[dict[str, float]]]()
    per_draw = float(np.mean(cost)) / case.num_samples
    affordable = max(20, int(case.num_samples * per_draw / (per_draw + COST)))
    reports = []
    for x, s in zip(draws, scores, strict=True):
        out, report = _rebalanced(flat, score, x, s)
        reports.append(report)
        less, _ = _rebalanced(flat, score, x[:affordable], s[:affordable])
        sides = {
            "plain": _errors(x, truth),
            "rebalanced": _errors(out, truth),
            "rebalanced, equal cost": _errors(less, truth),
            "reweighted": _weighted_errors(x, srmc.reweight(x, s), truth),
            "control variates": _controlled(x, s, truth),
        }
        for side, found in sides.items():
            errors.setdefault(side, []).append(found)
    by_name = {
        side: {k: np.array([one[k] for one in found]) for k in found[0]}
        for side, found in errors.items()
    }
    return {
        "kernel": case.kernel,
        "draws": case.num_samples,
        "replicates": replicates,
        "seed": seed,
        "dim": flat.mean.size,
        "gradients_per_draw": per_draw,
        "rebalancing_gradients_per_draw": float(
            np.mean([r.gradients for r in reports]) / case.num_samples
        ),
        "forms": {f: sum(r.form == f for r in reports) for f in {r.form for r in reports}},
        "failed_checks": sum(any(f.failed for f in r.findings) for r in reports),
        "errors": {
            side: {
                k: {
                    "ratio": float(e.mean() / by_name["plain"][k].mean()),
                    "error": ratio_error(by_name["plain"][k], e),
                }
                for k, e in found.items()
            }
            for side, found in by_name.items()
        },
    }


def _rebalanced(flat: Flat, score: Any, x: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, Any]:
    return srmc.rebalance(
        x, score, scores=s, logdensity_fn=flat.logdensity_fn, report=True, progress=False
    )


def _plain_runs(
    flat: Flat, case: Case, replicates: int, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draws and scores (replicate, draw, d) of tuned plain chains, and the cost of each run."""
    replicate = Replicate(flat, case, 1)

    def one(key: PRNGKey) -> tuple[Array, Array, Array]:
        ran = replicate.run(*replicate.tune(key, 0.0), {"alpha": 0.0})
        return ran.draws[:, 0], ran.scores[:, 0], jnp.sum(ran.cost)

    program = jax.jit(
        lambda keys: jax.lax.map(one, keys, batch_size=min(8, replicates)),
        compiler_options=srmc.run.in_order(),
    )
    draws, scores, cost = program(jax.random.split(jax.random.key(seed), replicates))
    if case.kernel == "mh":
        scores = jax.jit(jax.vmap(jax.vmap(jax.grad(flat.logdensity_fn))))(draws)
    return np.asarray(draws), np.asarray(scores), np.asarray(cost)


def _truth(target: Target, flat: Flat, quick: bool) -> Truth:
    """Exact moments where they are known in closed form; the rest from a long rebalanced run.

    Its errors are some hundred times below those of a run of 1,000 draws, and where exact draws
    can be had these take its place.
    """
    key, dim = jax.random.key(99), flat.mean.size
    if target.sample is not None:
        size = min(2**18 if quick else 2**20, 2**26 // dim)
        draws = jax.jit(jax.vmap(flat.start))(jax.random.split(key, size))
        return Truth.of(draws, flat.mean, flat.variance)
    replicate = Replicate(flat, Case("nuts", 1000, 500 if quick else 4000), 64)
    plain = lambda key: replicate.run(*replicate.tune(key, 0.0), {"alpha": 0.0}).draws
    found = np.asarray(jax.jit(plain, compiler_options=srmc.run.in_order())(key))
    moved = srmc.rebalance(
        np.swapaxes(found, 0, 1), jax.grad(flat.logdensity_fn), progress=False
    ).reshape(-1, dim)
    mean, variance = (jnp.asarray(f(moved.astype(float), axis=0)) for f in (np.mean, np.var))
    return Truth.of(jnp.asarray(moved), mean, variance)


def _errors(x: np.ndarray, truth: Truth) -> dict[str, float]:
    found = errors_of(jnp.asarray(x)[:, None], jnp.ones(len(x), bool), truth)
    return {k: float(v) for k, v in found.items()}


def _controlled(x: np.ndarray, s: np.ndarray, truth: Truth) -> dict[str, float]:
    found = control_variate_errors(jnp.asarray(x)[:, None], jnp.asarray(s)[:, None], 2, truth)
    return {k: float(v) for k, v in found.items()}


def _weighted_errors(
    x: np.ndarray, weights: Float[np.ndarray, " draw"], truth: Truth
) -> dict[str, float]:
    sd = np.sqrt(np.asarray(truth.variance, float))
    y = (x - np.asarray(truth.mean)) / sd
    second = (weights[:, None] * y).T @ y
    quantiles = srmc.metrics.weighted_quantile(x, weights, (0.05, 0.25, 0.5, 0.75, 0.95))
    off = np.diag(second) - 1
    return {
        "mean": float(np.mean((weights @ y) ** 2)),
        "second": float(np.mean(off**2)),
        "radius": float(np.mean(off) ** 2),
        "covariance": float(np.mean((second - np.asarray(truth.correlation)) ** 2)),
        "quantile": float(np.mean(((quantiles - np.asarray(truth.quantiles)) / sd) ** 2)),
        "tail": float(np.mean((weights @ (y > 1.5) - np.asarray(truth.tail)) ** 2)),
    }
