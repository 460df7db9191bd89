"""Runs of one and two processes that are killed at random times, and resumed to the same draws.

    python tests/kills.py 50

prints a line for each kill. The tests do the same with a few.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import numpy as np

JOB = textwrap.dedent(
    """
    import signal
    import sys
    import jax
    import numpy as np

    signal.signal(signal.SIGINT, signal.default_int_handler)  # some shells have it ignored
    out, folder, shared, processes, me, port = *sys.argv[1:3], *map(int, sys.argv[3:])
    if processes > 1:
        jax.distributed.initialize(f"localhost:{port}", processes, me,
                                   initialization_timeout=30, heartbeat_timeout_seconds=10)
    import srmc

    def density(x):
        wave = jax.lax.fori_loop(0, 500, lambda _, y: jax.numpy.sin(y), x)
        return jax.numpy.sum(1.5 * x - jax.numpy.exp(x)) + 1e-3 * jax.numpy.sum(wave)

    print("begins", flush=True)
    result = srmc.sample(density, kernel="mala", alpha=3.0 if shared else "auto", num_warmup=4000,
                         num_samples=600 if shared else 8000, num_chains=2,
                         shared_history=bool(shared),
                         initial_position=np.zeros(3, np.float32), progress=False,
                         checkpoint=folder, resume=True, checkpoint_seconds=0.3)
    if result.interrupted:
        sys.exit(75)
    draws = result.draws["x"] if result.base is None else result.base["x"]
    np.savez(f"{out}-{me}.npz", x=draws, accepted=result.stats["acceptance_rate"])
    """
)
PATIENCE = 120  # seconds, after which a process counts as hanging


def free_port():
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return free.getsockname()[1]


def pair(job, folder):
    """Start two processes of a job, which takes a folder, the number of the process and a port."""
    args, port = [sys.executable, str(job), str(folder)], str(free_port())
    return [subprocess.Popen([*args, str(me), port]) for me in (0, 1)]


def start(folder, processes, shared, name="run"):
    """Start the processes of a run, or resume it."""
    job = Path(folder, "job.py")
    job.write_text(JOB)
    port = free_port()
    env = os.environ | {"JAX_PLATFORMS": "cpu"}
    args = [sys.executable, str(job), f"{folder}/{name}-out", f"{folder}/{name}", str(int(shared))]
    with open(f"{folder}/{name}.log", "a") as log:
        return [
            subprocess.Popen(
                [*args, str(processes), str(me), str(port)], env=env, stdout=log, stderr=log
            )
            for me in range(processes)
        ]


def end(children):
    """Wait for the end of all processes; return their exit codes, "hangs" for those that do."""
    codes, until = [], time.monotonic() + PATIENCE
    for child in children:
        try:
            codes.append(child.wait(timeout=max(0.1, until - time.monotonic())))
        except subprocess.TimeoutExpired:
            child.kill()
            codes.append("hangs")
    return codes


def stage(folder, processes):
    """How far a run is, from its files."""
    part = Path(folder, "run", "process-0" if processes > 1 else "")
    names = {"state.npz": "sampling", "warmup.npz": "sampling", "run.json": "warm-up"}
    return next((stage for name, stage in names.items() if (part / name).exists()), "start")


def kill_and_resume(folder, processes, shared, rng, kills):
    """Kill a run so many times at random, then let it end; yields what happened, line by line."""
    numbers = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
    for _ in range(kills):
        children = start(folder, processes, shared)
        time.sleep(rng.uniform(2.0, 12.0))
        number = numbers[rng.integers(3)]
        hit = children if rng.random() < 0.5 else [children[rng.integers(processes)]]
        where, began = stage(folder, processes), time.monotonic()
        for child in hit:
            child.send_signal(number)
        codes = end(children)
        yield f"{number.name} to {len(hit)} of {processes} in {where}: {codes} after " + (
            f"{time.monotonic() - began:.1f} s"
        )
    yield f"resumed: {end(start(folder, processes, shared))}"


def same_draws(folder):
    """Whether the run that was killed has the draws of the one that was not."""
    names = [Path(folder, f"{name}-out-0.npz") for name in ("run", "whole")]
    if not all(name.exists() for name in names):
        return False
    files = [np.load(name) for name in names]
    return all(np.array_equal(files[0][key], files[1][key]) for key in ("x", "accepted"))


def main(total, seed=0):
    rng, done, failures = np.random.default_rng(seed), 0, 0
    while done < total:
        processes, shared = int(rng.integers(1, 3)), bool(rng.integers(2))
        kills = min(total - done, int(rng.integers(1, 5)))
        with tempfile.TemporaryDirectory() as folder:
            lines = list(kill_and_resume(folder, processes, shared, rng, kills))
            assert end(start(folder, processes, shared, "whole")) == [0] * processes
            lines.append("the same draws" if same_draws(folder) else "FAILURE: other draws")
        failures += sum("hangs" in line or "FAILURE" in line for line in lines)
        done += kills
        sys.stdout.write("\n".join([*lines, f"{done} kills, {failures} failures", ""]))
        sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), *map(int, sys.argv[2:]))
