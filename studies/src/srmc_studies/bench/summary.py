"""How long `result.summary()` takes, and how long when it is asked for again."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

import srmc

DIMS = (175, 2000)
SHAPE = 3.0  # of the gamma variables whose logarithms are summarised


def summary(
    dims: Sequence[int] = DIMS,
    num_draws: int = 1000,
    repeats: int = 3,
    on_progress: Callable[..., None] = lambda *args: None,
) -> list[dict[str, Any]]:
    """Seconds, and seconds of processor time, of the first and second call on 4 rebalanced chains.

    They are the least over repeats.
    """
    rows = []
    for done, dim in enumerate(dims):
        on_progress("summary", done, len(dims), f"{dim} rows")
        run = _rebalanced(dim, num_draws)
        taken = [_calls(*run) for _ in range(repeats)]
        first, processor, again = np.min(taken, axis=0).tolist()
        row = {"rows": dim, "chains": 4, "draws_per_chain": num_draws, "seconds": first}
        rows.append(row | {"processor_seconds": processor, "seconds_again": again})
    on_progress("summary", len(dims), len(dims), "")
    return rows


def _rebalanced(dim: int, num_draws: int) -> tuple[Any, ...]:
    x = np.log(np.random.default_rng(0).gamma(SHAPE, size=(4, num_draws, dim)))
    scores = SHAPE - np.exp(x)
    score_fn = lambda v: SHAPE - jnp.exp(v)
    moved, report = srmc.rebalance(x, score_fn, scores=scores, report=True)
    return np.asarray(moved), x, scores, report


def _calls(*run: Any) -> tuple[float, float, float]:
    result = srmc.Result.of_rebalanced(*run)
    clock, processor = time.perf_counter(), time.process_time()
    result.summary()
    first, used = time.perf_counter() - clock, time.process_time() - processor
    clock = time.perf_counter()
    result.summary()
    return first, used, time.perf_counter() - clock
