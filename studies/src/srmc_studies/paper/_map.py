"""The page that says where each place of the paper is in this library.

`python -m srmc_studies.paper._map docs/reproduction/ledger.json > docs/paper.md` writes it;
commands and verdicts come from the ledger, and a test checks that functions and tests exist.
"""

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from srmc_studies.paper._claims import claims
from srmc_studies.paper._ledger import VERDICTS, LedgerRow
from srmc_studies.paper._places import ENTRIES, UNCHECKED, Entry


def markdown(rows: Sequence[LedgerRow]) -> str:
    """The page, with commands and verdicts from the rows of a ledger."""
    lines = [
        "# The paper, place by place",
        "",
        "This page lists the algorithms, equations, theorems, figures and tables of the paper, "
        "with the function that holds each, the test that checks it, the command that repeats the "
        "paper's claims about it, and the verdicts of the [ledger](reproduction/ledger.md), one "
        "for each claim. A formula about which the ledger has no row is checked by its test alone. "
        "The page is written by `python -m srmc_studies.paper._map`, and a test keeps it true.",
    ]
    for title, entries in ENTRIES.items():
        head = ("in the paper", "what", "function", "test", "command", "verdicts")
        lines += ["", f"## {title}", "", f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
        lines += [f"| {' | '.join(_cells(entry, rows))} |" for entry in entries]
    lines += ["", "## Assumptions that are not checked", ""]
    lines += [f"- {_labels(labels, ', ')}: {what}." for labels, what in UNCHECKED.items()]
    return "\n".join(lines) + "\n"


def _labels(labels: str, between: str) -> str:
    return between.join(f"`{label}`" for label in labels.split())


def _cells(entry: Entry, rows: Sequence[LedgerRow]) -> tuple[str, ...]:
    labels = [x for x in entry.labels.split() if x.split(":")[0] not in ("sec", "subsec", "app")]
    keys = {*labels, *entry.sections.split()}
    mine = [row for row in rows if keys & {part.strip() for part in row["where"].split(",")}]
    commands = dict.fromkeys(row["command"] for row in mine)
    if not mine:
        commands = {f"pytest {entry.test.split('::')[0]}": None}
    return (
        _labels(entry.labels, "<br>"),
        entry.what,
        "<br>".join(f"`srmc.{name}`" for name in entry.functions.split()),
        f"`{entry.test}`",
        "<br>".join(f"`{command}`" for command in commands),
        _outcome(entry, mine),
    )


def _outcome(entry: Entry, mine: Sequence[LedgerRow]) -> str:
    """The verdicts of the claims about this entry, and whether the paper's text is corrected."""
    counts = Counter(claim.verdict for claim in claims(mine))
    parts = [f"{counts[v]} {v}" for v in VERDICTS if v in counts]
    if not parts and not entry.erratum:
        parts = ["holds in its test"]
    return ", ".join(parts + ["[erratum](errata.md)"] * entry.erratum)


if __name__ == "__main__":
    sys.stdout.write(markdown(json.loads(Path(sys.argv[1]).read_text())))
