"""Runs of one and two processes that are killed, and resumed to the same draws.

    python tests/kills.py 50

kills at random times and prints a line for each kill. The tests kill at events.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

JOB = textwrap.dedent(
    """
    import signal
    import sys
    import jax
    import numpy as np

    signal.signal(signal.SIGINT, signal.default_int_handler)  # some shells have it ignored
    out, folder, shared, quick, processes, me, port = *sys.argv[1:3], *map(int, sys.argv[3:])
    if processes > 1:
        jax.distributed.initialize(f"localhost:{port}", processes, me,
                                   initialization_timeout=30, heartbeat_timeout_seconds=10)
    import srmc
    from srmc.sample.checkpoint import Checkpoint

    save = Checkpoint.save

    def saying(store, commit):
        save(store, commit)
        print("saved", flush=True)
        sys.stdin.readline()  # a test may hold it here

    Checkpoint.save = saying

    def density(x):
        wave = jax.lax.fori_loop(0, 500, lambda _, y: jax.numpy.sin(y), x)
        return jax.numpy.sum(1.5 * x - jax.numpy.exp(x)) + 1e-3 * jax.numpy.sum(wave)

    size = {"num_warmup": 4000, "num_samples": 600 if shared else 8000}
    size |= {"num_warmup": 120, "num_samples": 60} if quick else {}
    result = srmc.sample(density, kernel="mala", alpha=3.0 if shared else "auto", num_chains=2,
                         shared_history=bool(shared), **size, progress=False,
                         initial_position=np.zeros(3, np.float32), checkpoint=folder, resume=True,
                         checkpoint_seconds=1e-9 if quick else 0.3)
    if result.interrupted:
        sys.exit(75)
    draws = result.draws["x"] if result.base is None else result.base["x"]
    np.savez(f"{out}-{me}.npz", x=draws, accepted=result.stats["acceptance_rate"])
    """
)
PATIENCE = 120  # seconds, after which a process counts as hanging


@contextlib.contextmanager
def reserved_port():
    """A port that no other program is given meanwhile; JAX's coordinator may listen on it."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.bind(("localhost", 0))
        yield holder.getsockname()[1]


class Job(NamedTuple):
    """A run of one or two processes, in a folder; if `quick`, of few steps."""

    folder: Path
    processes: int
    shared: bool
    port: int
    quick: bool = False

    def start(self, name="run", **options):
        """Start the processes, or resume the run."""
        script = Path(self.folder, "job.py")
        script.write_text(JOB)
        env = os.environ | {"JAX_PLATFORMS": "cpu"}
        places = f"{self.folder}/{name}-out", f"{self.folder}/{name}"
        numbers = int(self.shared), int(self.quick), self.processes
        args = [sys.executable, str(script), *places, *map(str, numbers)]
        with open(f"{self.folder}/{name}.log", "a") as log:
            options = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log} | options
            return [
                subprocess.Popen([*args, str(me), str(self.port)], env=env, **options)
                for me in range(self.processes)
            ]


def wait_for_line(child, line):
    """Read what a child prints until it prints this line, or ends."""
    for text in child.stdout:
        if text == f"{line}\n":
            break


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


def kill_and_resume(job, rng, kills):
    """Kill a run at random times, then let it end; yields what happened, line by line."""
    numbers = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
    for _ in range(kills):
        children = job.start()
        time.sleep(rng.uniform(2.0, 12.0))
        number = numbers[rng.integers(3)]
        hit = children if rng.random() < 0.5 else [children[rng.integers(job.processes)]]
        where, began = stage(job.folder, job.processes), time.monotonic()
        for child in hit:
            child.send_signal(number)
        codes = end(children)
        yield f"{number.name} to {len(hit)} of {job.processes} in {where}: {codes} after " + (
            f"{time.monotonic() - began:.1f} s"
        )
    yield f"resumed: {end(job.start())}"


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
        with tempfile.TemporaryDirectory() as folder, reserved_port() as port:
            job = Job(folder, processes, shared, port)
            lines = list(kill_and_resume(job, rng, kills))
            assert end(job.start("whole")) == [0] * processes
            lines.append("the same draws" if same_draws(folder) else "FAILURE: other draws")
        failures += sum("hangs" in line or "FAILURE" in line for line in lines)
        done += kills
        sys.stdout.write("\n".join([*lines, f"{done} kills, {failures} failures", ""]))
        sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), *map(int, sys.argv[2:]))
