"""What repelling costs: time a step and time to compile, beside BlackJAX's kernel, in one run."""

import functools
import time
from collections.abc import Callable
from typing import Any

import blackjax
import jax
import jax.numpy as jnp
import numpy as np

import srmc
from srmc import _run, _tune


def overhead(
    num_data: int = 1000,
    dim: int = 50,
    num_chains: int = 16,
    num_steps: int = 400,
    repeats: int = 15,
    lattice: int = 50,
    kernels: tuple[str, ...] = ("hmc", "mala", "nuts", "gwg", "dlp"),
    on_progress: Callable[..., None] = lambda *args: None,
) -> list[dict[str, Any]]:
    """Rows with seconds a step (median over repeats, taken in turn) and seconds to compile.

    `ratio` divides each repeat's time by BlackJAX's of the same round, or on a discrete space,
    where BlackJAX has no kernel, by the plain kernel's; its quartiles go along. "self-tuned" is
    what `srmc.sample` runs, all chains with one history. The discrete ones run 100 chains on an
    Ising model of 50 x 50 sites, a twentieth of the steps.
    """
    logp = srmc.targets.logistic(num_data, dim).logdensity_fn
    metric = jnp.ones(dim)
    moving = {"alpha": 1.0, "surrogate": srmc.shift(), "frame": "moving"}
    fixed = moving | {"frame": "fixed"}
    tilted = {"alpha": 1.0, "surrogate": srmc.tilt()}
    steps_of = {"hmc": (0.02, 10, metric), "mala": (0.002,), "nuts": (0.1, metric)}
    hmc, mala, nuts = (
        functools.partial(getattr(srmc, name), logp, *step) for name, step in steps_of.items()
    )
    families = {
        "hmc": {
            "blackjax": blackjax.hmc(logp, 0.02, metric, 10),
            "moving shift": hmc(**moving),
            "fixed shift": hmc(**fixed),
            "tilt": hmc(**tilted),
        },
        "mala": {
            "blackjax": blackjax.mala(logp, 0.002),
            "moving shift": mala(**moving),
            "moving shift, every 5": mala(history_every=5, **moving),
            "fixed shift": mala(**fixed),
            "fixed shift, every 5": mala(history_every=5, **fixed),
            "tilt": mala(**tilted),
        },
        "nuts": {"blackjax": blackjax.nuts(logp, 0.1, metric), "moving shift": nuts(**moving)},
    }
    ising = srmc.targets.ising(srmc.targets.lattice(lattice, lattice), 0.43, 0.0)
    for name, build, arguments in (("gwg", srmc.gwg, ()), ("dlp", srmc.dlp, (0.2,))):
        make = lambda build=build, arguments=arguments, **options: build(
            ising.logdensity_fn, ising.space, *arguments, **options
        )
        families[name] = {
            "plain": make(alpha=0.0),
            "relaxed-gibbs": make(feature="relaxed-gibbs"),
            "gibbs": make(feature="gibbs", differences=ising.differences),
        }
    rows = []
    for done, family in enumerate(kernels):
        algorithms = families[family]
        on_progress("overhead", done, len(kernels), family)
        starts, steps = jnp.zeros((num_chains, dim)), num_steps
        if family in steps_of:
            tuned = _self_tuned(family, logp, starts, num_steps)
            algorithms["self-tuned"] = getattr(srmc, family)(logp, *steps_of[family], **tuned)
        else:
            keys = jax.random.split(jax.random.key(0), 100)
            starts = jax.vmap(lambda key: srmc.Binary().random(key, ising.position))(keys)
            steps = max(1, num_steps // 20)
        compiled = {name: _compile(a, starts, steps) for name, a in algorithms.items()}
        seconds: dict[str, list[float]] = {name: [] for name in algorithms}
        for _ in range(repeats):
            for name, (run, states, _) in compiled.items():
                began = time.perf_counter()
                jax.block_until_ready(run(states, jax.random.key(0)))
                seconds[name].append((time.perf_counter() - began) / steps)
        first = next(iter(algorithms))
        base = np.array(seconds[first])
        for name, (_, _, compile_seconds) in compiled.items():
            ratio = np.array(seconds[name]) / base
            rows.append(
                {
                    "kernel": family,
                    "variant": name,
                    "microseconds_a_step": 1e6 * float(np.median(seconds[name])),
                    "ratio": float(np.median(ratio)),
                    "ratio_quartiles": [float(q) for q in np.quantile(ratio, [0.25, 0.75])],
                    "compile_seconds": compile_seconds,
                    "compile_ratio": compile_seconds / compiled[first][2],
                }
            )
    on_progress("overhead", len(kernels), len(kernels), "")
    return rows


def _self_tuned(kernel, logdensity_fn, starts, num_steps):
    """The keywords of repellence that a warm-up of the kernel finds."""
    options = {"num_integration_steps": 10} if kernel == "hmc" else {}
    warmup = _tune.adapt(kernel, logdensity_fn, jax.random.key(1), starts, 1000, **options)
    return _tune.tune(kernel, warmup, num_steps)[1]


def _compile(algorithm, starts, num_steps):
    """The compiled run, its first states, and the seconds it took to trace and compile it."""

    def run(states, key):
        def one(states, n):
            keys = jax.random.split(jax.random.fold_in(key, n), len(starts))
            states, _ = jax.vmap(algorithm.step, axis_name=_run.CHAINS)(keys, states)
            return states, states.position

        return jax.lax.scan(one, states, jnp.arange(num_steps))

    states = jax.vmap(algorithm.init)(starts)
    began = time.perf_counter()
    compiled = jax.jit(run).lower(states, jax.random.key(0)).compile()
    return compiled, states, time.perf_counter() - began
