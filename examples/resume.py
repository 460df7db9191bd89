"""A run that is killed outright, resumed, and ends with the same draws."""

import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import srmc

OPTIONS = {"kernel": "mala", "num_samples": 100_000, "thin": 10, "num_warmup": 500}


def run(folder=None):
    target = srmc.targets.logistic()
    return srmc.sample(
        target, checkpoint=folder, resume=folder is not None, checkpoint_seconds=0.2, **OPTIONS
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        run(sys.argv[1])
        sys.exit()
    with tempfile.TemporaryDirectory() as folder:
        child = subprocess.Popen([sys.executable, __file__, folder])
        state = Path(folder) / "state.npz"
        while child.poll() is None and not state.exists():
            time.sleep(0.05)
        child.send_signal(signal.SIGKILL)
        child.wait()
        print(f"killed after {int(np.load(state)['done'])} of 10000 draws a chain; resuming")
        resumed = run(folder)
    straight = run()
    print("the same draws:", np.array_equal(resumed.draws["x"], straight.draws["x"]))
