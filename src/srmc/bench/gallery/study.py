"""The study of one model: runs at the defaults beside long runs, and what was said."""

import json
import pickle
import re
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import srmc
from srmc.bench.gallery import calls
from srmc.bench.gallery.calls import Size
from srmc.bench.gallery.compare import Known, known, ratios, worse, z_scores
from srmc.bench.gallery.models import MODELS

Row = dict[str, Any]
Told = list[dict[str, Any]]
LONGER = 4  # a long run has as many times the draws of a run at the defaults
FIRST_LONG_SEED = 10**6


class Limits(NamedTuple):
    """Largest numbers of runs and of long runs, and the seconds after which no other begins."""

    runs: int = 12
    long_runs: int = 10
    seconds: float = 150.0


def study(name: str, size: Size, limits: Limits, folder: Path) -> Iterator[Row]:
    """The row of a model, after each stage what is known of it.

    A third of the time is for the runs and the rest for long runs; there is at least one of each.
    Traces to improve are in `folder`.
    """
    entry, began = MODELS[name], time.perf_counter()
    spent = lambda: (time.perf_counter() - began) / limits.seconds
    told: Told = []
    row: Row = {"model": name, "about": entry.about, "library": entry.library, "told": told}
    row |= {"heavy": list(entry.heavy), "size": list(size)}
    plain, rebalanced, forms = [], [], []
    for seed in range(limits.runs):
        with listening(told, "sample"):
            result = calls.srmc_sample(name, size, seed)
            pair = result.summary(base=True), result.summary()
            plain.append(pair[0])
            rebalanced.append(pair[1])
            forms += [report["form"] for report in result.about.get("rebalancing", [])]
        row["runs"] = seed + 1
        if spent() > 1 / 3:
            break
    row["forms"] = {form: forms.count(form) for form in sorted(set(forms))}
    improved = [_improved(name, trace, told) for trace in sorted(folder.glob("*.pickle"))]
    row |= {"traces": len(improved), "seconds": time.perf_counter() - began}
    yield row
    long_runs: list[Any] = []
    while not long_runs or (len(long_runs) < limits.long_runs and spent() < 1):
        long_runs.append(_long_run(name, size, FIRST_LONG_SEED + len(long_runs)))
    truth = known(long_runs, entry.heavy)
    row |= {"coordinates": len(long_runs[0]), "compared": len(truth.names)}
    row |= {"longer": LONGER * len(long_runs)}
    row["largest_r_hat"] = float(max(np.nanmax(one["r_hat_base"]) for one in long_runs))
    row |= {"sample": _compared(truth, plain, rebalanced)}
    pairs = [pair for pair in improved if pair]
    row["improve"] = ratios(truth, *map(list, zip(*pairs, strict=True))) if pairs else {}
    yield row | {"seconds": time.perf_counter() - began}


def _compared(truth: Known, plain: list[Any], rebalanced: list[Any]) -> dict[str, Any]:
    if not plain:
        return {}
    return {
        "z_plain": z_scores(truth, plain),
        "z_rebalanced": z_scores(truth, rebalanced),
        "ratios": ratios(truth, plain, rebalanced),
        "worse": worse(truth, plain, rebalanced) if len(plain) > 1 else [],
    }


def _long_run(name: str, size: Size, seed: int) -> Any:
    """The summary of a plain run in double precision."""
    length = size._replace(samples=LONGER * size.samples)
    with warnings.catch_warnings(), jax.enable_x64(True):
        warnings.simplefilter("ignore")
        return calls.srmc_sample(name, length, seed, alpha=0.0, target_acceptance=0.9).summary()


def _improved(name: str, file: Path, told: Told) -> Any:
    """Summaries of a trace before and after `srmc.improve`; None if it failed, which is told."""
    data = MODELS[name].data
    trace = pickle.loads(file.read_bytes())
    with listening(told, "improve"):
        better = srmc.improve(
            trace, calls.built(name), data=None if data is None else data(), progress=False
        )
        return table_of(better["posterior_plain"]), table_of(better["posterior"])
    return None


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


@contextmanager
def listening(told: Told, call: str) -> Iterator[None]:
    """Note all warnings, and an exception in its place, each with the number of runs that said it.

    Texts that differ in numbers count as one. PyTensor's warning that it found no BLAS is about the
    installation, and left out.
    """
    failure = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        except Exception as error:  # the study goes on, and the page shows it
            failure = [(f"failed: {type(error).__name__}", str(error))]
    heard = [(w.category.__name__, str(w.message)) for w in caught] + failure
    for kind, text in dict.fromkeys((k, t) for k, t in heard if "BLAS" not in t):
        shape = re.sub(r"\d[\d.,]*", "#", text)
        same = [t for t in told if (t["call"], t["kind"], t["shape"]) == (call, kind, shape)]
        if same:
            same[0]["count"] += 1
        else:
            told.append({"call": call, "kind": kind, "shape": shape, "text": text, "count": 1})


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    size, limits = Size(*asked["size"]), Limits(*asked["limits"])
    for found in study(asked["name"], size, limits, Path(asked["folder"])):
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()
