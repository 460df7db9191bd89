"""Long and large runs, each in a process of its own: how long they take, and how much memory."""

import functools
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import srmc

QUICK = 50  # how much smaller the quick sizes are
Steps = Iterator[tuple[str, Callable[[], Any]]]


def soak(
    cases: list[str] | None = None,
    quick: bool = False,
    on_progress: Callable[..., None] = lambda *args: None,
) -> list[dict[str, Any]]:
    """Seconds of each step of each case, and the peak memory of the process after it, in MB.

    A case that fails has a row that says so.
    """
    if unknown := [case for case in cases or () if case not in CASES]:
        raise ValueError(f"case must be one of {', '.join(CASES)}, got {unknown[0]!r}")
    asked = cases or list(CASES)
    rows: list[dict[str, Any]] = []
    spawn = multiprocessing.get_context("spawn")
    for done, case in enumerate(asked):
        on_progress("soak", done, len(asked), case)
        with ProcessPoolExecutor(1, mp_context=spawn) as pool:
            try:
                rows += pool.submit(_rows, case, quick).result()
            except BrokenExecutor:  # the system ended the process, which used too much memory
                rows.append(_row(case, "failed", (np.nan, np.nan), np.nan, "the process died"))
    on_progress("soak", len(asked), len(asked), "")
    return rows


def _rows(case: str, quick: bool) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        steps = CASES[case](Path(folder), QUICK if quick else 1)
        while True:
            try:
                step = next(steps, None)
                if step is None:
                    return rows
                name, action = step
                began = _clocks()
                action()
                seconds, failed = _clocks() - began, ""
            except Exception as error:  # a row of the table
                name, seconds, failed = "failed", 2 * [np.nan], f"{type(error).__name__}: {error}"
            rows.append(_row(case, name, seconds, _megabytes(), failed))
            if failed:
                return rows


def _row(case: str, step: str, seconds: Any, peak: float, failed: str) -> dict[str, Any]:
    wall, processor = map(float, seconds)
    return {
        "case": case,
        "step": step,
        "seconds": wall,
        "processor_seconds": processor,
        "peak": peak,
        "failed": failed,
    }


def _clocks() -> np.ndarray:
    """Wall time, and processor time of this process."""
    return np.array([time.perf_counter(), time.process_time()])


def _megabytes() -> float:
    """The largest memory of this process until now."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def _run(folder: Path, dim: int, num_samples: int, **options: Any) -> Steps:
    """A run with a checkpoint, and all that is made of its result."""
    found: list[srmc.Result] = []
    target = srmc.targets.gaussian(dim, 0.5)

    def sample() -> None:
        found.append(
            srmc.sample(
                target,
                num_samples=num_samples,
                progress=False,
                checkpoint=folder / "run",
                **{"num_warmup": 500} | options,
            )
        )

    yield "sample, with a checkpoint", sample
    (result,) = found
    yield "summary", result.summary
    yield "page", lambda: result.report(folder / "run.html")
    yield "save", lambda: result.save(folder / "result.nc")
    yield "load", lambda: srmc.load(folder / "result.nc")


def _long(folder: Path, smaller: int) -> Steps:
    return _run(folder, 10, 250_000 // smaller)


def _wide(folder: Path, smaller: int) -> Steps:
    return _run(folder, 1000 // smaller, 2500 // smaller)


def _chains(folder: Path, smaller: int) -> Steps:
    return _run(folder, 10, 100, num_chains=1000 // smaller)


def _chunks(folder: Path, smaller: int) -> Steps:
    """As many commits as a run of 12 hours makes, one every 5 seconds."""
    options = {"checkpoint_seconds": 1e-9, "kernel": "mala", "num_warmup": 200}
    return _run(folder, 10, 8640 // smaller, **options)


def _moments(folder: Path, smaller: int) -> Steps:
    dim = 100_000 // smaller

    def sample() -> None:
        start = np.zeros(dim, np.float32)
        srmc.sample(
            _squares,
            kernel="mala",
            initial_position=start,
            num_warmup=300,
            num_samples=1000 // smaller,
            keep="moments",
            progress=False,
        ).summary()

    yield f"moments of {dim:,} coordinates", sample


def _models(folder: Path, smaller: int) -> Steps:
    """Different models in one process, whose memory must not grow with their number."""
    for first in range(0, 200 // min(smaller, 10), 20):
        yield f"models {first + 1} to {first + 20}", functools.partial(_sample_models, first)


def _sample_models(first: int) -> None:
    for n in range(first, first + 20):
        srmc.sample(
            lambda x, n=n: -0.5 * jnp.sum(x**2) - 0.01 * n * jnp.sum(jnp.cosh(x / (n + 1))),
            kernel="mala",
            initial_position=np.zeros(3, np.float32),
            num_warmup=100,
            num_samples=50,
            progress=False,
        )


def _squares(x: Any) -> Any:
    return -0.5 * jnp.sum(x**2)


CASES: dict[str, Callable[[Path, int], Steps]] = {
    "1,000,000 draws of 10": _long,
    "10,000 draws of 1,000": _wide,
    "1,000 chains": _chains,
    "8,640 commits": _chunks,
    "moments": _moments,
    "200 models": _models,
}
