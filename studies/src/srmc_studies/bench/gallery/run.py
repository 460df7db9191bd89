"""`srmc bench gallery`: models that a new user brings, at the defaults, beside long runs."""

import contextlib
import datetime
import importlib.util
import json
import math
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from srmc_studies.bench.gallery import calls
from srmc_studies.bench.gallery.calls import Size
from srmc_studies.bench.gallery.models import MODELS
from srmc_studies.bench.gallery.study import Limits, Row, long_runs, study

QUICK = ("baseball",)
SIZE, QUICK_SIZE = Size(), Size(200, 100, 4)
PATIENCE = 20  # a process is stopped after as many times the seconds of the processor it may take


def gallery(
    models: Sequence[str] | None = None,
    *,
    limits: Limits = Limits(),  # noqa: B008 (it cannot change)
    traces: int = 3,
    quick: bool = False,
    keep: Path | None = None,
    done: Sequence[Row] = (),
    on_progress: Callable[..., None] = lambda *args: None,
    on_row: Callable[[Row], None] = lambda row: None,
) -> list[Row]:
    """A row per model; those in `done` are taken as they are.

    Each call of a library, and each model, has a process of its own: PyTensor changes JAX's
    precision for all. `quick` takes one model and short runs, in this process. Long runs and
    traces stay in the folder `keep`, and those that are there are not made again.
    """
    names = list(models or (QUICK if quick else MODELS))
    unknown = [name for name in names if name not in MODELS]
    if unknown:
        raise ValueError(f"model must be among {', '.join(MODELS)}, got {', '.join(unknown)}")
    absent = [lib for lib in ("pymc", "numpyro") if importlib.util.find_spec(lib) is None]
    if absent:
        raise ValueError(f"the gallery needs {' and '.join(absent)}: pip install 'srmc[models]'")
    finished = {row["model"]: row for row in done}
    rows = []
    for n, name in enumerate(names):
        on_progress("gallery", n, len(names), name)
        if name not in finished:
            finished[name] = _quick(name) if quick else _whole(name, limits, traces, keep)
            on_row(finished[name])
        rows.append(finished[name])
    on_progress("gallery", len(names), len(names), "")
    return rows


def _quick(name: str) -> Row:
    """A study of few programs to compile: the trace to improve is srmc's own, without a clock."""
    with tempfile.TemporaryDirectory() as folder:
        given = name, QUICK_SIZE, Limits(2, 2, longer=1), Path(folder)
        trace = calls.srmc_sample(name, QUICK_SIZE, 2, alpha=0.0).to_arviz()
        del trace["posterior_plain"]  # by which `improve` knows what it has improved
        (Path(folder) / "srmc.trace").write_bytes(pickle.dumps(trace))
        long_runs(*given)
        return _about(name, QUICK_SIZE) | study(*given) | {"first_call": {}}


def _about(name: str, size: Size) -> Row:
    entry = MODELS[name]
    row = {"model": name, "about": entry.about, "library": entry.library}
    return row | {"heavy": list(entry.heavy), "size": list(size), "told": []}


def _whole(name: str, limits: Limits, traces: int, keep: Path | None) -> Row:
    """First calls, whose traces are improved afterwards, then long runs, and then the study."""
    row, failures = _about(name, SIZE), []
    with contextlib.ExitStack() as stack:
        folder = str(keep / name) if keep else stack.enter_context(tempfile.TemporaryDirectory())
        Path(folder).mkdir(parents=True, exist_ok=True)
        first = _first_calls(name, limits, traces, folder)
        for stage, precision in (("long", "1"), ("study", "0")):
            if stage == "long" and any(Path(folder).glob("*.long")):
                continue
            part = {"name": name, "size": SIZE, "folder": folder, "stage": stage, "limits": limits}
            found, why = _child("study", part, PATIENCE * limits.seconds, precision)
            row |= found
            if why:
                failures.append({"call": stage, "kind": "failed", "text": why, "count": 1})
    told = row["told"] + failures
    return row | {"told": told, "first_call": first, "date": _today()}


def _today() -> str:
    return datetime.date.today().isoformat()


def _first_calls(name: str, limits: Limits, traces: int, folder: str) -> dict[str, Any]:
    """What the first call of each library took, or why it failed; traces go to the folder."""
    file = Path(folder) / "first_call.json"
    first: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    libraries = calls.usable(name)
    seeds = math.ceil(traces / (len(libraries) - 1))
    for library in libraries:
        if library not in first:
            asked = {"name": name, "size": SIZE, "folder": folder, "library": library}
            took, why = _child("calls", asked | {"seeds": seeds}, PATIENCE * limits.seconds)
            first[library] = took | {"date": _today()} if took else why
            file.write_text(json.dumps(first))
    return first


def _child(
    module: str, asked: dict[str, Any], patience: float, x64: str = "0"
) -> tuple[dict[str, Any], str]:
    """The last that a module of this package said in a new process, and how it failed, if so.

    Its caches of compiled programs are empty.
    """
    with tempfile.TemporaryDirectory() as folder:
        caches = {"SRMC_PROGRAMS": folder, "PYTENSOR_FLAGS": f"base_compiledir={folder}/pytensor"}
        command = [sys.executable, "-m", f"srmc_studies.bench.gallery.{module}", json.dumps(asked)]
        env = os.environ | caches | {"OPENBLAS_NUM_THREADS": "1", "JAX_ENABLE_X64": x64}
        with subprocess.Popen(
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                out, complaint = process.communicate(timeout=patience)
            except subprocess.TimeoutExpired:
                process.kill()
                out, _ = process.communicate()
                complaint = f"stopped after {patience:g} s"
    why = complaint.strip().splitlines()[-1:] if process.returncode else []
    lines = [line for line in out.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if lines else {}, "".join(why)
