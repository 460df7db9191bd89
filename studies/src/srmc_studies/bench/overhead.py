"""What repelling costs: time per step and compile time, compared with BlackJAX's own kernels."""

import functools
import time
from collections.abc import Callable
from typing import Any

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from blackjax.base import SamplingAlgorithm

import srmc
from srmc.sample import CHAINS
from srmc.sample.tune import Continuous, tune
from srmc.types import Array, Float, LogDensity, PRNGKey

Programs = dict[str, tuple[Callable[[], Any], float]]  # each with its compile time in seconds
Starts = Float[Array, "chain d"]


def overhead(
    num_data: int = 1000,
    dim: int = 50,
    num_chains: int = 16,
    num_steps: int = 400,
    repeats: int = 15,
    lattice: int = 50,
    num_draws: int = 1000,
    dims: tuple[int, ...] = (10, 100),
    kernels: tuple[str, ...] = ("hmc", "mala", "nuts", "gwg", "dlp", "rebalance"),
    on_progress: Callable[..., None] = lambda *args: None,
) -> list[dict[str, Any]]:
    """Rows with the time per step (median over repeats, taken in turn) and the compile time.

    `ratio` is the median of each repeat's time divided by that of BlackJAX in the same round, or
    of the plain kernel on a discrete space, where BlackJAX has no kernel; `ratio_quartiles` are
    its quartiles. "self-tuned" is what `srmc.sample` runs, with one history for all chains. The
    discrete kernels run 100 chains on an Ising model of 50 x 50 sites, for a twentieth of the
    steps. The time of `srmc.rebalance` on 4 x `num_draws` draws of posteriors of `dims` dimensions
    is compared with that of sampling them by NUTS, and with that of the gradients at all of them.
    """
    logp = srmc.targets.logistic(num_data, dim).logdensity_fn
    starts = jnp.zeros((num_chains, dim))
    rows = []
    for done, family in enumerate(kernels):
        on_progress("overhead", done, len(kernels), family)
        steps = num_steps
        if family == "rebalance":
            for size in dims:
                density = srmc.targets.logistic(num_data, size).logdensity_fn
                programs = _stored(density, jnp.zeros((4, size)), num_draws)
                rows += timed(f"rebalance, d = {size}", programs, num_draws, repeats)
            continue
        if family in ("gwg", "dlp"):
            steps = max(1, num_steps // 20)
            programs = _discrete(family, lattice, steps)
        else:
            programs = _continuous(family, logp, starts, num_steps)
        rows += timed(family, programs, steps, repeats)
    on_progress("overhead", len(kernels), len(kernels), "")
    return rows


def _continuous(family: str, logp: LogDensity, starts: Starts, num_steps: int) -> Programs:
    metric = jnp.ones(starts.shape[1])
    step = {"hmc": (0.02, 10, metric), "mala": (0.002,), "nuts": (0.1, metric)}[family]
    repelled = functools.partial(getattr(srmc, family), logp, *step)
    moving = {"alpha": 1.0, "surrogate": srmc.shift(), "frame": "moving"}
    fixed = moving | {"frame": "fixed"}
    tuner = Continuous(family)
    size = {"num_warmup": 1000, "num_samples": num_steps, "together": len(starts)}
    tuned = tune(tuner, logp, jax.random.key(1), starts, **size)
    options = tuner.repellence(tuned.loop, num_steps, "auto")
    blackjax_step = (0.02, metric, 10) if family == "hmc" else step
    algorithms = {
        "blackjax": getattr(blackjax, family)(logp, *blackjax_step),
        "moving shift": repelled(**moving),
    }
    if family == "mala":
        algorithms |= {
            "moving shift, every 5": repelled(history_every=5, **moving),
            "fixed shift, every 5": repelled(history_every=5, **fixed),
        }
    if family != "nuts":
        algorithms |= {
            "fixed shift": repelled(**fixed),
            "tilt": repelled(alpha=1.0, surrogate=srmc.tilt()),
        }
    algorithms["self-tuned"] = repelled(**options, history_axis=CHAINS)
    return {name: compile_run(a, starts, num_steps) for name, a in algorithms.items()}


def _discrete(family: str, lattice: int, num_steps: int) -> Programs:
    ising = srmc.targets.ising(srmc.targets.lattice(lattice, lattice), 0.43, 0.0)
    step = {"gwg": (), "dlp": (0.2,)}[family]
    build = functools.partial(getattr(srmc, family), ising.logdensity_fn, ising.space, *step)
    algorithms = {
        "plain": build(alpha=0.0),
        "relaxed-gibbs": build(feature="relaxed-gibbs"),
        "gibbs": build(feature="gibbs", differences=ising.differences),
    }
    keys = jax.random.split(jax.random.key(0), 100)
    starts = jax.vmap(lambda key: srmc.Binary().random(key, ising.position))(keys)
    return {name: compile_run(a, starts, num_steps) for name, a in algorithms.items()}


def _stored(logp: LogDensity, starts: Starts, num_draws: int) -> Programs:
    tuner = Continuous("nuts")
    warmup = tuner.adapt(logp, jax.random.key(1), starts, max(200, 2 * num_draws))
    draws, scores = (x[:, -num_draws:] for x in (warmup.draws, warmup.features))
    plain = tuner.build(logp, warmup.parameters, alpha=0.0)
    score = jax.grad(logp)
    gradients = jax.jit(jax.vmap(jax.vmap(score)))
    runs = {
        "gradients at all draws": lambda: gradients(draws),
        "rebalancing": lambda: srmc.rebalance(draws, score, scores=scores, logdensity_fn=logp),
    }
    sampling = {"sampling by NUTS": compile_run(plain, starts, num_draws)}
    return sampling | {name: (run, seconds_of(run)) for name, run in runs.items()}


def compile_run(
    algorithm: SamplingAlgorithm, starts: Starts, num_steps: int
) -> tuple[Callable[[], Any], float]:
    """A function that runs so many steps of all chains, and the seconds that it took to compile."""

    def run(states: Any, key: PRNGKey) -> tuple[Any, Any]:
        def one(states: Any, n: Array) -> tuple[Any, Any]:
            keys = jax.random.split(jax.random.fold_in(key, n), len(starts))
            states, _ = jax.vmap(algorithm.step, axis_name=CHAINS)(keys, states)
            return states, states.position

        return jax.lax.scan(one, states, jnp.arange(num_steps))

    arguments = jax.vmap(algorithm.init)(starts), jax.random.key(0)
    began = time.perf_counter()
    compiled = jax.jit(run).lower(*arguments).compile()
    return lambda: compiled(*arguments), time.perf_counter() - began


def seconds_of(run: Callable[[], Any]) -> float:
    """The seconds that a call takes, its arrays included."""
    began = time.perf_counter()
    jax.block_until_ready(run())
    return time.perf_counter() - began


def timed(family: str, programs: Programs, num_steps: int, repeats: int) -> list[dict[str, Any]]:
    """A row per program, which all take their turns, with its time relative to the first's.

    `cpu_ratio` is that of processor times, which other programs on the machine change less.
    """
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in programs}
    for _ in range(repeats):
        for name, (run, _) in programs.items():
            began = time.process_time()
            wall = seconds_of(run)
            taken[name].append((wall / num_steps, (time.process_time() - began) / num_steps))
    first = next(iter(programs))
    rows = []
    for name, (_, compile_seconds) in programs.items():
        ratios = np.array(taken[name]) / np.array(taken[first])
        seconds, cpu_seconds = np.median(taken[name], axis=0).tolist()
        rows.append(
            {
                "kernel": family,
                "variant": name,
                "microseconds_per_step": 1e6 * seconds,
                "cpu_microseconds_per_step": 1e6 * cpu_seconds,
                "ratio": float(np.median(ratios[:, 0])),
                "cpu_ratio": float(np.median(ratios[:, 1])),
                "ratio_quartiles": [float(q) for q in np.quantile(ratios[:, 0], [0.25, 0.75])],
                "compile_seconds": compile_seconds,
                "compile_ratio": compile_seconds / programs[first][1],
            }
        )
    return rows
