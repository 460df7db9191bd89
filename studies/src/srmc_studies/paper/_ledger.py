"""What an experiment returns: numbers, pictures, and ledger rows with computed verdicts."""

import dataclasses
import math
from typing import NamedTuple, NotRequired, TypeAlias, TypedDict

from matplotlib.figure import Figure

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
VERDICTS = ("reproduced", "partly", "not comparable", "not")  # from the best on
NOT_IN_THE_PAPER = "not in the paper"  # in place of the paper's value, in rows of our own


class RowRecord(TypedDict):
    """A row of the ledger as plain data; see `Row`."""

    where: str
    claim: str
    paper: str
    ours: dict[str, list[float | None]]
    checks: dict[str, bool]
    reason: str
    reading: NotRequired[str]


class LedgerRow(RowRecord):
    """A row with its experiment, the command that repeats it, and the verdict of its checks.

    `limit` says why the row is not comparable, or is empty if it is.
    """

    experiment: str
    command: str
    verdict: str
    limit: str


class Record(TypedDict):
    """The JSON file of one experiment."""

    experiment: str
    command: str
    size: str
    seed: int
    seconds: int
    version: str
    precision: str
    settings: dict[str, Json]
    figures: list[str]
    rows: list[RowRecord]
    numbers: dict[str, Json]


class Estimate(NamedTuple):
    """An estimate and its standard error.

    >>> print(Estimate(1035.2, 12.3), Estimate(0.01234, 0.0021), sep="; ")
    1,035 ± 12; 0.0123 ± 0.002
    """

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
    """A claim of the paper and what was found.

    where, claim, paper
        The label in the paper, the claim, and the value that the paper gives.
    ours
        Our estimates by name.
    checks
        Statements about our estimates, and whether each of them holds. The first is the main one:
        the claim itself, as weakly as it can be read.
    reason
        An explanation of the result, from what was measured.
    reading
        What was chosen where the paper leaves it open, such as how the surrogate score is computed.
    """

    where: str
    claim: str
    paper: str
    ours: dict[str, Estimate]
    checks: dict[str, bool]
    reason: str
    reading: str = ""

    def record(self) -> RowRecord:
        """Return the row as plain data."""
        return {
            "where": self.where,
            "claim": self.claim,
            "paper": self.paper,
            "ours": {name: [_rounded(x) for x in e] for name, e in self.ours.items()},
            "checks": {text: bool(held) for text, held in self.checks.items()},
            "reason": self.reason,
            "reading": self.reading,
        }


def verdict(checks: dict[str, bool]) -> str:
    """The verdict: "reproduced" if every check holds, "partly" if the main one does, else "not".

    >>> verdict({"the error is lower": True, "by a factor of 5": False})
    'partly'
    """
    if all(checks.values()):
        return "reproduced"
    return "partly" if next(iter(checks.values())) else "not"


class Outcome(NamedTuple):
    """What an experiment returns; `settings` describe what was run."""

    settings: dict[str, object]
    numbers: dict[str, object]
    figures: dict[str, Figure]
    rows: list[Row]


def plain(x: object) -> Json:
    """Convert numbers, arrays and containers to JSON; numbers that are not finite become null.

    >>> plain({"mse": (0.1234567, float("inf"))})
    {'mse': [0.123457, None]}
    """
    if isinstance(x, dict):
        return {str(k): plain(v) for k, v in x.items()}
    if hasattr(x, "tolist"):
        return plain(x.tolist())
    if isinstance(x, list | tuple):
        return [plain(v) for v in x]
    if isinstance(x, float):
        return _rounded(x)
    if x is None or isinstance(x, bool | int | str):
        return x
    raise TypeError(f"x must be numbers, text or containers of them, got {x!r}")


def _rounded(x: float) -> float | None:
    return float(f"{x:.6g}") if math.isfinite(x) else None
