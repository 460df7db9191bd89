"""A result in the form of ArviZ."""

import json
import warnings
from typing import Any

import numpy as np

from srmc._arviz import import_arviz
from srmc._versions import versions
from srmc.models.draws import over_draws
from srmc.models.labels import RESERVED
from srmc.results.datasets import PLAIN, dataset, groups_of
from srmc.results.result import Result

GROUPS = ("posterior", PLAIN, "sample_stats", "observed_data", "constant_data")


def to_arviz(result: Result, log_likelihood: bool = False) -> Any:
    """Convert to an InferenceData, or to a DataTree from ArviZ 1.0 on."""
    if not isinstance(log_likelihood, bool):
        raise TypeError(f"log_likelihood must be True or False, got {log_likelihood!r}")
    found = groups_of(result)
    groups = {name: found[name] for name in GROUPS if name in found}
    groups["sample_stats"] = _known(groups["sample_stats"])
    if log_likelihood:
        groups["log_likelihood"] = _log_likelihood(result)
    if "posterior" in groups:
        groups["posterior"] = groups["posterior"].assign_attrs(_attributes(result))
    if {"posterior", PLAIN} & {*groups}:
        whose = PLAIN if PLAIN in groups and result.is_rebalanced else "posterior"
        note = {"srmc_draws": f"those of the group {whose}"}
        groups["sample_stats"] = groups["sample_stats"].assign_attrs(note)
    return _trace(groups, {"about": json.dumps(result.about)})


def _trace(groups: dict[str, Any], attrs: dict[str, Any]) -> Any:
    arviz = import_arviz()
    if "InferenceData" in vars(arviz):  # later versions answer hasattr with another class
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", f"{PLAIN} group is not defined")
            return arviz.InferenceData(**groups, attrs=attrs)
    import xarray

    tree = xarray.DataTree.from_dict(groups)
    tree.attrs = attrs
    return tree


def _known(stats: Any) -> Any:
    """The statistics that the kernel reports."""
    unknown = [k for k, x in stats.data_vars.items() if x.dtype.kind == "f" and np.all(np.isnan(x))]
    return stats.drop_vars(unknown)


def _attributes(result: Result) -> dict[str, Any]:
    """What the attributes of the posterior say about the run, and about ArviZ's diagnostics."""
    known = {"inference_library": "srmc", "inference_library_version": versions()["srmc"]}
    if "seconds" in result.about:
        known["sampling_time"] = result.about["seconds"]
    if result.is_rebalanced or np.max(result.stats["alpha"]) > 0:
        known["srmc_diagnostics"] = (
            "mcse, ess and r_hat of ArviZ do not apply to these draws, which are not a Markov "
            f"chain; they hold for the group {PLAIN}, if there is one. The standard errors of "
            "these draws are in result.summary() and result.estimate() of srmc"
        )
    else:
        known["srmc_diagnostics"] = "mcse, ess and r_hat of ArviZ hold for these draws"
    return known


def _log_likelihood(result: Result) -> Any:
    """The log likelihood of each observation at each draw."""
    problem = result.problem
    if problem is None:
        raise ValueError(
            "log_likelihood=True needs the model, which a result that was loaded has not; "
            "call to_arviz on the result of srmc.sample, or use pm.compute_log_likelihood or "
            "numpyro.infer.log_likelihood"
        )
    inverse = problem.inverse
    if inverse is None or inverse.log_likelihood is None:
        raise ValueError(
            "log_likelihood=True needs a model of PyMC or NumPyro without discrete variables, "
            f"whose observations are known; {problem.name} is none"
        )
    draws = {name: np.asarray(result.draws[name]) for name in inverse.names}
    found = over_draws(inverse.log_likelihood, draws)
    if not found:
        raise ValueError(f"log_likelihood=True needs observations, which {problem.name} has not")
    return dataset(found, RESERVED, result.labels)
