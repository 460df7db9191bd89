"""Does repellence ever do harm? Errors relative to plain kernels at equal cost, on many targets."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import optax

from srmc_studies.bench.cases import CASES
from srmc_studies.bench.rebalance import compare, find_rebalanced_truth, plain_runs
from srmc_studies.bench.study import Alpha, find_truth, flatten, study
from srmc_studies.bench.targets import TARGETS

LARGEST = 256  # dimensions up to which all functionals are measured


def noharm(
    targets: Sequence[str] | None = None,
    kernels: Sequence[str] | None = None,
    *,
    num_chains: int = 1,
    alpha: Alpha = "auto",
    replicates: int = 64,
    seed: int = 0,
    quick: bool = False,
    on_progress: Callable[..., None] = lambda *args: None,
) -> list[dict[str, Any]]:
    """One row per kernel and target; `quick` takes one target, two kernels and short runs.

    The long runs of MH and MALA are shortened by the number of chains, at most to a tenth. For a
    single chain with alpha="auto", runs of 1,000 draws and up to 256 dimensions, the errors of all
    functionals are measured, and those of rival methods.
    """
    names = targets or (["banana"] if quick else list(TARGETS))
    kernels = kernels or (["mala", "mh"] if quick else list(CASES))
    for argument, given, known in (("targets", names, TARGETS), ("kernels", kernels, CASES)):
        unknown = [name for name in given if name not in known]
        if unknown:
            raise ValueError(f"{argument} must be among {', '.join(known)}, got {unknown}")
    rows: list[dict[str, Any]] = []
    for name in names:
        target = TARGETS[name]()
        truth = rebalanced = None
        for kernel in kernels:
            on_progress("noharm", len(rows), len(kernels) * len(names), f"{kernel} on {name}")
            case = CASES[kernel]
            if quick:
                case = case._replace(num_warmup=500, num_samples=500)
            elif case.num_samples > 1000:
                share = max(0.1, 1 / num_chains)
                case = case._replace(
                    num_warmup=max(1000, int(case.num_warmup * share)),
                    num_samples=int(case.num_samples * share),
                )
            alone = num_chains == 1 and alpha == "auto" and not quick
            if alone and case.num_samples <= 1000 and optax.tree.size(target.position) <= LARGEST:
                truth = truth or find_truth(target)
            row = study(
                target,
                case,
                replicates=4 if quick else replicates,
                num_chains=num_chains,
                alpha=alpha,
                truth=truth if case.num_samples <= 1000 else None,
                beside=alone,
                seed=seed,
            )
            if alpha == "auto":
                against = rebalanced or find_rebalanced_truth(target, quick)
                rebalanced = against
                runs = functools.partial(
                    plain_runs, flatten(target), case, num_chains, row["replicates"], seed
                )
                more = compare(target, against, case, num_chains, runs)
                row["errors"] |= {
                    "rebalanced": more["errors"]["rebalanced"],
                    "zv2 beside": more["errors"]["control variates"],
                }
                row["rebalancing_gradients"] = more["checks_per_draw"]
            rows.append({"target": name} | row)
    on_progress("noharm", len(rows), len(rows), "")
    return rows
