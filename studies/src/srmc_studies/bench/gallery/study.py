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

import numpy as np
import pandas as pd

import srmc
from srmc_studies.bench.gallery import calls
from srmc_studies.bench.gallery.calls import Size
from srmc_studies.bench.gallery.compare import Known, known, ratios, worse, z_scores
from srmc_studies.bench.gallery.models import MODELS

Row = dict[str, Any]
Told = list[dict[str, Any]]
FIRST_LONG_SEED = 10**6
FEWEST = 3  # runs, for a standard error


class Limits(NamedTuple):
    """Largest numbers of runs and of long runs, and the processor's seconds after which none
    begins.

    A long run has `longer` times the draws of a run. A third of the time is for the runs, the rest
    for long runs; there are at least three runs, and one long run.
    """

    runs: int = 12
    long_runs: int = 10
    seconds: float = 150.0
    longer: int = 4


def long_runs(name: str, size: Size, limits: Limits, folder: Path) -> None:
    """Write summaries of plain runs to `folder`, each when it is there."""
    began, length = time.process_time(), size._replace(samples=limits.longer * size.samples)
    for n in range(limits.long_runs):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = calls.srmc_sample(
                name, length, FIRST_LONG_SEED + n, alpha=0.0, target_acceptance=0.9
            )
        result.summary().to_pickle(folder / f"{n}.long")
        if time.process_time() - began > limits.seconds * 2 / 3:
            break


def study(name: str, size: Size, limits: Limits, folder: Path) -> Row:
    """The row of a model; long runs and traces to improve are in `folder`."""
    entry, began = MODELS[name], time.process_time()
    told: Told = []
    plain, rebalanced, forms = [], [], []
    for seed in range(limits.runs):
        with listening(told, "sample"):
            result = calls.srmc_sample(name, size, seed)
            pair = result.summary(base=True), result.summary()
            plain.append(pair[0])
            rebalanced.append(pair[1])
            forms += ["moved" if report.moved else "none" for report in result.rebalancing]
        if seed >= FEWEST - 1 and time.process_time() - began > limits.seconds / 3:
            break
    improved = [_improved(name, file, told) for file in sorted(folder.glob("*.trace"))]
    row: Row = {
        "runs": seed + 1,
        "traces": len(improved),
        "told": told,
        "forms": {form: forms.count(form) for form in sorted(set(forms))},
        "seconds": time.process_time() - began,
    }
    long = [pd.read_pickle(file) for file in sorted(folder.glob("*.long"))]
    if not long:
        return row
    truth, pairs = known(long, entry.heavy), [pair for pair in improved if pair]
    return row | {
        "coordinates": len(long[0]),
        "compared": len(truth.names),
        "longer": limits.longer * len(long),
        "largest_r_hat": float(max(np.nanmax(one["r_hat_base"]) for one in long)),
        "sample": _compared(truth, plain, rebalanced),
        "improve": ratios(truth, *map(list, zip(*pairs, strict=True))) if pairs else {},
    }


def _compared(truth: Known, plain: list[Any], rebalanced: list[Any]) -> dict[str, Any]:
    if not plain:
        return {}
    return {
        "z_plain": z_scores(truth, plain),
        "z_rebalanced": z_scores(truth, rebalanced),
        "ratios": ratios(truth, plain, rebalanced),
        "worse": worse(truth, plain, rebalanced) if len(plain) > 1 else [],
    }


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
    given = (asked["name"], Size(*asked["size"]), Limits(*asked["limits"]), Path(asked["folder"]))
    if asked["stage"] == "long":
        long_runs(*given)
    else:
        sys.stdout.write(json.dumps(study(*given)) + "\n")
