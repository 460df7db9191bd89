"""How long a person waits: whole calls, single steps, and memory, beside other libraries."""

import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

import srmc
from srmc.sample import CHAINS
from srmc.sample.tune import Continuous, tune
from srmc.types import Array, LogDensity
from srmc_studies.bench.clock_calls import LIBRARIES, MODELS, Size, Times, calls, find, missing
from srmc_studies.bench.overhead import Programs, Starts, compile_run, seconds_of, timed

KERNELS = ("nuts", "hmc", "mala")
# BlackJAX's NUTS copies what it stores of its trajectory, 20 vectors, at each leapfrog step: in
# 100,000 dimensions 400 steps take longer than all else here.
MEMORY = {10: ("nuts", Size()), 1000: ("nuts", Size()), 100_000: ("hmc", Size(200, 200))}
LEAPFROGS = 10
LONGER = {"nuts": 1, "hmc": 5, "mala": 10}  # so that no run is over in a moment
# Keywords of builders; the gradients of a step are those that the step itself reports.
MOVING: dict[str, Any] = {"alpha": 1.0, "frame": "moving"}
FIXED: dict[str, Any] = {"alpha": 1.0, "surrogate": srmc.shift(), "frame": "fixed"}
BUILT: dict[str, dict[str, dict[str, Any]]] = {
    "mala": {
        "plain": {"alpha": 0.0},
        "moving, history_every=50": MOVING | {"history_every": 50},
        "moving, history_every=5": MOVING | {"history_every": 5},
        "moving": MOVING,
        "fixed, history_every=50": FIXED | {"history_every": 50},
        "default": {},
    },
    "hmc": {"plain": {"alpha": 0.0}, "moving": MOVING},
}


PARTS = ("calls", "steps", "builders", "memory", "import")


def clock(
    models: Sequence[str] | None = None,
    *,
    parts: Sequence[str] | None = None,
    rounds: int = 1,
    num_steps: int = 200,
    repeats: int = 11,
    quick: bool = False,
    on_progress: Callable[..., None] = lambda *args: None,
    on_row: Callable[[dict[str, Any]], None] = lambda row: None,
) -> list[dict[str, Any]]:
    """Rows of five kinds: "call", "step", "builder", "memory" and "import".

    A first call is made in a new process without any compiled program; a second one follows in the
    same process, and a last one in another process that finds the programs on disk. All libraries
    take turns, `rounds` times. Steps are timed in this process. `quick` makes all calls here, too.
    """
    names = list(models or (["logistic-3"] if quick else MODELS))
    unknown = [name for name in names if name not in MODELS]
    if unknown:
        raise ValueError(f"models must be among {', '.join(MODELS)}, got {unknown}")
    if unknown := [part for part in parts or () if part not in PARTS]:
        raise ValueError(f"parts must be among {', '.join(PARTS)}, got {unknown}")
    kernels = KERNELS[2:] if quick else KERNELS
    num_steps, repeats = (20, 2) if quick else (num_steps, repeats)
    jobs: list[tuple[str, Callable[[], Iterable[dict[str, Any]]]]] = []
    for name in names:
        run = _in_turn if quick else _in_processes
        jobs.append((f"calls, {name}", functools.partial(run, name, rounds)))
        for kernel in kernels:
            steps = functools.partial(_steps, name, kernel, LONGER[kernel] * num_steps, repeats)
            jobs.append((f"steps, {name}, {kernel}", steps))
    for kernel in BUILT:
        if kernel in kernels:
            at_size = functools.partial(_builders, kernel, num_steps, repeats, quick)
            jobs.append((f"builders, {kernel}", at_size))
    if not quick:
        jobs += [("memory", _memory), ("import", _imports)]
    jobs = [job for job in jobs if job[0].partition(",")[0] in (parts or PARTS)]
    rows = []
    for done, (label, job) in enumerate(jobs):
        on_progress("clock", done, len(jobs), label)
        for row in job():
            rows.append(row)
            on_row(row)
    on_progress("clock", len(jobs), len(jobs), "")
    return rows


Found = dict[str, dict[str, list[Times]]]  # by library and call, round by round


def _call_rows(model: str, found: Found) -> list[dict[str, Any]]:
    """A row per library and call: medians over rounds of seconds, and of their ratios."""
    unit = np.array(found["BlackJAX"]["first"])
    dim = ravel_pytree(find(model).position)[0].size
    rows: list[dict[str, Any]] = []
    for library, by_call in found.items():
        for call, times in by_call.items():
            row = {"kind": "call", "model": model, "dim": dim, "library": library, "call": call}
            seconds = Times(*np.median(times, axis=0).tolist())
            ratio, cpu_ratio = np.median(np.array(times) / unit, axis=0).tolist()
            row |= {"seconds": seconds.wall, "cpu_seconds": seconds.cpu, "rounds": len(times)}
            rows.append(row | {"ratio": ratio, "cpu_ratio": cpu_ratio})
    return rows


