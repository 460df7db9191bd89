"""Whether the standard errors of a result are as small as was asked for."""

from typing import NamedTuple

import numpy as np

from srmc.results.result import QUANTILES, Result
from srmc.results.trouble import of_chains
from srmc.sample.looks import Aim

# The columns of a summary by kind of estimate.
COLUMNS = {
    "mean": ["error"],
    "sd": ["error_sd"],
    "quantiles": [f"error_{q:.0%}" for q in QUANTILES],
}


class Look(NamedTuple):
    """What was seen of a run.

    draws, gradients
        The number of draws per chain; gradients of rebalancing them, over all draws.
    errors
        The largest standard error of each kind, in standard deviations.
    where
        The coordinates that have them.
    trusted
        Whether the chains have mixed, so that standard errors can be trusted.
    met
        Whether this is what was asked for.
    """

    draws: int
    gradients: int
    errors: dict[str, float]
    where: dict[str, str]
    trusted: bool
    met: bool


def look_at(result: Result, aim: Aim) -> Look:
    """The largest errors of a result beside those that it has to reach."""
    summary = result.summary()
    summary = summary[summary["sd"] > 0]
    errors: dict[str, float] = {}
    where: dict[str, str] = {}
    for kind in aim.errors:
        found = summary[COLUMNS[kind]].max(axis=1, skipna=False) / summary["sd"]
        errors[kind] = float(found.max(skipna=False)) if len(found) else 0.0
        where[kind] = str(found.fillna(np.inf).idxmax()) if len(found) else ""
    small = all(errors[kind] <= error for kind, error in aim.errors.items())
    trusted = not any(True for _ in of_chains(result))
    gradients = sum(report.gradients for report in result.rebalancing)
    return Look(result.about["num_draws"], gradients, errors, where, trusted, small and trusted)


def missed(look: Look, aim: Aim) -> list[str]:
    """A warning if the run has ended without reaching its aim."""
    if look.met:
        return []
    large = {kind: error for kind, error in aim.errors.items() if not look.errors[kind] <= error}
    found = [
        f"the largest standard error ({kind} of {look.where[kind]}) is {look.errors[kind]:.2g} "
        f"standard deviations and should be {error:.2g}"
        for kind, error in large.items()
    ]
    found = found or ["the standard errors are as small as target_error but cannot be trusted"]
    return [
        f"target_error was not reached with {look.draws:,} draws per chain: {'; '.join(found)}. "
        "Use a larger max_samples, or resume the run from a checkpoint with one"
    ]
