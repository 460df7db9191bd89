"""The scripts for clusters, as processes of this machine."""

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import srmc

EXAMPLES = Path(__file__).parents[2] / "examples" / "cluster"


@pytest.fixture
def folder(tmp_path):
    """The scripts, with a short run of two chains, by a kernel that is compiled fast."""
    folder = shutil.copytree(EXAMPLES, tmp_path / "cluster")
    text = (folder / "model.py").read_text()
    few = '"kernel": "mala", "num_chains": 2'
    short = text.replace('"num_chains": 16', few).replace("1000", "100")
    assert short != text
    (folder / "model.py").write_text(short)
    return folder


def start(folder, command, **env):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.Popen(
        command,
        cwd=folder,
        env=os.environ | {"PATH": path} | env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(*children):
    for child in children:
        text, _ = child.communicate(timeout=300)
        assert child.returncode == 0, text


def test_an_array_of_chains_is_the_whole_run(folder):
    """One is a task of Slurm, the other a pod of Kubernetes."""
    task = start(folder, ["bash", "array.slurm"], SLURM_ARRAY_TASK_ID="1")
    finish(task, start(folder, ["python", "chain.py"], JOB_COMPLETION_INDEX="0"))
    finish(start(folder, ["python", "merge.py"]))
    merged = srmc.load(folder / "runs" / "result.nc")
    scope = runpy.run_path(str(folder / "model.py"))
    whole = srmc.sample(scope["MODEL"], chains=range(2), progress=False, **scope["RUN"])
    np.testing.assert_array_equal(merged.base["x"], whole.base["x"])
    np.testing.assert_array_equal(merged.draws["x"], whole.draws["x"])


def test_a_job_over_nodes_is_one_run(folder):
    """Two processes of Slurm, as far as JAX can tell."""
    slurm = {"SLURM_STEP_NODELIST": "localhost", "SLURM_NTASKS": "2", "JAX_PLATFORMS": "cpu"}
    slurm["SLURM_JOB_ID"] = str(os.getpid())  # which determines the port
    names = ("SLURM_PROCID", "SLURM_LOCALID")
    each = [slurm | dict.fromkeys(names, str(n)) for n in range(2)]
    finish(*(start(folder, ["python", "nodes.py"], **own) for own in each))
    found = srmc.load(folder / "runs" / "result.nc")
    scope = runpy.run_path(str(folder / "model.py"))
    alone = srmc.sample(scope["MODEL"], progress=False, **scope["RUN"])
    np.testing.assert_array_equal(found.draws["x"], alone.draws["x"])


def test_the_scripts_ask_for_as_many_jobs_as_there_are_chains():
    chains = runpy.run_path(str(EXAMPLES / "model.py"))["RUN"]["num_chains"]
    assert f"#SBATCH --array=0-{chains - 1}\n" in (EXAMPLES / "array.slurm").read_text()
    job = (EXAMPLES / "chains.yaml").read_text()
    assert f"\n  completions: {chains}\n" in job