def _in_turn(model: str, rounds: int) -> list[dict[str, Any]]:
    """Short calls in this process, by BlackJAX and by srmc."""
    found = {}
    for library in ("BlackJAX", "srmc"):
        pairs = [calls(library, model, Size(100, 50, 2), 2) for _ in range(rounds)]
        first, second = (list(times) for times in zip(*pairs, strict=True))
        found[library] = {"first": first, "second": second}
    return _call_rows(model, found)


def _in_processes(model: str, rounds: int) -> list[dict[str, Any]]:
    absent = missing()
    here = [name for name in LIBRARIES if name not in absent]
    found: Found = {name: {} for name in here}
    for _ in range(rounds):
        for library in here:
            with tempfile.TemporaryDirectory() as folder:
                asked = {"library": library, "model": model, "size": Size(), "count": 2}
                pair = _child(asked, folder)["times"]
                times = dict(zip(("first", "second"), pair, strict=True))
                if library == "srmc":
                    times["new process"] = _child(asked | {"count": 1}, folder)["times"][0]
            for call, taken in times.items():
                found[library].setdefault(call, []).append(Times(*taken))
    skipped = [{"kind": "skipped", "model": model, "library": name} for name in absent]
    return _call_rows(model, found) + skipped


def _child(asked: dict[str, Any], programs: str) -> dict[str, Any]:
    """The outcome of `clock_calls.main` in a new process, with its programs in a folder."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JAX_COMPILATION")}
    ran = subprocess.run(
        [sys.executable, "-m", "srmc_studies.bench.clock_calls", json.dumps(asked)],
        env=environment | {"SRMC_PROGRAMS": programs, "OPENBLAS_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    out: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return out


def _steps(model: str, kernel: str, num_steps: int, repeats: int) -> list[dict[str, Any]]:
    """Times per step of a kernel: BlackJAX's, ours plain and repelled, and its gradients alone."""
    target = find(model)
    start, unravel = ravel_pytree(target.position)
    logp = lambda x: target.logdensity_fn(unravel(x))
    starts = jnp.broadcast_to(start, (4, start.size))
    tuner = Continuous(kernel)
    size = {"num_warmup": 400, "num_samples": num_steps, "together": len(starts)}
    tuned = tune(tuner, logp, jax.random.key(1), starts, **size)
    options = tuner.repellence(tuned.loop, num_steps, "auto") | {"history_axis": CHAINS}
    given = {k: v for k, v in tuned.parameters.items() if k != "scale"}
    if kernel == "hmc":
        given["num_integration_steps"] = LEAPFROGS
    theirs = getattr(blackjax, kernel)(logp, **given)
    algorithms = {
        "BlackJAX": theirs,
        "plain": tuner.build(logp, tuned.parameters, alpha=0.0),
        "repelled": tuner.build(logp, tuned.parameters, **options),
    }
    positions = tuned.positions
    programs: Programs = {
        name: compile_run(algorithm, positions, num_steps) for name, algorithm in algorithms.items()
    }
    count = num_steps
    if kernel != "mala":
        count = _gradients_in_turn(theirs, positions, num_steps)
    alone = _gradients_alone(logp, positions)
    compile_seconds = seconds_of(lambda: alone(count))
    # As long as the steps take: a shorter run is no longer than the call of its program, and of
    # long and short ones, long ones are interrupted more often by what else the machine does.
    unit, once = (
        min(seconds_of(run) for _ in range(3))
        for run in (programs["BlackJAX"][0], lambda: alone(count))
    )
    times = max(1, round(unit / once))
    programs["gradients alone"] = lambda: alone(times * count), compile_seconds
    *found, last = timed(kernel, programs, num_steps, repeats)
    for name in ("microseconds_per_step", "ratio"):
        last[name], last[f"cpu_{name}"] = last[name] / times, last[f"cpu_{name}"] / times
    last["ratio_quartiles"] = [ratio / times for ratio in last["ratio_quartiles"]]
    about = {"kind": "step", "model": model, "dim": start.size, "rounds": repeats}
    return [about | row | {"gradients_per_step": count / num_steps} for row in (*found, last)]


