"""Do the 95% intervals of a result contain the truth 95% of the time?"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

import srmc
from srmc._types import Array, PRNGKey
from srmc.bench.study import flatten
from srmc.metrics import batch_means_error, repelled_error
from srmc.targets import Target
from srmc.tune import Continuous

TARGETS: dict[str, Callable[[], Target]] = {
    "gaussian-10": lambda: srmc.targets.gaussian(10),
    "logistic": srmc.targets.logistic,
    "eight-schools": srmc.targets.eight_schools,
    "student-t": srmc.targets.student_t,
}


def coverage(
    targets: Sequence[str] | None = None,
    kernels: Sequence[str] | None = None,
    *,
    replicates: int = 500,
    chains: int = 4,
    num_samples: int = 1000,
    seed: int = 0,
    quick: bool = False,
    on_progress: Callable[..., None] = lambda *args: None,
) -> list[dict[str, Any]]:
    """The coverage of 95% intervals for means, in runs tuned as `srmc.sample` tunes them."""
    names = targets or (["logistic"] if quick else list(TARGETS))
    kernels = kernels or (["mala"] if quick else ["nuts"])
    unknown = [name for name in names if name not in TARGETS]
    if unknown:
        raise ValueError(f"targets must be among {', '.join(TARGETS)}, got {unknown}")
    tuners = [Continuous(name) for name in kernels]  # which name what they do not know
    if quick:
        replicates = 12
    rows: list[dict[str, Any]] = []
    for name in names:
        for tuner in tuners:
            total = len(names) * len(tuners)
            on_progress("coverage", len(rows), total, f"{tuner.kernel} on {name}")
            row = _row(TARGETS[name](), tuner, replicates, chains, num_samples, seed)
            rows.append({"target": name, "kernel": tuner.kernel} | row)
    on_progress("coverage", len(rows), len(rows), "")
    return rows


def _row(
    target: Target, tuner: Continuous, replicates: int, chains: int, num_samples: int, seed: int
) -> dict[str, Any]:
    flat = flatten(target)
    mean = np.asarray(flat.mean, float)

    def one(key: PRNGKey) -> tuple[Array, ...]:
        start_key, warm_key, init_key, run_key = jax.random.split(key, 4)
        starts = jax.vmap(flat.start)(jax.random.split(start_key, chains))
        size = {"num_warmup": 1000, "num_samples": num_samples, "together": chains}
        tuned = srmc.tune.tune(tuner, flat.logdensity_fn, warm_key, starts, **size)
        options = tuner.repellence(tuned.loop, num_samples, "auto")
        options["history_axis"] = srmc.run.CHAINS
        algorithm = tuner.build(flat.logdensity_fn, tuned.parameters, **options)
        states = jax.vmap(algorithm.init)(tuned.positions, jax.random.split(init_key, chains))

        def record(state: srmc.RepelState) -> tuple[Any, ...]:
            seen = tuner.features(state, tuned.loop)
            return state.position, state.inner_state.position, seen

        _, recorded, stats = srmc.run.run(algorithm, run_key, states, num_samples, record=record)
        return *recorded, stats.gain, stats.alpha

    keys = jax.random.split(jax.random.key(seed), replicates)
    batch = max(n for n in range(1, 11) if replicates % n == 0)
    program = jax.jit(
        lambda keys: jax.lax.map(one, keys, batch_size=batch), compiler_options=srmc.run.in_order()
    )
    held: dict[str, list[np.ndarray]] = {"plain": [], "repelled": [], "batch means": []}
    errors, reported = [], []
    for first in range(0, replicates, 10 * batch):  # as many as fit into memory
        out = program(keys[first : first + 10 * batch])
        for run in zip(*(np.asarray(x, float) for x in out), strict=True):
            draws, base, seen, gain, alpha = (np.swapaxes(x, 0, 1) for x in run)
            error = repelled_error(draws, seen, gain, alpha, shared=True)
            off, base_off = (np.abs(x.mean(axis=(0, 1)) - mean) for x in (draws, base))
            held["repelled"].append(off < 1.96 * error)
            held["batch means"].append(off < 1.96 * batch_means_error(draws))
            held["plain"].append(base_off < 1.96 * batch_means_error(base))
            errors.append(off**2)
            reported.append(error**2)
    row: dict[str, Any] = {
        "replicates": replicates,
        "chains": chains,
        "draws_per_chain": num_samples,
        "error_over_reported": float(np.sqrt(np.mean(np.mean(errors, 0) / np.mean(reported, 0)))),
    }
    for side, found in held.items():
        share = np.mean(found, axis=1)  # over coordinates, which are not independent
        row[side] = {"coverage": float(np.mean(share)), "error": _standard_error(share)}
    return row


def _standard_error(x: np.ndarray) -> float:
    return float(np.std(x, ddof=1) / np.sqrt(len(x)))
