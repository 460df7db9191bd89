"""The ledger as Markdown, and the report as one self-contained HTML page."""

import base64
import html as escaping
from collections.abc import Sequence
from pathlib import Path

from srmc_studies.paper._ledger import NOT_IN_THE_PAPER, Estimate, Json, LedgerRow, Record

INTRODUCTION = (
    "Each row states a claim of the paper, our estimate with its standard error over replicates, "
    "and a verdict. Verdicts are computed from checks, the first of which is the main one: a row "
    'is "reproduced" if all of its checks hold, "partly" if the main one holds but not all, and '
    '"not" if the main one fails. Where the paper leaves a choice open, such as how it computes '
    "the surrogate score, a claim has a row for each reading, in brackets, and is counted once, "
    "with the best of its verdicts. "
    '"By two standard errors" refers to the '
    "standard error of the difference over paired replicates. A run has diverged if its error "
    "exceeds that of a single exact draw from the target; of two diverged runs neither counts as "
    "better. Nothing was tuned to match the paper."
)
_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 72rem; padding: 1rem;
  color: #1c2430; background: #fff; }
h1 { font-size: 1.6rem; line-height: 1.2; } h2 { margin-top: 2.5rem; border-top: 1px solid #d5dbe3;
  padding-top: 1rem; }
