"""`srmc bench gallery`: models that a new user brings, at the defaults, beside long runs."""

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

import srmc
from srmc.bench.gallery import calls
from srmc.bench.gallery.calls import LIBRARIES, Size
from srmc.bench.gallery.compare import FUNCTIONALS, Known, known, ratio, root_mean_square
from srmc.bench.gallery.models import MODELS

QUICK = ("best", "baseball")
Row = dict[str, Any]


def gallery(
    models: Sequence[str] | None = None,
    *,
    replicates: int = 6,
    traces: int = 2,
    quick: bool = False,
    done: Sequence[Row] = (),
    on_progress: Callable[..., None] = lambda *args: None,
    on_row: Callable[[Row], None] = lambda row: None,
) -> list[Row]:
    """A row per model; those in `done` are taken as they are.

    Each model has a process of its own, since PyTensor changes JAX's precision for all. `quick`
    takes two models and short runs, in this process.
    """
    names = list(models or (QUICK if quick else MODELS))
    unknown = [name for name in names if name not in MODELS]
    if unknown:
        raise ValueError(f"models must be among {', '.join(MODELS)}, got {unknown}")
    absent = [lib for lib in ("pymc", "numpyro") if importlib.util.find_spec(lib) is None]
    if absent:
        raise ValueError(f"the gallery needs {' and '.join(absent)}: pip install 'srmc[models]'")
    finished = {row["model"]: row for row in done}
    rows = []
    for n, name in enumerate(names):
        on_progress("gallery", n, len(names), name)
        if name in finished:
            rows.append(finished[name])
            continue
        if quick:
            row = study(name, Size(200, 100, 4), 2, 1, 5)
        else:
            row = _child("run", {"model": name, "replicates": replicates, "traces": traces})
            row["first_call"] = first_calls(name)
        rows.append(row)
        on_row(row)
    on_progress("gallery", len(names), len(names), "")
    return rows


def study(name: str, size: Size, replicates: int, traces: int, longer: int = 0) -> Row:
    """Runs of `srmc.sample` and of `srmc.improve` beside a long plain run, and what they said."""
    entry, began = MODELS[name], time.perf_counter()
    told: list[dict[str, Any]] = []
    summaries: list[tuple[Any, Any]] = []
    forms: list[str] = []
    for seed in range(replicates):
        with listening(told, "sample"):
            result = calls.srmc_sample(name, size, seed)
            summaries.append((result.summary(base=True), result.summary()))
            forms.append(result.about["rebalancing"][0]["form"])
    truth = _long_run(name, size, longer or entry.longer)
    improved = [_improved(name, size, seed, told) for seed in range(traces)]
    row: Row = {
        "model": name,
        "about": entry.about,
        "library": entry.library,
        "coordinates": len(truth.summary),
        "compared": len(truth.names["quantiles"]),
        "heavy": list(entry.heavy),
        "size": list(size),
        "replicates": replicates,
        "traces": traces,
        "longer": longer or entry.longer,
        "forms": {form: forms.count(form) for form in sorted(set(forms))},
        "told": told,
        "sample": _compared(truth, summaries) if summaries else {},
        "improve": _compared(truth, [pair for pair in improved if pair], errors=False),
        "largest_r_hat": float(np.nanmax(truth.summary["r_hat_base"])),
    }
    return row | {"seconds": time.perf_counter() - began}


def _long_run(name: str, size: Size, longer: int) -> Known:
    """A plain run in double precision, with a seed of its own."""
    with warnings.catch_warnings(), jax.enable_x64(True):
        warnings.simplefilter("ignore")
        length = size._replace(samples=longer * size.samples)
        result = calls.srmc_sample(name, length, 10**6, alpha=0.0, target_acceptance=0.9)
    return known(result.summary(), MODELS[name].heavy)


def _improved(name: str, size: Size, seed: int, told: list[dict[str, Any]]) -> Any:
    """Summaries of the trace of the model's own library, before and after `srmc.improve`."""
    entry = MODELS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trace = LIBRARIES[entry.library](name, size, seed)
    given = {} if entry.data is None else {"data": entry.data()}
    with listening(told, "improve"):
        better = srmc.improve(trace, calls.built(name), progress=False, **given)
        return table_of(better["posterior_plain"]), table_of(better["posterior"])
    return None  # it failed, and `told` says how


def table_of(posterior: Any) -> Any:
    """Mean, sd and quantiles of each coordinate, in the rows and columns of `summary()`."""
    import pandas as pd

    rows = {}
    for name, array in posterior.items():
        axes = [array[dim].values for dim in array.dims[2:]]
        for index in np.ndindex(array.shape[2:]):
            x = array.values[:, :, *index]
            place = ",".join(str(axis[i]) for axis, i in zip(axes, index, strict=True))
            label = f"{name}[{place}]" if index else str(name)
            rows[label] = (x.mean(), x.std(), *np.quantile(x, (0.05, 0.5, 0.95)))
    columns = ["mean", "sd", "5%", "50%", "95%"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def _compared(truth: Known, pairs: list[tuple[Any, Any]], errors: bool = True) -> dict[str, Any]:
    """For each functional: squared errors after over before, and z-scores of both if known."""
    found: dict[str, Any] = {}
    for what in FUNCTIONALS if pairs else ():
        if not truth.names[what]:
            continue
        before, after = ([truth.square(pair[i], what) for pair in pairs] for i in (0, 1))
        found[what] = {"ratio": ratio(after, before)}
        if errors:
            for i, side in enumerate(("plain", "rebalanced")):
                z = [truth.z(pair[i], what) for pair in pairs]
                found[what][f"z_{side}"] = root_mean_square(z)
    return found


@contextmanager
def listening(told: list[dict[str, Any]], call: str) -> Iterator[None]:
    """Note all warnings, and an exception in their place; texts that differ in numbers count as one.

    PyTensor's warning about BLAS is about the installation, and left out.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
            failure = []
        except Exception as error:  # the study goes on, and the page shows it
            failure = [(f"failed: {type(error).__name__}", str(error))]
    heard = [(w.category.__name__, str(w.message)) for w in caught] + failure
    for kind, text in heard:
        if "BLAS" in text:
            continue
        shape = re.sub(r"\d[\d.,]*", "#", text)
        same = [t for t in told if (t["call"], t["kind"], t["shape"]) == (call, kind, shape)]
        if same:
            same[0]["count"] += 1
        else:
            told.append({"call": call, "kind": kind, "shape": shape, "text": text, "count": 1})


def first_calls(name: str, size: Size = Size()) -> dict[str, float | None]:
    """Seconds of the first call of each library in a new process without compiled programs."""
    seconds: dict[str, float | None] = {}
    for library in LIBRARIES:
        if calls.usable(library, name):
            asked = {"library": library, "model": name, "size": size}
            try:
                seconds[library] = _child("calls", asked)["seconds"]
            except subprocess.CalledProcessError:
                seconds[library] = None
    return seconds


def _child(module: str, asked: dict[str, Any]) -> dict[str, Any]:
    """The outcome of a module of this package in a new process, with caches of its own."""
    with tempfile.TemporaryDirectory() as folder:
        caches = {"SRMC_PROGRAMS": folder, "PYTENSOR_FLAGS": f"base_compiledir={folder}/pytensor"}
        ran = subprocess.run(
            [sys.executable, "-m", f"srmc.bench.gallery.{module}", json.dumps(asked)],
            env=os.environ | caches | {"OPENBLAS_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    out: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return out


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    found = study(given["model"], Size(), given["replicates"], given["traces"])
    sys.stdout.write(json.dumps(found) + "\n")
