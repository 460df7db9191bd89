"""A kernel run plain and repelled, side by side: same warm-up, same keys, same length."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from srmc import _run, _tune
from srmc._checks import check_number, check_option
from srmc.targets import Target


class Comparison(NamedTuple):
    """Both runs, the seconds they took, and the settings that repeat them."""

    base: _run.Run
    repelled: _run.Run
    seconds: dict[str, float]
    settings: dict[str, Any]


def compare(
    target: Target,
    *,
    kernel: str = "nuts",
    alpha: float | str = "auto",
    num_chains: int = 4,
    num_warmup: int = 1000,
    num_steps: int = 1000,
    seed: int = 0,
    step_size: float | None = None,
    leapfrogs: int | None = None,
    own_histories: bool = False,
    on_progress: Callable[..., None] = lambda *args: None,
) -> Comparison:
    """Warm a kernel up, then run it plain and repelled from where the warm-up left off."""
    record = {k: v for k, v in locals().items() if k not in ("target", "on_progress")}
    check_option("kernel", kernel, _tune.RECIPES)
    if isinstance(alpha, str):
        check_option("alpha", alpha, ("auto",))
    else:
        check_number("alpha", alpha, at_least=0.0)
    if step_size is not None:
        check_number("step_size", step_size, above=0.0)
    if leapfrogs is not None and kernel != "hmc":
        raise ValueError(f"leapfrogs is for kernel 'hmc' alone, got {kernel!r}")
    logdensity_fn = target.logdensity_fn
    keys = jax.random.split(jax.random.key(seed), 4)
    start_key, warm_key, init_key, run_key = keys

    on_progress("warm-up", 0, num_warmup)
    positions = _run.scatter(logdensity_fn, start_key, target.position, num_chains)
    fixed = {"num_integration_steps": leapfrogs or 10} if kernel == "hmc" else {}
    warmup = _tune.adapt(kernel, logdensity_fn, warm_key, positions, num_warmup, **fixed)
    loop, options = _tune.tune(kernel, warmup, num_steps, alpha=alpha, shared=not own_histories)
    options["history_every"] = int(options["history_every"])
    parameters = warmup.parameters
    if step_size is not None:
        parameters["step_size"] = step_size
    on_progress("warm-up", num_warmup, num_warmup)

    def go(side, options):
        algorithm = _tune.RECIPES[kernel].build(logdensity_fn, **parameters, **options)
        init_keys = jax.random.split(init_key, num_chains)
        states = jax.vmap(algorithm.init)(warmup.positions, init_keys)

        def show(done, stats):
            remark = f"acceptance {np.nanmean(stats['acceptance_rate']):.2f}"
            remark += f", alpha {stats['alpha'][-1].mean():.2g}"
            on_progress(side, done, num_steps, remark)

        on_progress(side, 0, num_steps)
        began = time.perf_counter()
        run = _run.run(algorithm, run_key, states, num_steps, on_chunk=show)
        return run, time.perf_counter() - began

    base, base_seconds = go("base", {"alpha": 0.0})
    if base.interrupted:
        raise KeyboardInterrupt
    if alpha == 0 or not _tune.is_on(loop):
        options = {"alpha": 0.0}
    repelled, repelled_seconds = go("repelled", options)
    if repelled.interrupted:
        base = _cut(base, repelled.stats["alpha"].shape[1])
    record |= {
        "target": target.name,
        "step_size": float(parameters["step_size"]),
        "measured": {
            "loop_rate": float(loop.rate),
            "slowest_autocorrelation_time": float(loop.time.max()),
            "top_eigenvalue": float(loop.top_eigenvalue),
            "explained": float(loop.explained.mean()),
            "explained_squares": float(loop.explained_squares.mean()),
            "explained_products": float(loop.explained_products),
        },
    }
    seconds = {"base": base_seconds, "repelled": repelled_seconds}
    return Comparison(base, repelled, seconds, record)


def _cut(run: _run.Run, length: int) -> _run.Run:
    draws, stats = jax.tree.map(lambda x: x[:, :length], (run.draws, run.stats))
    return run._replace(draws=draws, stats=stats)
