import functools
import os
import subprocess
import sys

import jax.numpy as jnp
import numpy as np

import srmc
from srmc.sample.identity import describe

SETTINGS = (
    "import srmc; from srmc.sample.identity import describe; "
    "given = srmc.paper_settings(0.5) | {'alpha': srmc.watched(2.0)}; "
    "print({k: describe(v) for k, v in given.items()}, describe(lambda n: 1 / n))"
)


def test_settings_are_the_same_in_every_process(capsys):
    """Also where strings hash differently and functions are elsewhere."""
    exec(SETTINGS, {"__name__": "__main__"})
    here = capsys.readouterr().out
    assert "0.6" in here
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    environment = os.environ | {"PYTHONHASHSEED": seed}
    command = [sys.executable, "-c", SETTINGS]
    assert here == subprocess.check_output(command, env=environment, text=True)


def schedule(power):
    return lambda n, scale=2.0: scale / n**power


def test_schedules_that_differ_are_told_apart():
    same = [schedule(0.6), schedule(0.6)]
    assert len({describe(f) for f in same}) == 1
    different = [
        schedule(0.6),
        schedule(0.7),
        lambda n: 1 / n,
        lambda n: 2 / n,
        lambda n: 1 * n,
        lambda n, k=1: k / n,
        lambda n, k=2: k / n,
        functools.partial(schedule, 0.6),
        functools.partial(schedule, 0.7),
        np.ones(3),
        jnp.ones(3) * 2,
        srmc.gain(0.6),
        srmc.gain(0.7),
        srmc.watched(1.0),
        srmc.watched(2.0),
    ]
    assert len({describe(f) for f in different}) == len(different)