code { font-size: .88em; background: #f1f4f8; padding: .1em .3em; border-radius: 3px;
  overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; vertical-align: top; padding: .5rem .6rem;
  border-bottom: 1px solid #e3e8ee; }
th { background: #f7f9fb; } ul { margin: 0; padding-left: 1.1rem; }
.verdict { font-weight: 600; white-space: nowrap; padding: .1rem .5rem; border-radius: 1rem; }
.reproduced { background: #d9f2df; color: #14532d; }
.partly { background: #fdf0cd; color: #6b4a00; }
.not { background: #fbdcdc; color: #7f1d1d; }
.picture { overflow-x: auto; margin: 1rem 0; } .picture img { min-width: 40rem; max-width: 100%; }
.small { font-size: .85rem; color: #4a5668; }
dt { font-weight: 600; } dd { margin: 0 0 .3rem 1rem; }
nav { margin-bottom: 1rem; } nav a { margin-right: .6rem; white-space: nowrap; }
@media (min-width: 50.01rem) { .ledger td:nth-child(3) { min-width: 17rem; } }
@media (max-width: 50rem) {
  table.ledger, .ledger tbody, .ledger tr, .ledger td { display: block; }
  .ledger thead { display: none; }
  .ledger tr { border: 1px solid #d5dbe3; border-radius: 8px; margin: 0 0 1rem; padding: .3rem; }
  .ledger td { border: 0; padding: .3rem .5rem; }
  .ledger td::before { content: attr(data-label); display: block; font-size: .75rem;
    color: #4a5668; }
}
"""


def _ours(row: LedgerRow) -> list[str]:
    lines = []
    for name, pair in row["ours"].items():
        value, error = (float("inf") if x is None else x for x in pair)
        lines.append(f"{name}: {Estimate(value, error)}")
    return lines


def full_claim(row: LedgerRow) -> str:
    """The claim, with the reading under which it was checked in brackets."""
    reading = row.get("reading")
    return f"{row['claim']} [{reading}]" if reading else row["claim"]


def _checks(row: LedgerRow) -> list[str]:
    return [f"{'✓' if held else '✗'} {text}" for text, held in row["checks"].items()]


def count(rows: Sequence[LedgerRow]) -> str:
    """How many of the paper's claims, and of our own, have each verdict.

    A claim with several rows, one for each reading, has the best of their verdicts.
    """
    order = ("reproduced", "partly", "not")

    def verdicts(rows: Sequence[LedgerRow]) -> str:
        best: dict[tuple[str, str], int] = {}
        for row in rows:
            key = row["experiment"], row["claim"]
            rank = order.index(row["verdict"])
            best[key] = min(rank, best.get(key, rank))
        each = {verdict: list(best.values()).count(n) for n, verdict in enumerate(order)}
        return ", ".join(f"{n} {verdict}" for verdict, n in each.items() if n) or "none"

    own = [row for row in rows if row["paper"] == NOT_IN_THE_PAPER]
    text = "Claims of the paper: " + verdicts([row for row in rows if row not in own])
    return text + (f". Our own claims: {verdicts(own)}" if own else "")


def markdown(rows: Sequence[LedgerRow]) -> str:
    """The ledger as a Markdown page."""
    head = ("command", "claim", "the paper's value", "our estimates", "verdict", "checks", "reason")
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        cells = (
            f"`{row['command']}`",
            f"{full_claim(row)} ({row['where']})",
            row["paper"],
            "<br>".join(_ours(row)),
            f"**{row['verdict']}**",
            "<br>".join(_checks(row)),
            row["reason"],
        )
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    title = "# The paper's experiments, repeated"
    note = "Written by `srmc reproduce all`; index.html shows the pictures as well."
    return f"{title}\n\n{note}\n\n{INTRODUCTION}\n\n{count(rows)}.\n\n" + "\n".join(lines) + "\n"


def html(records: Sequence[Record], rows: Sequence[LedgerRow], folder: Path) -> str:
    """The report as one page, with the pictures of `folder` embedded."""
    links = " ".join(f'<a href="#{r["experiment"]}">{r["experiment"]}</a>' for r in records)
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>Score-Repellent Monte Carlo, repeated</title><style>{_STYLE}</style></head><body>",
        "<h1>Score-Repellent Monte Carlo: the paper's experiments, repeated</h1>",
        f"<p>{INTRODUCTION}</p><p><b>{count(rows)}.</b></p>",
        f"<p>The whole run took {_time(sum(r['seconds'] for r in records))}.</p><nav>{links}</nav>",
        _table(rows),
        *(_section(record, folder) for record in records),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _table(rows: Sequence[LedgerRow]) -> str:
    heads = ("Claim", "The paper's value", "Our estimates", "Verdict and checks", "Reason")
    body = []
    for row in rows:
        cells = (
            f"{_text(full_claim(row))}<div class=small>{_text(row['where'])} · "
            f'<a href="#{row["experiment"]}">{row["experiment"]}</a><br>'
            f"<code>{_text(row['command'])}</code></div>",
            _text(row["paper"]),
            _list(_ours(row)),
            f'<span class="verdict {row["verdict"]}">{row["verdict"]}</span>'
            f"<div class=small>{_list(_checks(row))}</div>",
            _text(row["reason"]),
        )
        columns = zip(heads, cells, strict=True)
        body.append(
            "<tr>" + "".join(f'<td data-label="{h}">{c}</td>' for h, c in columns) + "</tr>"
        )
    head = "".join(f"<th>{h}</th>" for h in heads)
    return (
        f"<table class=ledger><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
    )


def _section(record: Record, folder: Path) -> str:
    name = record["experiment"]
    parts = [
        f'<h2 id="{name}">{name}</h2>',
        f"<p><code>{_text(record['command'])}</code> took {_time(record['seconds'])}.</p>",
    ]
    for title in record["figures"]:
        data = base64.b64encode((folder / f"{name}-{title}.png").read_bytes()).decode()
        parts.append(
            f'<div class=picture><img alt="{name}, {title}" src="data:image/png;base64,{data}">'
            "</div>"
        )
    entries = "".join(
        f"<dt>{_text(key)}</dt><dd>{_text(_plainly(value))}</dd>"
        for key, value in record["settings"].items()
    )
    parts.append(f"<details><summary>Settings</summary><dl>{entries}</dl></details>")
    return "\n".join(parts)


def _plainly(value: Json) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{k}: {_plainly(v)}" for k, v in value.items())
    if isinstance(value, list):
        return ", ".join(_plainly(v) for v in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _time(seconds: float) -> str:
    return f"{seconds} s" if seconds < 90 else f"{seconds / 60:.1f} min"


def _list(items: list[str]) -> str:
    return "<ul>" + "".join(f"<li>{_text(item)}</li>" for item in items) + "</ul>"


def _text(x: str) -> str:
    return escaping.escape(x)
