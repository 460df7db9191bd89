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
    """Both runs, the seconds they took, and all that is needed to repeat them."""

    base: _run.Run
    repelled: _run.Run
    seconds: dict[str, float]
    settings: dict[str, Any]


def compare(
    target: Target,
    *,
    kernel: str = "nuts",
    alpha: float = 3.0,
    num_chains: int = 4,
    num_warmup: int = 1000,
    num_steps: int = 1000,
    seed: int = 0,
    step_size: float | None = None,
    leapfrogs: int = 10,
    surrogate: str = "shift",
    frame: str | None = None,
    history_every: int = 1,
    own_histories: bool = False,
    on_progress: Callable[..., None] = lambda *args: None,
) -> Comparison:
    """Adapt a kernel, then run it plain and repelled from where adaptation left off.

    Each run begins with half a warm-up more, which is not kept: the plain one is measured on it,
    the repelled one warms its history up.
    """
    settings = {k: v for k, v in locals().items() if k not in ("target", "on_progress")}
    check_option("kernel", kernel, _tune.RECIPES)
    check_number("alpha", alpha, at_least=0.0)
    if step_size is not None:
        check_number("step_size", step_size, above=0.0)
    frame = frame or ("moving" if surrogate == "shift" else "fixed")
    if (surrogate, frame) == ("tilt", "moving"):
        raise ValueError("frame='moving' needs surrogate='shift'; the tilt has no such frame")
    keys = jax.random.split(jax.random.key(seed), 5)
    start_key, adapt_key, init_key, warm_key, run_key = keys
    extra = max(100, num_warmup // 2)

    on_progress("adapting", 0, num_warmup)
    positions = _run.scatter(target.logdensity_fn, start_key, target.position, num_chains)
    positions, parameters = _tune.adapt(
        kernel,
        target.logdensity_fn,
        adapt_key,
        positions,
        num_warmup,
        **({"num_integration_steps": leapfrogs} if kernel == "hmc" else {}),
    )
    on_progress("adapting", num_warmup, num_warmup)
    if step_size is not None:
        parameters["step_size"] = step_size

    def go(side, options):
        algorithm = _tune.RECIPES[kernel].build(target.logdensity_fn, **parameters, **options)
        states = jax.vmap(algorithm.init)(positions, jax.random.split(init_key, num_chains))

        def show(done, stats):
            remark = f"acceptance {np.nanmean(stats['acceptance_rate']):.2f}"
            remark += f", alpha {stats['alpha'][-1].mean():.2g}"
            on_progress(side, done, extra + num_steps, remark)

        on_progress(side, 0, extra + num_steps)
        began = time.perf_counter()
        warm = _run.run(algorithm, warm_key, states, extra, on_chunk=show)
        run = _run.run(
            algorithm,
            run_key,
            warm.states,
            num_steps,
            on_chunk=lambda done, stats: show(extra + done, stats),
        )
        return warm, run, time.perf_counter() - began

    warm, base, base_seconds = go("base", {"alpha": 0.0})
    options = _tune.repellence(warm.draws, alpha, surrogate)
    options["frame"], options["history_every"] = frame, history_every
    options["history_axis"] = None if own_histories else _run.CHAINS
    _, repelled, repelled_seconds = go("repelled", options)

    gain = options["gain"]
    settings |= {
        "target": target.name,
        "frame": frame,
        "step_size": parameters["step_size"],
        "gain": {"rho": gain.rho, "scale": gain.scale, "delay": gain.delay},
    }
    seconds = {"base": base_seconds, "repelled": repelled_seconds}
    return Comparison(base, repelled, seconds, settings)
