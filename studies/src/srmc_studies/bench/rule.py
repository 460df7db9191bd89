"""How much constants of tuning and rebalancing matter: errors with one halved or doubled."""

import contextlib
import functools
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from srmc.rebalance import rule as of_rebalancing
from srmc.sample.tune import rule as of_tuning
from srmc_studies.bench.cases import CASES
from srmc_studies.bench.rebalance import rebalance
from srmc_studies.bench.study import study
from srmc_studies.bench.targets import TARGETS

# Where each constant has a say: a kernel, and targets on which it acts.
WHERE: dict[str, tuple[str, tuple[str, ...]]] = {
    "ALPHA": ("nuts", ("logistic", "eight-schools", "funnel")),
    "TOLERANCE": ("nuts", ("logistic", "eight-schools", "funnel")),
    "FASTEST": ("nuts", ("logistic", "eight-schools", "funnel")),
    "COUPLED": ("nuts", ("eight-schools", "banana", "funnel")),
    "CROWDED": ("nuts", ("eight-schools", "rotated-20")),
    "HOT": ("nuts", ("eight-schools", "funnel", "student-t")),
    "HOT_AT_LEAST": ("nuts", ("eight-schools", "funnel", "student-t")),
    "RUNAWAY": ("nuts", ("eight-schools", "funnel", "student-t")),
    "CLIPPED": ("nuts", ("eight-schools", "funnel", "student-t")),
    "RIDGE": ("nuts", ("logistic", "rotated-20")),
    "NUM_BATCHES": ("nuts", ("logistic", "eight-schools", "funnel")),
    "SLOW": ("mala", ("gaussian-10", "eight-schools")),
    "FEEDBACK_COST": ("mala", ("logistic", "eight-schools")),
    "WORTH": ("mh", ("eight-schools-centred", "student-t", "mixture")),
    "THINNED": ("mh", ("eight-schools-centred", "student-t", "mixture")),
    "THINNING_TIMES": ("mh", ("eight-schools-centred", "student-t", "mixture")),
}
SMALL, LARGE = ("logistic", "eight-schools", "banana", "student-t"), ("cox-256", "ellipsoid-1000")
OF_REBALANCING = dict.fromkeys(
    ("LEVELS", "OUTERMOST", "FAR", "RIDGES", "FOLDS", "FEATURES", "SAMPLED"),
    ("nuts", SMALL),
) | {
    "ROUNDS": ("nuts", SMALL),
    "CLOSEST": ("nuts", SMALL),
    "MANY": ("nuts", LARGE),
    "LARGEST": ("nuts", LARGE),
}
WHERE |= OF_REBALANCING
FACTORS = (0.5, 1.0, 2.0)


def rule(
    names: Sequence[str] | None = None,
    *,
    replicates: int = 48,
    seed: int = 0,
    quick: bool = False,
    on_progress: Callable[..., None] = lambda *args: None,
) -> list[dict[str, Any]]:
    """Rows with errors over those of plain kernels, for each constant halved, kept and doubled.

    They are those of repelled kernels, or of rebalanced draws for constants of rebalancing.
    `quick` takes one constant on one target, with few and short runs.
    """
    names = list(names or (["TOLERANCE"] if quick else WHERE))
    unknown = [name for name in names if name not in WHERE]
    if unknown:
        raise ValueError(f"names must be among {', '.join(WHERE)}, got {unknown}")
    jobs = [
        (name, target, factor)
        for name in names
        for target in WHERE[name][1][: 1 if quick else None]
        for factor in FACTORS
    ]
    kept: dict[tuple[str, str, bool], dict[str, Any]] = {}  # with all constants unchanged
    rows = []
    with tempfile.TemporaryDirectory() as folder:  # plain runs, which serve for all constants
        for done, (name, target, factor) in enumerate(jobs):
            rebalances = name in OF_REBALANCING
            kernel = "mala" if quick and not rebalances else WHERE[name][0]
            on_progress("rule", done, len(jobs), f"{name} × {factor:g}, {kernel} on {target}")
            run = functools.partial(
                _rebalanced if rebalances else _repelled, target, kernel, replicates, seed, quick
            )
            found = kept.get((kernel, target, rebalances)) if factor == 1 else None
            if found is None:
                with _changed(name, factor):
                    found = run(Path(folder))
            if factor == 1:
                kept[kernel, target, rebalances] = found
            row = {"constant": name, "factor": factor, "kernel": kernel, "target": target}
            rows.append(row | found)
    on_progress("rule", len(jobs), len(jobs), "")
    return rows


def _repelled(
    target: str, kernel: str, replicates: int, seed: int, quick: bool, _: Path
) -> dict[str, Any]:
    case = CASES[kernel]
    if quick:
        case, replicates = case._replace(num_warmup=200, num_samples=200), 4
    found = study(TARGETS[target](), case, replicates=replicates, beside=False, seed=seed)
    return {"replicates": found["replicates"], "errors": found["errors"]["repelled"]}


def _rebalanced(
    target: str, kernel: str, replicates: int, seed: int, quick: bool, keep: Path
) -> dict[str, Any]:
    (found,) = rebalance(
        [target], [kernel], replicates=replicates, seed=seed, quick=quick, keep=keep
    )
    return {"replicates": found["replicates"], "errors": found["errors"]["rebalanced"]}


@contextlib.contextmanager
def _changed(name: str, factor: float) -> Iterator[None]:
    """The constant, multiplied for the time being."""
    constants = of_rebalancing if name in OF_REBALANCING else of_tuning
    before = getattr(constants, name)
    times = lambda value: type(value)(factor * value)
    try:
        changed = tuple(map(times, before)) if isinstance(before, tuple) else times(before)
        setattr(constants, name, changed)
        yield
    finally:
        setattr(constants, name, before)
