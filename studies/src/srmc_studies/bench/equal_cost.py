"""Runs of equal cost: so many draws that rebalancing them pays for those that are left out."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from srmc.rebalance import Report

FEWEST = 20  # draws of a run that is shortened,
TRIES = 8  # lengths that are tried

# From a number of draws per chain to the rebalanced draws.
Rebalance = Callable[[int], tuple[np.ndarray, Report]]


def way_of(report: Mapping[str, Any]) -> str:
    """How most means of a run were estimated, by its report; "none" if its draws are unchanged."""
    counts: Mapping[str, int] = report["chosen"].get("means", {})
    return max(counts, key=lambda name: counts[name]) if report["moved"] and counts else "none"


def affordable(rebalance: Rebalance, total: int, cost: float) -> tuple[np.ndarray, Report]:
    """As many rebalanced draws as `total` plain ones pay for, which took `cost` gradients.

    A shorter run may take more or fewer gradients per draw, or not be rebalanced at all, so that
    the length is bracketed.
    """
    low, high, less, found = FEWEST, total, total, None
    for _ in range(TRIES):
        tried = rebalance(less)
        spent = cost * less / total + tried[1].cost
        if spent > 1.01 * cost:
            high = less
        else:
            low, found = less, tried
            if spent > 0.95 * cost or less >= 0.95 * high:
                break
        less = (low + high) // 2 if found else max(FEWEST, int(less * min(0.97, cost / spent)))
    return found or tried
