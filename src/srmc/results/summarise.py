"""A table of estimates in ArviZ's names, for results and for traces, rebalanced or plain."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from srmc._checks import check_known, check_option, check_quantiles
from srmc.models.improve import PLAIN
from srmc.models.problem import Labels
from srmc.rebalance.traces import groups_of, values_of
from srmc.results.blocks import columns
from srmc.results.errors import Errors
from srmc.results.result import QUANTILES, Result

# The columns of `Result.summary`, in ArviZ's names.
ARVIZ = {"error": "mcse_mean", "error_sd": "mcse_sd", "r_hat_base": "r_hat", "ess_base": "ess"}
SHORT = ("mean", "sd", "mcse_mean", "mcse_sd", "ess", "r_hat", "gain")


def summary(
    trace_or_result: Any,
    var_names: str | Sequence[str] | None = None,
    quantiles: Sequence[float] = QUANTILES,
    *,
    kind: str = "all",
) -> Any:
    """Estimates with standard errors, of plain or rebalanced draws, as a DataFrame.

    Parameters
    ----------
    trace_or_result
        A `srmc.Result`, or a trace: of `srmc.improve`, or plain, of any program.
    var_names
        A variable, or several; all by default.
    quantiles
        Levels between 0 and 1.
    kind
        "all" columns; or "short", which prints in 80 columns: `mean`, `sd`, `mcse_mean`,
        `mcse_sd`, `ess`, `r_hat` and `gain`, to four digits.

    Returns
    -------
    A row per coordinate with `mean`, `sd`, the quantiles, and their Monte Carlo standard errors
    (`mcse_mean`, `mcse_sd`, `mcse_5%`, ...). `r_hat` and `ess` are computed from the plain chains,
    to which they apply. `gain` is the factor by which more plain draws would be needed for the same
    error of the mean; 1 for plain draws. Means of variables that the parameters determine, such as
    predictions, come from a regression of the variable itself, not from its moved draws.
    """
    check_option("kind", kind, ("all", "short"))
    if isinstance(trace_or_result, Result):
        found = _of_result(trace_or_result, var_names, quantiles)
    else:
        levels = check_quantiles("quantiles", quantiles)
        found = _of_trace(groups_of(trace_or_result), var_names, levels)
    if kind == "all":
        return found
    chosen = found[[name for name in SHORT if name in found]]
    return chosen.map(lambda x: float(f"{x:.4g}"))


def _of_result(result: Result, names: Any, quantiles: Sequence[float]) -> Any:
    found = result.summary(var_names=names, quantiles=quantiles)
    plain = found
    if result.base is not None or result.kept.base_moments is not None:
        plain = result.summary(base=True, var_names=names, quantiles=quantiles)
    found["gain"] = (plain["error"] / found["error"]) ** 2
    mcse = {f"error_{100 * q:g}%": f"mcse_{100 * q:g}%" for q in quantiles}
    return found.rename(columns=ARVIZ | mcse)


def _of_trace(groups: dict[str, Any], names: Any, levels: tuple[float, ...]) -> Any:
    import pandas as pd

    new, old = groups["posterior"], groups.get(PLAIN, groups["posterior"])
    words = [f"{100 * q:g}%" for q in levels]
    errors = ["mcse_mean", "mcse_sd", *(f"mcse_{word}" for word in words)]
    tables = [
        pd.DataFrame(_rows(new, old, name, levels)).set_axis(
            ["", "mean", "sd", *words, *errors, "r_hat", "ess", "tail_k", "gain"], axis=1
        )
        for name in check_known("var_names", names, values_of(new))
    ]
    return pd.concat(tables).set_index("").rename_axis(None)


def _rows(new: Any, old: Any, name: str, levels: tuple[float, ...]) -> list[tuple[Any, ...]]:
    """The rows of a variable: estimates from its draws, errors from the plain ones and the gain.

    A variable whose moved draws give worse estimates keeps the plain estimates.
    """
    axes = tuple(str(axis) for axis in new[name].transpose("chain", "draw", ...).dims[2:])
    coords = {axis: new[axis].values for axis in axes if axis in new.coords}
    labels = Labels({name: axes}, coords)
    is_worse = name in new.attrs.get("srmc_worse", "").split(", ")
    about = {} if is_worse else new[name].attrs
    gain = [float(about.get(f"srmc_{kind}", 1.0)) for kind in ("means", "sds")]
    gain += [float(about.get("srmc_quantiles", 1.0))] * len(levels)
    rows: list[tuple[Any, ...]] = []
    groups = old if is_worse else new, old
    both = (columns(values_of(group, [name]), labels) for group in groups)
    for (found, block), (_, plain) in zip(*both, strict=True):
        mean, sd, _, *rest = Errors().estimates(np.asarray(block, float), plain, levels)
        own = Errors().estimates(np.asarray(plain, float), plain, levels)
        chosen = [own[2], *own[3 + len(levels) : 4 + 2 * len(levels)]]
        scaled = [error * np.sqrt(ratio) for error, ratio in zip(chosen, gain, strict=True)]
        last = [*own[-3:], np.full(len(mean), 1 / max(gain[0], 1e-12))]
        if "srmc_mean" in new[name].attrs:  # of a regression of the variable itself
            these = slice(len(rows), len(rows) + len(found))
            attributes = (new[name].attrs[f"srmc_{k}"] for k in ("mean", "mean_error"))
            mean, scaled[0] = (np.ravel(value)[these] for value in attributes)
            last[-1] = (own[2] / np.maximum(scaled[0], 1e-300)) ** 2
        rows += zip(found, mean, sd, *rest[: len(levels)], *scaled, *last, strict=True)
    return rows
