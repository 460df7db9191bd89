"""When a run is looked at, and whether its standard errors are small enough for it to end."""

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from srmc._checks import MOST, check_count, check_number, check_option
from srmc.results.result import QUANTILES, Result
from srmc.results.trouble import of_chains
from srmc.sample.plan import Plan

DOUBLINGS = 6  # default limit: num_samples may double this many times
KINDS = ("mean", "sd", "quantiles")


@dataclasses.dataclass(frozen=True)
class Aim:
    """Standard errors that a run has to reach, in standard deviations of the coordinates."""

    errors: dict[str, float]  # by kind of estimate: "mean", "sd" or "quantiles"

    @staticmethod
    def of(target_error: Any) -> "Aim":
        """From a number, which is about means, or a dict of numbers."""
        errors = target_error if isinstance(target_error, dict) else {"mean": target_error}
        if not errors:
            raise ValueError("target_error must be a number, or a dict of some, got {}")
        for kind, error in errors.items():
            check_option("a name in target_error", kind, KINDS)
            check_number("target_error", error, above=0.0)
        return Aim({kind: float(error) for kind, error in errors.items()})


def longest(num_samples: int, max_samples: int | None) -> int:
    """The number of samples at the last look."""
    check_count("num_samples", num_samples)
    if max_samples is None:
        return min(int(num_samples) << DOUBLINGS, MOST)
    check_count("max_samples", max_samples, at_least=num_samples)
    return int(max_samples)


def looks(plan: Plan, first: int | None, dim: int) -> tuple[int, ...]:
    """Sample sizes at which errors are checked: `first`, doubled up to the plan's, or that alone.

    At each of them the result equals a run of this length, so that draws must not depend on the
    length, and all runs or none are rebalanced.
    """
    if first is None:
        return (plan.num_samples,)
    lengths = [first * 2**k for k in range(64) if first * 2**k < plan.num_samples]
    plans = [dataclasses.replace(plan, num_samples=n) for n in (*lengths, plan.num_samples)]
    open_ended = [p for p in plans if p.fixed_length(dim) is None]
    if not open_ended:
        reason = plan.fixed_length(dim)
        raise ValueError(f"target_error needs a run that can be extended, but here {reason}")
    return tuple(p.num_samples for p in open_ended)


# The columns of a summary by kind of estimate.
COLUMNS = {
    "mean": ["error"],
    "sd": ["error_sd"],
    "quantiles": [f"error_{q:.0%}" for q in QUANTILES],
}


class Look(NamedTuple):
    """What was seen of a run."""

    # The number of draws per chain; gradients of rebalancing them, over all draws.
    draws: int
    gradients: int
    errors: dict[str, float]  # largest standard error of each kind, in standard deviations
    where: dict[str, str]  # coordinates that have them
    trusted: bool  # whether the chains have mixed, so that standard errors can be trusted
    met: bool  # whether this is what was asked for


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
