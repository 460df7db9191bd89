"""Samplers on posteriors: each alone, with control variates, and followed by rebalancing."""

import os
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

import srmc
from srmc.rebalance import Report
from srmc_studies.bench import rivals
from srmc_studies.bench.measures import Errors, Truth, controlled, estimates, find_truth, starts
from srmc_studies.bench.posteriors import BUILT_IN, POSTERIORDB, Posterior, find
from srmc_studies.bench.rebalance import gradient

SIZES = {"quick": (3, 300, 300), "standard": (4, 1000, 1000), "full": (16, 1000, 1000)}


def posteriors(
    names: Sequence[str] | None = None,
    samplers: Sequence[str] | None = None,
    *,
    size: str = "standard",
    path: str | os.PathLike[str] | None = None,
    seed: int = 0,
    on_progress: Callable[..., None] = lambda *args: None,
    on_row: Callable[[dict[str, Any]], None] = lambda row: None,
) -> list[dict[str, Any]]:
    """A row for each sampler on each posterior, in double precision.

    Without `names`, all posteriors whose data are found; "quick" takes one of them, and two
    samplers. `path` is that of a checkout of posteriordb. `on_row` is called with each row as soon
    as it is there.
    """
    replicates, num_warmup, num_samples = SIZES[size]
    quick = size == "quick"
    known = rivals.installed()
    chosen = list(samplers or (["BlackJAX NUTS", "adjusted MCLMC"] if quick else known))
    unknown = [name for name in chosen if name not in known]
    if unknown:
        raise ValueError(f"samplers must be among {', '.join(known)}, got {unknown}")
    asked = list(names or (["eight_schools"] if quick else (*BUILT_IN, *POSTERIORDB)))
    rows = []
    with jax.enable_x64(True):
        found = _found(asked, path, must=names is not None)
        for n, posterior in enumerate(found):
            on_progress("posteriors", n * len(chosen), len(found) * len(chosen), posterior.name)
            truth = find_truth(posterior, quick)
            for k, name in enumerate(chosen):
                done = n * len(chosen) + k
                label = f"{name} on {posterior.name}"
                on_progress("posteriors", done, len(found) * len(chosen), label)
                row = compare(posterior, truth, name, replicates, num_warmup, num_samples, seed)
                rows.append({"size": size} | row)
                on_row(rows[-1])
    on_progress("posteriors", len(found) * len(chosen), len(found) * len(chosen), "")
    return rows


def _found(
    names: Sequence[str], path: str | os.PathLike[str] | None, must: bool
) -> list[Posterior]:
    """The posteriors of these names; unless they `must` be there, those whose data are found."""
    found = []
    for name in names:
        try:
            found.append(find(name, path))
        except FileNotFoundError:
            if must:
                raise
    return found


def compare(
    posterior: Posterior,
    truth: Truth,
    sampler: str,
    replicates: int,
    num_warmup: int,
    num_samples: int,
    seed: int = 0,
) -> dict[str, Any]:
    """One sampler on one posterior: errors, gradients and seconds of all sides.

    Rebalancing takes no gradients; what its checks evaluate is in `rebalance`.
    """
    key = jax.random.key(seed)
    runs = rivals.run(
        sampler, posterior, key, starts(truth, replicates, seed), num_warmup, num_samples
    )
    length, cost = runs.draws.shape[1], float(np.mean(runs.gradients))
    sides = {side: Errors(truth) for side in ("plain", "control variates", "rebalanced")}
    seconds, lengths, spent, forms, orders = [], [], [], [], []
    for x, s in zip(runs.draws, runs.scores, strict=True):
        plain = estimates(x, truth.centre, truth.scale)
        sides["plain"].add(plain)
        began = time.perf_counter()
        with_control, order = controlled(x, s, truth, plain)
        middle = time.perf_counter()
        orders.append(order)
        sides["control variates"].add(with_control)
        moved, report = _rebalanced(posterior, x, s)
        seconds.append((middle - began, time.perf_counter() - middle))
        lengths.append(len(moved))
        sides["rebalanced"].add(estimates(moved, truth.centre, truth.scale))
        spent.append(report.cost)
        forms.append("moved" if report.moved else "none")
    control_seconds, rebalance_seconds = np.median(seconds, axis=0)
    return {
        "posterior": posterior.name,
        "about": posterior.about,
        "dim": posterior.dim,
        "sampler": sampler,
        "replicates": replicates,
        "seed": seed,
        "draws": length,
        "gradients": cost,
        "tuning_gradients": float(np.mean(runs.tuning)),
        "compile_seconds": runs.compile_seconds,
        "seconds": runs.seconds,
        "control_variates": {
            "order": max(orders),
            "refused": sum(order < max(orders) for order in orders),
            "seconds": control_seconds,
        },
        "rebalance": {
            "charged": "gradients and densities",
            "draws": float(np.mean(lengths)),
            "gradients": float(np.mean(spent)),
            "seconds": rebalance_seconds,
            "forms": {form: forms.count(form) for form in sorted(set(forms))},
        },
        "truth": {"source": truth.source, "errors": truth.errors},
        "errors": {side: errors.row(sides["plain"]) for side, errors in sides.items()},
    }


def _rebalanced(posterior: Posterior, x: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, Report]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # draws that stay as they are; the row says so
        moved, report = srmc.rebalance(
            x,
            gradient(posterior.logdensity_fn),
            scores=s,
            logdensity_fn=posterior.logdensity_fn,
            report=True,
            progress=False,
        )
    assert not isinstance(report, list)
    return moved, report
