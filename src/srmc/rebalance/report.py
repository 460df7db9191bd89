"""What `srmc.rebalance` reports: what was chosen and done, and the gain to expect."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from srmc.coordinates import Coordinates
from srmc.rebalance.choose import NOTHING
from srmc.rebalance.estimate import Estimates
from srmc.rebalance.support import Finding


class Expected(NamedTuple):
    """Squared errors after rebalancing over those before, from cross-validated regressions.

    They are averages over coordinates, for means, for variances and covariances together, and for
    quantiles.
    """

    means: float
    variances: float
    quantiles: float


class Report(NamedTuple):
    """What `rebalance` did.

    moved
        Whether draws were moved, or, on a discrete space, resampled.
    reason
        Why they were not; empty otherwise.
    chosen
        How many estimates of each kind were made in which way.
    expected
        The gain to be expected.
    typical_move, largest_move
        Root mean square over draws and coordinates, and the largest, in standard deviations.
    left
        On a discrete space, the share of the mean features that resampling left.
    stayed
        The number of draws that could not be moved.
    findings
        What the checks of the assumption E[feature] = 0 found.
    gradients, densities
        How many were evaluated, over all draws.
    coordinates
        The learned coordinates in which draws were moved, if that promised smaller errors; see
        `srmc.learn_coordinates`.
    """

    moved: bool
    reason: str = ""
    chosen: Mapping[str, Mapping[str, int]] = {}
    expected: Expected = Expected(1.0, 1.0, 1.0)
    typical_move: float = 0.0
    largest_move: float = 0.0
    left: float = 0.0
    stayed: int = 0
    findings: tuple[Finding, ...] = ()
    gradients: int = 0
    densities: int = 0
    coordinates: Coordinates | None = None

    @property
    def cost(self) -> float:
        """What was evaluated, in gradients; a log density counts as half of one."""
        return self.gradients + self.densities / 2


def nothing(reason: str, findings: tuple[Finding, ...] = (), stayed: int = 0) -> Report:
    """The report of a run whose draws are unchanged."""
    return Report(False, reason, findings=findings, stayed=stayed)


def expected(found: Estimates) -> Expected:
    """The gain that estimates promise."""
    return Expected(*(float(np.mean(ratio)) for ratio in found.ratios.values()))


def chosen(found: Estimates) -> dict[str, dict[str, int]]:
    """How many estimates of each kind were made in which way."""
    return {
        kind: dict(Counter(choice.name for choice in choices))
        for kind, choices in found.choices.items()
    }


def is_nothing(found: Estimates) -> bool:
    """Whether plain averages are best throughout."""
    return all(choice == NOTHING for choices in found.choices.values() for choice in choices)


def as_record(report: Report) -> dict[str, Any]:
    """A report as plain values, for files."""
    plain = report._asdict() | {"expected": report.expected._asdict()}
    del plain["coordinates"]
    plain["chosen"] = {kind: dict(found) for kind, found in report.chosen.items()}
    return plain | {"findings": [finding._asdict() for finding in report.findings]}


def from_record(record: Mapping[str, Any]) -> Report:
    """The report that `as_record` returned the values of, or one of version 0.2, with its form."""
    known = {name: record[name] for name in Report._fields if name in record}
    known["findings"] = tuple(Finding(**finding) for finding in record["findings"])
    known["expected"] = Expected(**record["expected"])
    if "form" in record:
        known["moved"] = record["form"] != "none"
        known["reason"] = "" if known["moved"] else record["reason"]
        known["chosen"] = {"fields of the map": {record["form"]: 1}}
        known["left"] = record["left"]["shift"] if record["form"] == "resampled" else 0.0
    return Report(**known)
