"""One device, several, several processes: real child processes, since JAX counts devices once."""

import os
import socket
import subprocess
import sys
import textwrap

import numpy as np
import pytest

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
        return srmc.sample(density, kernel="mala", alpha=3.0, num_warmup=200, num_samples=50,
                           num_chains=8, initial_position=np.zeros(3, np.float32), progress=False,
                           **options)

    for name, shared in (("own", False), ("shared", True)):
        result = run(shared_history=shared)
        np.savez(f"{out}-{name}-{me}.npz", x=result.draws["x"], theta=result.stats["theta_norm"])
    moments = run(keep="moments").moments["x"]
    np.savez(f"{out}-moments-{me}.npz", **moments)
    print(len(jax.devices()), "devices")
    """
)


def start(folder, out, devices=1, processes=1, me=0, port=0):
    job = folder / "job.py"
    job.write_text(JOB)
    env = os.environ | {
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
        "JAX_PLATFORMS": "cpu",
    }
    args = [sys.executable, str(job), str(folder / out), str(processes), str(me), str(port)]
    pipe = subprocess.PIPE
    return subprocess.Popen(args, env=env, stdout=pipe, stderr=subprocess.STDOUT, text=True)


def finish(*children):
    for child in children:
        text, _ = child.communicate(timeout=300)
        assert child.returncode == 0, text


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("devices")
    finish(start(folder, "one"), start(folder, "four", devices=4))
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    finish(*(start(folder, "two", processes=2, me=me, port=port) for me in (0, 1)))
    return lambda name: np.load(folder / f"{name}.npz")


MANY = ["four-{}-0", "two-{}-0", "two-{}-1"]


@pytest.mark.parametrize("other", MANY)
def test_own_histories_draw_the_same_to_the_last_bit(runs, other):
    one, many = runs("one-own-0"), runs(other.format("own"))
    assert one["x"].shape == (8, 50, 3)
    assert np.all(one["theta"] > 0)
    np.testing.assert_array_equal(one["x"], many["x"])


@pytest.mark.parametrize("other", MANY)
def test_a_shared_history_is_the_same_but_for_rounding(runs, other):
    one, many = runs("one-shared-0"), runs(other.format("shared"))
    assert np.all(one["theta"] == one["theta"][0])
    np.testing.assert_allclose(one["x"], many["x"], rtol=0, atol=1e-6)
    one, many = runs("one-moments-0"), runs(other.format("moments"))
    assert one["mean"].shape == (8, 3)
    for name in ("mean", "variance", "error"):
        np.testing.assert_allclose(one[name], many[name], rtol=1e-4, atol=1e-6)
