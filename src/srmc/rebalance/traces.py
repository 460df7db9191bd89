"""Traces of ArviZ, an InferenceData (0.x) or a DataTree (1.x): their groups, read and replaced."""

from collections.abc import Iterable
from typing import Any

import numpy as np

Dataset = Any  # xarray.Dataset
SAMPLE = ("chain", "draw")


def is_trace(value: Any) -> bool:
    """Whether this may be a trace: a thing with groups."""
    return hasattr(value, "groups") and not hasattr(value, "columns")


def groups_of(trace: Any) -> dict[str, Dataset]:
    """The datasets of a trace by the name of their group; a dataset is taken for a posterior."""
    import xarray

    if isinstance(trace, xarray.Dataset):
        groups = {"posterior": trace}
    elif isinstance(trace, xarray.DataTree):
        groups = {name: node.to_dataset() for name, node in trace.children.items()}
    elif hasattr(trace, "groups") and hasattr(trace, "add_groups"):
        groups = {name.lstrip("/"): trace[name.lstrip("/")] for name in trace.groups()}
    else:
        raise TypeError(
            "trace must be an ArviZ InferenceData or DataTree, such as pm.sample and nutpie.sample "
            "return and az.from_numpyro and az.from_cmdstanpy make, or the xarray.Dataset of its "
            "posterior, got "
            f"{type(trace).__module__}.{type(trace).__name__}"
        )
    if "posterior" not in groups:
        raise ValueError(f"trace must have a group posterior, got {', '.join(groups) or 'none'}")
    missing = [d for d in SAMPLE if d not in groups["posterior"].dims]
    if missing:
        raise ValueError(
            f"the posterior of trace must have the dimensions chain and draw, but lacks {missing}"
        )
    if not values_of(groups["posterior"]) or not all(groups["posterior"].sizes[d] for d in SAMPLE):
        raise ValueError("trace must have draws of one variable at least, got an empty posterior")
    return groups


def with_groups(trace: Any, groups: dict[str, Dataset]) -> Any:
    """A trace of the same type and with the same attributes that has these groups.

    A dataset has room for the posterior alone.
    """
    import xarray

    if isinstance(trace, xarray.Dataset):
        return groups["posterior"]
    if isinstance(trace, xarray.DataTree):
        tree = trace.copy()
        for name, data in groups.items():
            tree[name] = xarray.DataTree(data)
        return tree
    return type(trace)(attrs=trace.attrs, save_warmup=True, **groups)


def check_posterior(groups: dict[str, Dataset]) -> None:
    """Refuse the draws of an approximation, such as `pm.fit(...).sample()`.

    PyMC writes statistics and the time for each run of a Markov chain.
    """
    about = groups["posterior"].attrs
    if about.get("inference_library") != "pymc" or "sampling_time" in about:
        return
    if "sample_stats" not in groups or not groups["sample_stats"].data_vars:
        raise ValueError(
            "trace must hold draws of the posterior, but this one comes from an approximation, "
            "such as pm.fit(...).sample(), whose draws follow the approximation instead: no later "
            "step removes its bias. Give a trace of pm.sample"
        )


def values_of(data: Dataset, names: Iterable[str] | None = None) -> dict[str, np.ndarray]:
    """The variables that have a value per draw, as arrays (chain, draw, ...)."""
    found = data.data_vars if names is None else names
    chosen = [str(name) for name in found if {*SAMPLE} <= {*data[name].dims}]
    return {name: data[name].transpose(*SAMPLE, ...).values for name in chosen}


def replaced(data: Dataset, values: dict[str, np.ndarray]) -> Dataset:
    """The dataset with other values; dimensions, coordinates and attributes stay."""
    new = data.copy()
    for name, array in values.items():
        old = data[name].transpose(*SAMPLE, ...)
        new[name] = old.copy(data=np.asarray(array).astype(old.dtype, copy=False))
    return new


def has_draws(data: Dataset, like: Dataset) -> bool:
    """Whether a group has a value for each draw of the posterior."""
    return all(data.sizes.get(d) == like.sizes[d] for d in SAMPLE)


def picked(data: Dataset, order: np.ndarray) -> Dataset:
    """The dataset with the draws in `order`, numbers in a row of all chains."""
    pick = lambda x: x.reshape(-1, *x.shape[2:])[order.ravel()].reshape(x.shape)
    return replaced(data, {name: pick(x) for name, x in values_of(data).items()})
