"""Do intervals still hold if a run ends when its own errors say so?"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import srmc
from srmc.targets import Target
from srmc_studies.bench.coverage import TARGETS, covered, offs_of
from srmc_studies.bench.rebalance import find_rebalanced_truth

FIRST = 125  # draws per chain at the first look


def stopping(
    targets: Sequence[str] | None = None,
    *,
    target_error: float = 0.02,
    replicates: int = 100,
    seed: int = 0,
    quick: bool = False,
    on_progress: Callable[..., None] = lambda *args: None,
) -> list[dict[str, Any]]:
    """Runs of `srmc.sample(target_error=)`: their lengths, coverage of 95% intervals, and errors.

    Beside them are runs of a length that was fixed beforehand: the median of those lengths.
    """
    names = targets or ["eight-schools"]
    unknown = [name for name in names if name not in TARGETS]
    if unknown:
        raise ValueError(f"targets must be among {', '.join(TARGETS)}, got {unknown}")
    replicates = 3 if quick else replicates
    rows = []
    for name in names:
        target = TARGETS[name].target()
        truth = find_rebalanced_truth(target, quick)
        sd = np.sqrt(np.asarray(truth.variance, float))

        def runs(what: str, own: Target = target, **length: Any) -> list[srmc.Result]:
            found = []
            for n in range(replicates):
                on_progress(what, n, replicates, own.name)
                found.append(srmc.sample(own, seed=seed + n, progress=False, **length))
            return found

        stopped = runs("stopping", num_samples=FIRST, target_error=target_error)
        lengths = [result.about["num_draws"] for result in stopped]
        middle = int(np.quantile(lengths, 0.5, method="nearest"))
        fixed = runs("fixed", num_samples=middle)
        row: dict[str, Any] = {"target": name, "target_error": target_error}
        row |= {"replicates": replicates, "fixed_length": middle}
        row["lengths"] = {str(n): lengths.count(n) for n in sorted(set(lengths))}
        row["reached"] = sum(result.about["looks"][-1]["met"] for result in stopped)
        for side, results in (("stopped", stopped), ("fixed", fixed)):
            summaries = [result.summary() for result in results]
            found = [offs_of(summary, truth) for summary in summaries]
            row |= {f"{side}, {k}": covered([one[k] for one in found]) for k in found[0]}
            off = [(s["mean"] - np.asarray(truth.mean, float)) / sd for s in summaries]
            row[f"{side}, error"] = float(np.max(np.sqrt(np.mean(np.square(off), axis=0))))
        rows.append(row)
    on_progress("stopping", replicates, replicates, "")
    return rows
