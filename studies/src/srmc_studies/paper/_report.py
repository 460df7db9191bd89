"""Writes the files of an experiment, and the ledger and page of all experiments in a folder."""

import json
from pathlib import Path

import srmc
from srmc_studies.paper import _page
from srmc_studies.paper._claims import count, limit, row_verdict
from srmc_studies.paper._ledger import LedgerRow, Outcome, Record, plain
from srmc_studies.paper._style import save


def command(name: str, size: str, seed: int) -> str:
    """The command that repeats an experiment."""
    return f"srmc reproduce {name} --{size}" + (f" --seed {seed}" if seed else "")


def write(out: Path, name: str, outcome: Outcome, size: str, seed: int, seconds: float) -> None:
    """Write `NAME.json` with all numbers, and each picture as PNG and SVG."""
    out.mkdir(parents=True, exist_ok=True)
    for title, figure in outcome.figures.items():
        save(figure, out / f"{name}-{title}.png")
    record: Record = {
        "experiment": name,
        "command": command(name, size, seed),
        "size": size,
        "seed": seed,
        "seconds": round(seconds),
        "version": srmc.__version__,
        "precision": str(outcome.settings.get("precision", "single")),
        "settings": {name: plain(x) for name, x in outcome.settings.items()},
        "figures": list(outcome.figures),
        "rows": [row.record() for row in outcome.rows],
        "numbers": {name: plain(x) for name, x in outcome.numbers.items()},
    }
    (out / f"{name}.json").write_text(json.dumps(record, separators=(",", ":")) + "\n")


def ledger(records: list[Record]) -> list[LedgerRow]:
    """The rows of all experiments, each with its command and verdict."""
    out: list[LedgerRow] = []
    for record in records:
        for row in record["rows"]:
            verdict = row_verdict(record["experiment"], row)
            out.append(
                {
                    "experiment": record["experiment"],
                    "command": record["command"],
                    **row,
                    "verdict": verdict,
                    "limit": limit(record) if verdict == "not comparable" else "",
                }
            )
    return out


def build(out: Path, names: list[str]) -> list[LedgerRow]:
    """Write the ledger, its counts and the page from the experiments in a folder."""
    found = [path for name in names if (path := out / f"{name}.json").is_file()]
    if not found:
        raise FileNotFoundError(f"{out} has no results; `srmc reproduce NAME` writes them")
    records: list[Record] = [json.loads(path.read_text()) for path in found]
    rows = ledger(records)
    (out / "ledger.json").write_text(json.dumps(rows, indent=1) + "\n")
    (out / "ledger.md").write_text(_page.markdown(records, rows))
    (out / "counts.txt").write_text(count(rows) + ".\n")
    (out / "index.html").write_text(_page.html(records, rows, out))
    return rows
