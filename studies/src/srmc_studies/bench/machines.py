"""What many machines must not change: single-chain jobs, many models, and a run on a store."""

import functools
import multiprocessing
import os
import secrets
import signal
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from rich.table import Table

import srmc
from srmc.types import Array, Scalar
from srmc_studies.bench.cells import terminal

Row = dict[str, Any]
HERE = "srmc_studies.bench.machines"


class Size(NamedTuple):
    """Jobs of one chain each, models of one cluster, and draws per chain."""

    jobs: int = 64
    models: int = 100
    draws: int = 200


def gumbels(x: Array, at: float = 0.0) -> Scalar:
    """Three independent Gumbel coordinates."""
    value: Scalar = -jnp.sum(x - at + jnp.exp(at - x))
    return value


def fails(_: Array) -> Scalar:
    """A model with an error."""
    raise ArithmeticError("a model that fails")


def kills(x: Array) -> Scalar:
    """A model that takes its worker along."""
    if multiprocessing.parent_process() is None:
        raise RuntimeError("this model is for a worker")
    os.kill(os.getpid(), signal.SIGKILL)
    return gumbels(x)


def machines(
    quick: bool = False, on_progress: Callable[..., None] = lambda *args: None
) -> list[Row]:
    """A row per promise: its size, whether it held, and the seconds that it took."""
    size = Size(3, 6, 50) if quick else Size()
    cases = {
        f"{size.jobs} jobs of one chain each, merged": single_chains,
        f"{size.models} models on a cluster of Dask": models_on_dask,
        "a run resumed from memory://": resumed,
    }
    rows = []
    for done, (name, case) in enumerate(cases.items()):
        on_progress("machines", done, len(cases), name)
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", srmc.RunWarning)  # of short runs
            row = {"case": name} | case(size)
        rows.append(row | {"seconds": time.perf_counter() - began})
    on_progress("machines", len(cases), len(cases), "")
    return rows


def _run(size: Size, **more: Any) -> dict[str, Any]:
    start = np.zeros(3, np.float32)
    run = {"num_warmup": 200, "num_samples": size.draws, "num_chains": 2, "progress": False}
    return run | {"initial_position": start} | more


def _job(chain: int, folder: str, run: dict[str, Any]) -> int:
    """One chain in a worker, which leaves its checkpoint; the worker's process is returned."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", srmc.RunWarning)
        srmc.sample(gumbels, chains=[chain], checkpoint=folder, **run)
    return os.getpid()


def single_chains(size: Size) -> Row:
    """Single-chain jobs in two processes of their own, merged, beside all chains in this one."""
    run = _run(size, num_chains=size.jobs)
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        job = functools.partial(_job, folder=folder, run=run)
        with ProcessPoolExecutor(2, mp_context=spawn) as pool:
            processes = set(pool.map(job, reversed(range(size.jobs))))
        merged = srmc.merge(folder, gumbels, initial_position=run["initial_position"])
    whole = srmc.sample(gumbels, chains=range(size.jobs), **run)
    held = _equal(merged, whole) and os.getpid() not in processes
    return {"held": held, "processes": len(processes), "rebalanced": merged.is_rebalanced}


def models_on_dask(size: Size) -> Row:
    """Models on a LocalCluster, one of which fails and one kills its worker."""
    import dask
    from distributed import Client, LocalCluster

    models: dict[str, Any] = {
        f"model-{n}": Partial(gumbels, at=n / size.models) for n in range(size.models - 2)
    }
    models |= {"fails": f"{HERE}:fails", "kills": f"{HERE}:kills"}
    names = sorted(models, key=_place)  # the two are among the others
    models = {name: models[name] for name in names}
    run = _run(size, kernel="mala")
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        dask.config.set({"distributed.scheduler.worker-saturation": 1.0}),
        LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        runs = srmc.sample_many(models, client.get_executor(), **run)
        failed = {name: type(error).__name__ for name, error in runs.failed.items()}
        results = {name: runs[name].result for name in names if name not in failed}
    here = srmc.sample_many({name: _safe(name, model) for name, model in models.items()}, **run)
    held = {*failed} == {"fails", "kills"} and len(results) == size.models - 2
    same = [_equal(result, here[name].result) for name, result in results.items()]
    return {"held": held and all(same), "failed": failed, "results": len(results)}


def _place(name: str) -> int:
    """A number that mixes the names."""
    return sum(ord(letter) * 31**k for k, letter in enumerate(name)) % 997


def _safe(name: str, model: Any) -> Any:
    return f"{HERE}:fails" if name == "kills" else model


def resumed(size: Size) -> Row:
    """A run that is stored in memory after a third of its draws, and resumed."""
    url = f"memory://machines/{secrets.token_hex(4)}"
    run = _run(size, checkpoint=url, checkpoint_seconds=1e-3)
    part = srmc.sample(gumbels, **run | {"num_samples": size.draws // 3})
    again = srmc.sample(gumbels, **run, resume=True)
    whole = srmc.sample(gumbels, **_run(size))
    return {"held": _equal(again, whole), "draws": [len(r.draws["x"][0]) for r in (part, again)]}


def _equal(one: srmc.Result | None, other: srmc.Result | None) -> bool:
    """Whether draws, plain draws and statistics are equal bit for bit."""
    assert one is not None
    assert other is not None
    parts = ([dict(x or {}) for x in (r.draws, r.base, r.stats)] for r in (one, other))
    return all(
        a.keys() == b.keys() and all(np.array_equal(a[k], b[k], equal_nan=True) for k in a)
        for a, b in zip(*parts, strict=True)
    )


def machines_table(rows: list[Row]) -> Table:
    """The rows of `srmc bench machines`."""
    lines = [["", "bit for bit", "seconds"]]
    lines += [[r["case"], "yes" if r["held"] else "NO", f"{r['seconds']:.0f}"] for r in rows]
    return terminal("What many machines must not change", lines)