def _builders(kernel: str, num_steps: int, repeats: int, quick: bool) -> list[dict[str, Any]]:
    """Times per step of the named builders beside BlackJAX's kernel, and their gradients.

    Sixteen chains sample the posterior of a logistic regression with 1,500 rows in 60 dimensions.
    """
    rows, dim = (50, 5) if quick else (1500, 60)
    logp = srmc.targets.logistic(rows, dim).logdensity_fn
    starts, metric = jnp.zeros((16, dim)), jnp.ones(dim)
    theirs, ours, unit = {
        "mala": ((0.002,), (0.002,), 1),
        "hmc": ((0.02, metric, LEAPFROGS), (0.02, LEAPFROGS, metric), LEAPFROGS),
    }[kernel]
    algorithms = {"BlackJAX": getattr(blackjax, kernel)(logp, *theirs)}
    gradients = {"BlackJAX": float(unit)}
    for name, options in BUILT[kernel].items():
        algorithms[name] = getattr(srmc, kernel)(logp, *ours, **options)
        gradients[name] = _gradients_per_step(algorithms[name], starts)
    programs = {name: compile_run(a, starts, num_steps) for name, a in algorithms.items()}
    about = {"kind": "builder", "rows": rows, "dim": dim, "chains": 16, "rounds": repeats}
    return [
        about | row | {"gradients_per_step": gradients[row["variant"]]}
        for row in timed(kernel, programs, num_steps, repeats)
    ]


def _gradients_per_step(algorithm: Any, starts: Starts, num_steps: int = 50) -> float:
    """The mean number of gradients that a step of the first chain reports."""

    def one(state: Any, key: Array) -> tuple[Any, Array]:
        state, info = algorithm.step(key, state)
        return state, info.gradients

    keys = jax.random.split(jax.random.key(0), num_steps)
    run = jax.jit(lambda state: jax.lax.scan(one, state, keys)[1])
    return float(jnp.mean(run(algorithm.init(starts[0]))))


def _gradients_in_turn(algorithm: Any, starts: Starts, num_steps: int) -> int:
    """The gradients that chains in lockstep take one after the other: those of the longest."""

    @jax.jit
    def run(states: Any) -> Array:
        def one(states: Any, n: Array) -> tuple[Any, Array]:
            keys = jax.random.split(jax.random.fold_in(jax.random.key(0), n), len(starts))
            states, info = jax.vmap(algorithm.step)(keys, states)
            return states, jnp.max(info.num_integration_steps)

        return jnp.sum(jax.lax.scan(one, states, jnp.arange(num_steps))[1])

    return int(run(jax.vmap(algorithm.init)(starts)))


def _gradients_alone(logp: LogDensity, starts: Starts) -> Callable[[int], Array]:
    """A run that does nothing but evaluate so many values and gradients per chain."""

    @jax.jit
    def run(x: Starts, count: int) -> Array:
        def one(_: Array, x: Starts) -> Starts:
            value, gradient = jax.vmap(jax.value_and_grad(logp))(x)
            moved: Starts = x + 1e-12 * (gradient + value[:, None])
            return moved

        last: Array = jax.lax.fori_loop(0, count, one, x)
        return last

    return lambda count: run(starts, count)


def _memory() -> Iterator[dict[str, Any]]:
    """The peak of memory of a run in a process of its own, above that of JAX and this library."""
    for dim, (kernel, size) in MEMORY.items():
        for keep in ("draws", "moments"):
            asked = {"library": "srmc", "model": f"normal-{dim}", "size": size, "count": 1}
            with tempfile.TemporaryDirectory() as folder:
                out = _child(asked | {"keep": keep, "kernel": kernel}, folder)
            row = {"kind": "memory", "dim": dim, "kernel": kernel, "keep": keep} | size._asdict()
            kept = 4 * dim * size.samples * size.chains if keep == "draws" else 8 * dim
            more = {"kept_megabytes": kept / 2**20, "seconds": Times(*out["times"][0]).wall}
            yield row | {k: out[k] for k in ("megabytes", "megabytes_before")} | more


def _imports() -> list[dict[str, Any]]:
    """The seconds of the processor that a new process takes to import a library.

    A first process may compile to bytecode, and does not count.
    """
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    rows = []
    for library in ("jax", "blackjax", "srmc", "numpyro", "nutpie"):
        if library in map(str.lower, missing()):
            continue
        script = f"import time; t = time.process_time(); import {library}; "
        command = [sys.executable, "-c", script + "print(time.process_time() - t)"]
        run = functools.partial(subprocess.check_output, command, env=environment, text=True)
        _, *times = [float(run()) for _ in range(6)]
        rows.append({"kind": "import", "library": library, "seconds": float(np.median(times))})
    return rows
