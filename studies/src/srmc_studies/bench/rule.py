"""How much the constants of the tuning matter: errors with one of them halved or doubled."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from srmc.sample.tune import rule as constants
from srmc_studies.bench.cases import CASES
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
FACTORS = (0.5, 1.0, 2.0)


def rule(
    names: Sequence[str] | None = None,
    *,
    replicates: int = 48,
    seed: int = 0,
    quick: bool = False,
    on_progress: Callable[..., None] = lambda *args: None,
) -> list[dict[str, Any]]:
    """Rows with errors of repelled over plain kernels, for each constant halved, kept and doubled.

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
    kept: dict[tuple[str, str], dict[str, Any]] = {}  # with all constants as they are
    rows = []
    for done, (name, target, factor) in enumerate(jobs):
        kernel = "mala" if quick else WHERE[name][0]
        on_progress("rule", done, len(jobs), f"{name} × {factor:g}, {kernel} on {target}")
        found = kept.get((kernel, target)) if factor == 1 else None
        if found is None:
            case = CASES[kernel]
            if quick:
                case = case._replace(num_warmup=200, num_samples=200)
            with _changed(name, factor):
                found = study(
                    TARGETS[target](),
                    case,
                    replicates=4 if quick else replicates,
                    beside=False,
                    seed=seed,
                )
        if factor == 1:
            kept[kernel, target] = found
        rows.append(
            {
                "constant": name,
                "factor": factor,
                "kernel": kernel,
                "target": target,
                "replicates": found["replicates"],
                "errors": found["errors"]["repelled"],
            }
        )
    on_progress("rule", len(jobs), len(jobs), "")
    return rows


@contextlib.contextmanager
def _changed(name: str, factor: float) -> Iterator[None]:
    """The constant, multiplied for the time being."""
    before = getattr(constants, name)
    try:
        setattr(constants, name, type(before)(factor * before))
        yield
    finally:
        setattr(constants, name, before)
