"""The ledger as Markdown, and the report as one self-contained HTML page."""

import base64
import html as escaping
from collections.abc import Sequence
from pathlib import Path

from srmc_studies.paper._claims import CONVENTIONS, RULE, Claim, claims, count, reading
from srmc_studies.paper._ledger import Estimate, Json, LedgerRow, Record

INTRODUCTION = (
    "Each line is a claim of the paper, with its verdict. Its rows below state our estimates with "
    "standard errors over replicates, and checks of them, from which verdicts follow. "
    + RULE
    + ' "By two standard errors" refers to the standard error of the difference over paired '
    "replicates. A run has diverged if its error exceeds that of a single exact draw from the "
    "target; comparisons count that error in its place, and of two diverged runs neither counts as "
    "better. " + CONVENTIONS + " Nothing was tuned to match the paper."
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
.not-comparable { background: #e3e8ee; color: #1c2430; }
summary { cursor: pointer; } .row { margin-bottom: .2rem; }
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


def _checks(row: LedgerRow) -> list[str]:
    return [f"{'✓' if held else '✗'} {text}" for text, held in row["checks"].items()]


def markdown(records: Sequence[Record], rows: Sequence[LedgerRow]) -> str:
    """The ledger as a Markdown page: a line per claim; its rows and the pictures folded below."""
    head = ("claim", "in the paper", "the paper's value", "verdict", "under which readings")
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    found = claims(rows)
    for n, claim in enumerate(found, 1):
        cells = (
            f"[{claim.text}](#claim-{n})",
            ", ".join(dict.fromkeys(row["where"] for row in claim.rows)),
            "; ".join(dict.fromkeys(row["paper"] for row in claim.rows)),
            f"**{claim.verdict}**",
            claim.readings,
        )
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    title = "# The paper's experiments, repeated"
    note = "Written by `srmc reproduce ledger`."
    pictures = "\n\n".join(map(_pictures, records))
    folded = "\n\n".join(_folded(claim, n) for n, claim in enumerate(found, 1))
    return (
        f"{title}\n\n{note}\n\n{INTRODUCTION}\n\n{count(rows)}.\n\n"
        + "\n".join(lines)
        + f"\n\n## The rows of each claim\n\n{folded}\n\n## Pictures\n\n{pictures}\n"
    )


def _pictures(record: Record) -> str:
    """The pictures of an experiment, which a reader unfolds."""
    name = record["experiment"]
    shown = "\n\n".join(f"![{name}, {each}]({name}-{each}.png)" for each in record["figures"])
    return f"<details markdown><summary>{name}</summary>\n\n{shown}\n\n</details>"


def _folded(claim: Claim, n: int) -> str:
    """The rows of a claim, which a reader unfolds."""
    rows = "\n".join(_row(row, claim.text) for row in claim.rows)
    verdict = claim.verdict.replace(" ", "-")
    return (
        f'<details id="claim-{n}"><summary>{_text(claim.text)} <span class="verdict {verdict}">'
        f"{claim.verdict}</span></summary>\n{rows}\n</details>"
    )


def _row(row: LedgerRow, claim: str) -> str:
    """A row as HTML: reading, checks, estimates and reason."""
    name = reading(row, claim) or "as printed"
    limit = f" {_text(row['limit'])}" if row["limit"] else ""
    return (
        f"<p class=row><b>{_text(name)}: {row['verdict']}.</b>{limit}"
        f" <code>{_text(row['command'])}</code></p>"
        f"{_list(_checks(row))}<div class=small>{_list(_ours(row))}"
        f"<p>{_text(row['reason'])}</p></div>"
    )


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
    heads = ("Claim and rows", "The paper's value", "Verdict", "Under which readings")
    body = []
    for n, claim in enumerate(claims(rows), 1):
        where = ", ".join(dict.fromkeys(row["where"] for row in claim.rows))
        names = dict.fromkeys(row["experiment"] for row in claim.rows)
        links = " ".join(f'<a href="#{name}">{name}</a>' for name in names)
        cells = (
            f"{_folded(claim, n)}<div class=small>{_text(where)} · {links}</div>",
            _text("; ".join(dict.fromkeys(row["paper"] for row in claim.rows))),
            claim.verdict,
            _text(claim.readings),
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
