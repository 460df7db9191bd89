"""What `srmc bench growth` measures in a process that sees four devices."""

import json
import re
import sys
import time
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import srmc
from srmc.sample import CHAINS
from srmc.types import Array, Float, Scalar
from srmc_studies.bench.clock_calls import peak_megabytes, stretched

Row = dict[str, Any]
ROWS, DIM = 10_000_000, 10
SUBSET = 100_000  # rows from which the start is found
STEPS = {"num_warmup": 100, "num_samples": 20, "num_integration_steps": 1}
SIZE: dict[str, Any] = STEPS | {"num_chains": 2}


def logistic(
    w: Float[Array, " d"], rows: Float[Array, "n d"], labels: Float[Array, " n"]
) -> Scalar:
    """The log posterior density of a logistic regression."""
    logit = rows @ w
    value: Scalar = jnp.sum(labels * logit - jax.nn.softplus(logit)) - 0.5 * jnp.sum(w**2)
    return value


def made_rows(count: int, dim: int) -> dict[str, np.ndarray]:
    """Normal covariates and labels, whose true coefficients are 1."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((count, dim), np.float32)
    labels = rng.random(count, np.float32) < 1 / (1 + np.exp(-rows.sum(axis=1)))
    return {"rows": rows, "labels": labels.astype(np.float32)}


def traffic() -> list[Row]:
    """The bytes of the all-reduces in the program of a step, from its text."""
    return [
        {"kind": "traffic", "dim": dim, "history": history, "bytes": _reduced(dim, history)}
        for dim in (10, 100, 1000)
        for history in ("own", "shared")
    ]


def _reduced(dim: int, history: str) -> int:
    axis = (CHAINS, "devices") if history == "shared" else None
    logp, metric = stretched(dim).logdensity_fn, jnp.ones(dim)
    kernel = srmc.hmc(logp, 0.1, 10, metric, alpha=1.0, frame="moving", history_axis=axis)

    def step(states: Any, keys: Array) -> Any:
        wrapped = jax.vmap(jax.random.wrap_key_data)(keys)
        return jax.vmap(kernel.step, axis_name=CHAINS)(wrapped, states)[0]

    states = jax.vmap(kernel.init)(jnp.zeros((8, dim)))
    keys = jax.random.key_data(jax.random.split(jax.random.key(0), 8))
    mesh, cut = Mesh(np.array(jax.devices()), ("devices",)), PartitionSpec("devices")
    spread = jax.shard_map(step, mesh=mesh, in_specs=cut, out_specs=cut, check_vma=False)
    program: Any = jax.jit(spread).lower(states, keys).compile()
    text: str = program.as_text()
    return sum(map(_bytes, re.findall(r"= (\S.*?) all-reduce(?:-start)?\(", text)))


def _bytes(shapes: str) -> int:
    """The bytes of arrays such as `f32[10,3]{1,0}`."""
    found = re.findall(r"[a-z]+(\d+)\[([\d,]*)\]", shapes)
    return sum(
        int(bits) // 8 * int(np.prod([int(n) for n in of.split(",") if n])) for bits, of in found
    )


def call() -> list[Row]:
    """A whole call of `srmc.sample` whose data are sharded over all devices."""
    data = made_rows(ROWS, DIM)
    start = _mode({name: x[:SUBSET] for name, x in data.items()})
    place = NamedSharding(Mesh(np.array(jax.devices()), ("rows",)), PartitionSpec("rows"))
    model = jax.tree_util.Partial(logistic, **jax.device_put(data, place))
    del data
    began = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", srmc.RunWarning)
        result = srmc.sample(model, kernel="hmc", initial_position=start, progress=False, **SIZE)
    summary = result.summary()
    far = float(np.max(np.abs(summary["mean"] - 1) / summary["sd"]))
    about = {"kind": "call", "rows": ROWS, "dim": DIM, "devices": len(jax.devices())}
    taken = {
        "seconds": time.perf_counter() - began[0],
        "cpu_seconds": time.process_time() - began[1],
        "gradients": int(result.gradients + result.about["gradients_of_warmup"]),
        "megabytes": peak_megabytes(),
        "largest_z": far,
    }
    return [about | SIZE | taken]


def _mode(data: dict[str, np.ndarray]) -> np.ndarray:
    """The mode of the posterior of these rows, by Newton's method."""
    logp = jax.tree_util.Partial(logistic, **data)
    step = jax.jit(lambda w: w - jnp.linalg.solve(jax.hessian(logp)(w), jax.grad(logp)(w)))
    w = jnp.zeros(DIM)
    for _ in range(10):
        w = step(w)
    return np.asarray(w)


if __name__ == "__main__":
    sys.stdout.write(json.dumps({"traffic": traffic, "call": call}[sys.argv[1]]()) + "\n")
