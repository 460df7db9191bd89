"""ArviZ is imported whatever other processes do, and without a home."""

import importlib.abc
import os
import subprocess
import sys

import pytest

from srmc import _extras

ALONE = f"""
import importlib.util
spec = importlib.util.spec_from_file_location("_arviz", {_extras.__file__!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
import matplotlib.pyplot, xarray  # what takes long; then all go on at once
print("ready", flush=True)
input()
module.import_arviz()
"""

TRACE = """
import jax.numpy as jnp, numpy as np, srmc
size = {"num_warmup": 100, "num_samples": 100, "num_chains": 2, "progress": False}
start = {"initial_position": np.zeros(2, np.float32), "kernel": "mala", "alpha": 0.0}
result = srmc.sample(lambda x: -0.5 * jnp.sum(x**2), **start, **size)
assert result.to_arviz()["posterior"]["x"].shape == (2, 100, 2)
"""


def at_home(home):
    return {k: v for k, v in os.environ.items() if k != "XDG_CACHE_HOME"} | {"HOME": str(home)}


def test_four_processes_import_it_at_once_in_an_empty_home(tmp_path):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, "-c", ALONE]
    children = [subprocess.Popen(command, env=at_home(tmp_path), **pipes) for _ in range(4)]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    for child in children:
        child.stdin.write("\n")
        child.stdin.flush()
    for child in children:
        child.communicate()
    assert [child.returncode for child in children] == [0] * 4
    assert not list(tmp_path.rglob("*arviz*"))  # whose stamp of the day is what they would share


def test_a_trace_is_made_without_a_home():
    subprocess.run([sys.executable, "-c", TRACE], env=at_home("/dev/null"), check=True)


def test_an_arviz_that_does_not_fit_matplotlib_says_what_to_install(monkeypatch):
    class Finder(importlib.abc.MetaPathFinder):
        def find_spec(self, name, *_):
            if name == "arviz":
                raise AttributeError("module 'matplotlib.style' has no attribute 'core'")

    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    monkeypatch.delitem(sys.modules, "arviz", raising=False)
    with pytest.raises(ImportError, match=r"'core'\. .* pip install 'matplotlib<3.11'"):
        _extras.import_arviz()
