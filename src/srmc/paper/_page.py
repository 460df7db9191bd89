"""The ledger as Markdown, and the report as one HTML page that needs nothing else."""

import base64
import html as escaping
from pathlib import Path
from typing import Any

from srmc.paper._ledger import NOT_IN_THE_PAPER, Estimate

INTRODUCTION = (
    "Each row is a claim of the paper, our number with its standard error over replicates, and a "
    "verdict. The verdict is computed: reproduced if every check of the row's rule holds, "
    'not if none does, else partly. "By two errors" means two standard errors of the difference '
    "over paired replicates; a run whose error is larger than that of a single exact draw has "
    "diverged, and of two that diverged neither is better. Nothing was tuned to match."
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


def _ours(row: dict[str, Any]) -> list[str]:
    inf = float("inf")
    number = lambda v: str(Estimate(*(inf if x is None else x for x in v)))
    return [f"{name}: {number(value)}" for name, value in row["ours"].items()]


def _rule(row: dict[str, Any]) -> list[str]:
    return [f"{'✓' if held else '✗'} {text}" for text, held in row["checks"].items()]


def count(rows: list[dict[str, Any]]) -> str:
    """How many rows have each verdict, those of the paper and our own."""

    def verdicts(of):
        each = {v: sum(r["verdict"] == v for r in of) for v in ("reproduced", "partly", "not")}
        return ", ".join(f"{n} {v}" for v, n in each.items() if n) or "none"

    own = [row for row in rows if row["paper"] == NOT_IN_THE_PAPER]
    text = "Of the paper's claims: " + verdicts([row for row in rows if row not in own])
    return text + (f". Of ours, about alpha=auto: {verdicts(own)}" if own else "")


def markdown(rows: list[dict[str, Any]]) -> str:
    """The ledger as a page."""
    head = ("experiment", "the paper", "says", "ours", "verdict", "rule", "why")
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        cells = (
            f"`{row['command']}`",
            f"{row['claim']} ({row['where']})",
            row["paper"],
            "<br>".join(_ours(row)),
            f"**{row['verdict']}**",
            "<br>".join(_rule(row)),
            row["reason"],
        )
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    title = "# The paper's experiments, repeated\n\nMade by `srmc reproduce all`; see index.html."
    return f"{title}\n\n{INTRODUCTION}\n\n{count(rows)}.\n\n" + "\n".join(lines) + "\n"


def html(records: list[dict[str, Any]], rows: list[dict[str, Any]], folder: Path) -> str:
    """The page, with pictures inside."""
    links = " ".join(f'<a href="#{r["experiment"]}">{r["experiment"]}</a>' for r in records)
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>Score-Repellent Monte Carlo, repeated</title><style>{_STYLE}</style></head><body>",
        "<h1>Score-Repellent Monte Carlo: the paper's experiments, repeated</h1>",
        f"<p>{INTRODUCTION}</p><p><b>{count(rows)}.</b></p>",
        f"<p>All of it took {_time(sum(r['seconds'] for r in records))}.</p><nav>{links}</nav>",
        _table(rows),
        *(_section(record, folder) for record in records),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _table(rows: list[dict[str, Any]]) -> str:
    heads = ("The paper", "Says", "Ours", "Verdict", "Why")
    body = []
    for row in rows:
        ours, rule = (_list(lines(row)) for lines in (_ours, _rule))
        cells = (
            f"{_text(row['claim'])}<div class=small>{_text(row['where'])} · "
            f'<a href="#{row["experiment"]}">{row["experiment"]}</a><br>'
            f"<code>{_text(row['command'])}</code></div>",
            _text(row["paper"]),
            ours,
            f'<span class="verdict {row["verdict"]}">{row["verdict"]}</span>'
            f"<div class=small>{rule}</div>",
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


def _section(record: dict[str, Any], folder: Path) -> str:
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


def _plainly(value: Any) -> str:
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
