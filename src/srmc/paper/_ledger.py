"""What an experiment leaves: numbers, pictures, and rows of the ledger with computed verdicts."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from matplotlib.figure import Figure

Progress = Callable[..., None]
NOT_IN_THE_PAPER = "not in the paper"  # what it says, in rows of our own


class Estimate(NamedTuple):
    """A number of a run, and its standard error."""

    value: float
    error: float

    def __str__(self) -> str:
        if not math.isfinite(self.value):
            return "not finite"
        error = f"{self.error:,.0f}" if 1 <= self.error < 1e6 else f"{self.error:.1g}"
        if 100 <= abs(self.value) < 1e6:
            return f"{self.value:,.{0 if self.error >= 1 else 1}f} ± {error}"
        return f"{self.value:.3g} ± {error}"


@dataclasses.dataclass(frozen=True)
class Row:
    """A claim of the paper beside what was found.

    where, claim, paper
        The label in the paper, what it says, and the number that it gives.
    ours
        Our numbers by name.
    checks
        The rule: statements about our numbers, and whether they hold.
    reason
        Why it is as it is, from what was measured.
    """

    where: str
    claim: str
    paper: str
    ours: dict[str, Estimate]
    checks: dict[str, bool]
    reason: str

    @property
    def verdict(self) -> str:
        """Reproduced if every check holds, not if none does, else partly."""
        held = sum(self.checks.values())
        if held == len(self.checks):
            return "reproduced"
        return "partly" if held else "not"

    def record(self) -> dict[str, Any]:
        """The row as plain data."""
        return {
            "where": self.where,
            "claim": self.claim,
            "paper": self.paper,
            "ours": {k: [plain(x) for x in v] for k, v in self.ours.items()},
            "checks": {k: bool(v) for k, v in self.checks.items()},
            "verdict": self.verdict,
            "reason": self.reason,
        }


class Outcome(NamedTuple):
    """What an experiment returns; `settings` say what was run, in words and numbers."""

    settings: dict[str, Any]
    numbers: dict[str, Any]
    figures: dict[str, Figure]
    rows: list[Row]


def plain(x: Any) -> Any:
    """Numbers and arrays as JSON has them; what is not finite becomes null."""
    if isinstance(x, dict):
        return {str(k): plain(v) for k, v in x.items()}
    if hasattr(x, "tolist"):
        return plain(x.tolist())
    if isinstance(x, list | tuple):
        return [plain(v) for v in x]
    if isinstance(x, float):
        return float(f"{x:.6g}") if math.isfinite(x) else None
    return x
