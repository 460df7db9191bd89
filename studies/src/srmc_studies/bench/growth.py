"""What grows how: seconds per draw, chain, dimension and row of data, and bytes between devices."""

import functools
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import blackjax
import jax
import jax.numpy as jnp
import numpy as np

import srmc
from srmc.targets import Target
from srmc.types import LogDensity
from srmc_studies.bench.clock_calls import stretched
from srmc_studies.bench.growth_devices import logistic, made_rows
from srmc_studies.bench.overhead import Starts, compile_run

Row = dict[str, Any]
LEAPFROGS = 10
DRAWS, CHAINS, DIM = 100, 4, 10  # where another one grows
AXES: dict[str, tuple[int, ...]] = {
    "draws": (30, 300, 3000, 30_000),
    "chains": (2, 20, 200, 2000),
    "dimensions": (1, 10, 100, 1000),
    "rows": (10_000, 100_000, 1_000_000, 10_000_000),
}
HOSTS, CHAINS_PER_HOST = 100, 10
BANDWIDTH, LATENCY = 1e9, 50e-6  # bytes per second and seconds, assumed: 10 Gbit Ethernet


PARTS = (*AXES, "simulation", "devices")


def growth(
    parts: Sequence[str] | None = None,
    *,
    repeats: int = 3,
    quick: bool = False,
    on_progress: Callable[..., None] = lambda *args: None,
    on_row: Callable[[Row], None] = lambda row: None,
) -> list[Row]:
    """Rows of four kinds: "time", "traffic", "call" and "simulation".

    `quick` leaves out the largest sizes, and the rows that take processes of their own.
    """
    if unknown := [part for part in parts or () if part not in PARTS]:
        raise ValueError(f"parts must be among {', '.join(PARTS)}, got {unknown}")
    jobs: list[tuple[str, Callable[[], Iterator[Row]]]] = []
    for axis, sizes in AXES.items():
        for size in sizes[:2] if quick else sizes:
            one = functools.partial(_times, axis, size, 1 if quick else repeats)
            jobs.append((f"{axis}, {size:,}", one))
    jobs.append(("simulation", functools.partial(_simulations, (10,) if quick else (100, 10_000))))
    if not quick:
        jobs.append(("devices", _devices))
    jobs = [job for job in jobs if job[0].partition(",")[0] in (parts or PARTS)]
    rows = []
    for done, (label, job) in enumerate(jobs):
        on_progress("growth", done, len(jobs), label)
        for row in job():
            rows.append(row)
            on_row(row)
    on_progress("growth", len(jobs), len(jobs), "")
    return rows


def _times(axis: str, size: int, repeats: int) -> Iterator[Row]:
    """Seconds of the processor of a run whose `axis` has this size, and of rebalancing it."""
    sizes = {"draws": DRAWS, "chains": CHAINS, "dimensions": DIM} | {axis: size}
    about = {"kind": "time", "axis": axis, "size": size}
    if axis == "rows":
        data = made_rows(size, DIM)
        logp = jax.tree_util.Partial(logistic, **jax.device_put(data))
        starts, steps = jnp.broadcast_to(jnp.ones(DIM), (2, DIM)), 2
        yield about | _seconds("sampling", _sampling(logp, starts, steps, size**-0.5), repeats)
        return
    target = stretched(sizes["dimensions"])
    starts = jnp.zeros((sizes["chains"], sizes["dimensions"]))
    sampling = _sampling(target.logdensity_fn, starts, sizes["draws"], 0.1)
    yield about | _seconds("sampling", sampling, repeats)
    rebalancing = _rebalancing(target, sizes["chains"], sizes["draws"])
    yield about | _seconds("rebalancing", rebalancing, repeats)


def _seconds(part: str, run: Callable[[], Any], repeats: int) -> Row:
    """The least seconds of the processor, of all threads, after a first run that compiles."""
    taken = [_once(run) for _ in range(repeats + 1)]
    return {"part": part, "cpu_seconds": min(taken[1:]), "repeats": repeats}


def _sampling(
    logp: LogDensity, starts: Starts, num_steps: int, step_size: float
) -> Callable[[], Any]:
    metric = jnp.ones(starts.shape[1])
    return compile_run(blackjax.hmc(logp, step_size, metric, LEAPFROGS), starts, num_steps)[0]


def _rebalancing(target: Target, chains: int, draws: int) -> Callable[[], Any]:
    """Rebalancing of independent draws, whose scores are known."""
    scales = np.geomspace(1.0, 10.0, np.size(target.position))
    z = np.random.default_rng(0).standard_normal((chains, draws, len(scales)))
    return lambda: srmc.rebalance(scales * z, scores=-z / scales)


def _simulations(dims: tuple[int, ...]) -> Iterator[Row]:
    """A simulation of 1,000 chains on 100 hosts, from measured times of the steps of one host.

    A step with a shared history ends when the slowest host has sent its features; chains with own
    histories wait for nobody. The network is assumed.
    """
    rng = np.random.default_rng(0)
    for dim in dims:
        logp = stretched(dim).logdensity_fn
        shape, metric = (CHAINS_PER_HOST, dim), jnp.ones(dim)
        moving = srmc.hmc(logp, 0.1, LEAPFROGS, metric, alpha=1.0, frame="moving")
        run = compile_run(moving, jnp.zeros(shape), 1)[0]
        steps = np.array([_once(run) for _ in range(120)])[20:]  # the first ones are warm-up
        network = all_reduce(4 * dim)
        found = rng.choice(steps, (1000, HOSTS))
        alone = float(found.sum(axis=0).max() / len(found))
        for every in (1, 10):
            slowest = found.reshape(-1, every, HOSTS).sum(axis=1).max(axis=1).sum() / len(found)
            total = float(slowest) + network / every
            yield {
                "kind": "simulation",
                "dim": dim,
                "history_every": every,
                "microseconds_on_one_host": 1e6 * float(steps.mean()),
                "own_histories": 1e6 * alone,
                "shared_history": 1e6 * total,
                "waiting_share": (float(slowest) - alone) / total,
                "network_share": network / every / total,
            }


def all_reduce(size: int) -> float:
    """The seconds of an all-reduce of so many bytes: around a ring, or by a tree if that is faster.

    A ring sends each byte about twice in many messages; a tree sends all bytes in each of few.
    """
    ring = 2 * (HOSTS - 1) * (size / HOSTS / BANDWIDTH + LATENCY)
    tree = 2 * math.ceil(math.log2(HOSTS)) * (size / BANDWIDTH + LATENCY)
    return min(ring, tree)


def _once(run: Callable[[], Any]) -> float:
    """The seconds of the processor of one run, on which other programs have little effect."""
    began = time.process_time()
    jax.block_until_ready(run())
    return time.process_time() - began


def _devices() -> Iterator[Row]:
    """Rows of processes that see four devices of this CPU."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    for what in ("traffic", "call"):
        command = [sys.executable, "-m", "srmc_studies.bench.growth_devices", what]
        environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
        ran = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
        yield from json.loads(ran.stdout.splitlines()[-1])
