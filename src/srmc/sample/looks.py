"""When a run is looked at, and how precise its estimates have to be for it to end."""

import dataclasses
from typing import Any

from srmc._checks import MOST, check_count, check_number, check_option
from srmc.sample.plan import Plan

DOUBLINGS = 6  # of num_samples, up to the last look
KINDS = ("mean", "sd", "quantiles")


@dataclasses.dataclass(frozen=True)
class Aim:
    """Standard errors that a run has to reach, in standard deviations of the coordinates.

    errors
        By kind of estimate: "mean", "sd" or "quantiles".
    """

    errors: dict[str, float]

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
    """Numbers of samples at which to look: `first`, doubled up to the plan's number; or that alone.

    At each of them the result is that of a run of this length, so that the length must not enter
    the draws, and all of them or none are rebalanced.
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
