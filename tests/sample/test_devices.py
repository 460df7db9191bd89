"""One device, several, several processes: real child processes, since JAX counts devices once."""

import os
import runpy
import subprocess
import sys
import textwrap
import threading

import jax
import jax.numpy as jnp
import numpy as np

import kills
from srmc.sample.devices import at_once

HERE = jax.sharding.SingleDeviceSharding(jax.devices()[0])
JOB = textwrap.dedent(
    """
    import sys
    import jax
    import numpy as np

    out, processes, me, port = sys.argv[1], *map(int, sys.argv[2:])
    if processes > 1:
        jax.distributed.initialize(f"localhost:{port}", processes, me)
    import srmc

    def density(x):
        return jax.numpy.sum(1.5 * x - jax.numpy.exp(x)) - 0.5 * (x[0] - x[1]) ** 2

    def run(**options):
        return srmc.sample(density, kernel="mala", alpha=3.0, num_warmup=100, num_samples=50,
                           num_chains=4, initial_position=np.zeros(3, np.float32), progress=False,
                           **options)

    for name, shared in (("own", False), ("shared", True)):
        result = run(shared_history=shared)
        np.savez(f"{out}-{name}-{me}.npz", x=result.draws["x"], theta=result.stats["theta_norm"])
    print(len(jax.devices()), "devices")
    """
)


def start(folder, out, devices=1, processes=1, me=0, port=0):
    return child(folder, JOB, devices, str(folder / out), str(processes), str(me), str(port))


def child(folder, script, devices, *args):
    job = folder / "job.py"
    if not job.exists():  # which another child may be reading
        job.write_text(script)
    flags = os.environ.get("XLA_FLAGS", "")
    env = os.environ | {
        "XLA_FLAGS": f"{flags} --xla_force_host_platform_device_count={devices}",
        "JAX_PLATFORMS": "cpu",
    }
    command = [sys.executable, str(job), *args]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=env, stdout=pipe, stderr=subprocess.STDOUT, text=True)


def finish(*children):
    for child in children:
        text, _ = child.communicate(timeout=300)
        assert child.returncode == 0, text


def test_draws_do_not_depend_on_devices_and_processes(tmp_path, monkeypatch):
    """Bit for bit with own histories, but for rounding with a shared one."""
    finish(start(tmp_path, "four", devices=4))
    monkeypatch.setattr(sys, "argv", ["job.py", str(tmp_path / "one"), "1", "0", "0"])
    runpy.run_path(str(tmp_path / "job.py"))
    with kills.reserved_port() as port:
        finish(*[start(tmp_path, "two", processes=2, me=me, port=port) for me in (0, 1)])
    for history in ("own", "shared"):
        one = np.load(tmp_path / f"one-{history}-0.npz")
        assert one["x"].shape == (4, 50, 3)
        assert np.all(one["theta"] > 0)
        assert np.all(one["theta"] == one["theta"][0]) == (history == "shared")
        for other in ("four-{}-0", "two-{}-0", "two-{}-1"):
            many = np.load(tmp_path / f"{other.format(history)}.npz")
            tolerance = 0 if history == "own" else 1e-6
            np.testing.assert_allclose(one["x"], many["x"], rtol=0, atol=tolerance)


def test_blocks_of_one_device_run_at_the_same_time():
    both = threading.Barrier(2)

    def meet(x):
        both.wait(timeout=60)  # raises unless the other block is running, too
        return x

    program = jax.jit(lambda x: jax.pure_callback(meet, jax.ShapeDtypeStruct((), x.dtype), x))
    blocks = [(jnp.ones(()),), (jnp.zeros(()),)]
    with at_once(program, blocks, [HERE, HERE]) as run:
        assert [float(x) for x in run(blocks)] == [1.0, 0.0]


def test_blocks_are_compiled_with_the_settings_of_their_caller(x64):
    half = jax.jit(lambda x: x / 3)
    blocks = [(jnp.ones(3),), (jnp.ones(3),)]
    with at_once(half, blocks, [HERE, HERE]) as run:
        assert all(x.dtype == np.float64 for x in run(blocks))


SHARDED = textwrap.dedent(
    """
    import warnings

    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    import srmc
    from srmc.sample.devices import lay_out

    def logdensity(w, rows, labels):
        logit = rows @ w
        return jnp.sum(labels * logit - jax.nn.softplus(logit)) - 0.5 * jnp.sum(w**2)

    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 3)).astype(np.float32)
    whole = {"rows": rows, "labels": (rng.random(400) < 0.5).astype(np.float32)}
    devices = np.array(jax.devices())
    put = lambda n: jax.device_put(whole, NamedSharding(Mesh(devices[:n], "n"), PartitionSpec("n")))
    cut = put(4)

    layout = lay_out(3, False, cut)
    assert [len(chains) for chains in layout.chains] == [3]
    assert layout.share(cut)[0]["rows"] is cut["rows"]  # no device gets all rows
    assert {s.data.shape for s in cut["rows"].addressable_shards} == {(100, 3)}
    try:
        lay_out(3, False, cut | {"labels": put(2)["labels"]})
    except ValueError as error:
        assert "one mesh" in str(error)
    else:
        raise AssertionError("two meshes")

    warnings.simplefilter("ignore")
    found = [
        srmc.sample(jax.tree_util.Partial(logdensity, **data), kernel="hmc", alpha=0.0,
                    num_warmup=100, num_samples=400, num_chains=2, progress=False,
                    initial_position=np.zeros(3, np.float32)).draws["x"]
        for data in (cut, whole)
    ]
    far = np.abs(np.mean(found[0] - found[1], axis=(0, 1))) / np.std(found[1], axis=(0, 1))
    assert np.all(far < 0.5), far  # rounding differs, so that chains may part
    """
)


def test_data_that_are_sharded_stay_where_they_are(tmp_path):
    finish(child(tmp_path, SHARDED, devices=4))
