"""From rows to claims: each claim of the paper counts once, with its rows as readings of it."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from srmc_studies.paper._ledger import (
    NOT_IN_THE_PAPER,
    VERDICTS,
    LedgerRow,
    Record,
    RowRecord,
    verdict,
)

RULE = (
    'A row is "reproduced" if all of its checks hold, "partly" if the first does but not all, and '
    '"not" if the first fails. A row is "not comparable", whatever its checks say, if our model or '
    "size cannot carry the claim. Where the paper leaves a choice open, a claim has a row for each "
    "reading; it has the best verdict of its rows, in the order reproduced, partly, not "
    "comparable, not. So a claim is "
    '"not" reproduced only if it fails under every reading, and could be tested under each.'
)

# What is checked where the paper leaves room, on the page beside the rule.
CONVENTIONS = (
    "A picture that shows one run claims at least that such a run is no exception: that 5% of the "
    "runs are like it. A printed error on synthetic data that the paper does not publish is shown "
    "beside ours and is not checked. A claim about cost is checked against the paper's own cost "
    "model of three to one."
)

# Why the paper's claims in these experiments cannot be tested at our size.
LIMITS = {
    "mnist-mixing": "The network is ours, trained without GWG, and there are 12 chains; the paper "
    "has 100.",
    "mnist-ais": "The network is ours, with 400 temperatures and 600 samples; the authors' code "
    "has 10,000 and 2,000.",
    "cifar-single": "The network is ours and small; the paper's is the model of Du and Mordatch "
    "(2019).",
    "cifar-parallel": "The network is ours and small; the paper's is the model of Du and Mordatch "
    "(2019).",
}

# The paper's number of chain steps over ours, where only the size of the run is larger.
LARGER = {"mnist-mixing": 100 / 12, "mnist-ais": 10_000 / 400 * 2_000 / 600}

_DIGITS = "SR-GWG reduces the cumulative KL from uniform over the digits by 84%"
_AIS = "Annealing with SR-GWG gives more diverse samples than with GWG"
_PARALLEL = "The last states of parallel chains of SR-ULA cover classes more evenly than ULA's"
# Rows that are readings of one claim, by their beginnings.
MERGED = {
    "KL(p‖u) over the ten digits falls by 84%": _DIGITS,
    "At equal steps, SR-GWG as printed with alpha = 1e-4 reduces": _DIGITS,
    "At equal gradients, SR-GWG as printed with alpha = 1e-4 reduces": _DIGITS,
    "Annealing with SR-GWG as printed": _AIS,
    "The same at equal gradients, with five steps of GWG": _AIS,
    **{f"The last states of {n} chains of SR-ULA": _PARALLEL for n in (100, 50, 10)},
}


class Claim(NamedTuple):
    """A claim, its rows, and the best of their verdicts."""

    text: str
    rows: list[LedgerRow]
    verdict: str

    @property
    def is_own(self) -> bool:
        """Whether the claim is ours, not the paper's."""
        return self.rows[0]["paper"] == NOT_IN_THE_PAPER

    @property
    def readings(self) -> str:
        """The readings that have the claim's verdict, if there are others."""
        best = [row for row in self.rows if row["verdict"] == self.verdict]
        if len(best) == len(self.rows):
            return "all" if len(self.rows) > 1 else ""
        names = "; or ".join(reading(row, self.text) for row in best)
        return f"{len(best)} of {len(self.rows)}: {names}"


def row_verdict(experiment: str, row: RowRecord) -> str:
    """The verdict of a row of an experiment."""
    if experiment in LIMITS and row["paper"] != NOT_IN_THE_PAPER:
        return "not comparable"
    return verdict(row["checks"])


def limit(record: Record) -> str:
    """Why the claims of an experiment are not comparable, with the hours of the paper's size."""
    name = record["experiment"]
    if name not in LARGER:
        return LIMITS[name]
    hours = LARGER[name] * record["seconds"] / 3600
    return (
        f"{LIMITS[name]} At the paper's size the run would take about {hours:.1f} hours on two "
        f"cores: {LARGER[name]:.0f} times its {record['seconds']} seconds."
    )


def reading(row: LedgerRow, claim: str) -> str:
    """What tells a row from the other rows of its claim."""
    own = row.get("reading", "")
    return "; ".join(part for part in (row["claim"] if row["claim"] != claim else "", own) if part)


def claims(rows: Sequence[LedgerRow]) -> list[Claim]:
    """The claims of these rows, in the order of the rows."""
    groups: dict[str, list[LedgerRow]] = {}
    for row in rows:
        merged = (to for start, to in MERGED.items() if row["claim"].startswith(start))
        groups.setdefault(next(merged, row["claim"]), []).append(row)
    return [
        Claim(text, mine, min((row["verdict"] for row in mine), key=VERDICTS.index))
        for text, mine in groups.items()
    ]


def count(rows: Sequence[LedgerRow]) -> str:
    """How many of the paper's claims, and of our own, have each verdict."""
    found = claims(rows)

    def each(is_own: bool) -> str:
        counts = Counter(claim.verdict for claim in found if claim.is_own == is_own)
        return ", ".join(f"{counts[v]} {v}" for v in VERDICTS if v in counts)

    own = each(True)
    return f"Claims of the paper: {each(False)}" + (f". Our own claims: {own}" if own else "")
