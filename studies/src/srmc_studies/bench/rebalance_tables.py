"""Tables of `srmc bench rebalance` and `srmc bench rule`."""

import textwrap
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from srmc_studies.bench.cells import LEFT, cell, geometric_mean, markdown


def rule_table(rows: list[dict[str, Any]]) -> Table:
    """The rows of `srmc bench rule`."""
    title = "Squared errors over plain, of means and second moments, constant × ½, 1, 2"
    out = Table(box=SIMPLE_HEAD, title=title, **LEFT)
    out.add_column("constant, target", no_wrap=True)
    for _ in range(6):
        out.add_column("", justify="right", no_wrap=True)
    for constant, _, target, *cells in _rule_cells(rows, with_error=False)[1:]:
        out.add_row(f"{constant}, {target}", *cells)
    return out


def rule_page(rows: list[dict[str, Any]]) -> str:
    """The rows of `srmc bench rule`, as Markdown."""
    head, *lines = _rule_cells(rows)
    note = (
        "This page shows how much the constants of `src/srmc/sample/tune/rule.py` and "
        "`src/srmc/rebalance/rule.py` matter: squared errors of means and of second moments, "
        "self-tuned repelled or rebalanced, divided by plain, with one constant "
        f"halved, kept or doubled; {rows[0]['replicates']} replicates, with the jackknife standard "
        "error over replicates.\n"
    )
    table = [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *lines)]
    return note + "\n" + "\n".join(table) + "\n"


def _rule_cells(rows: list[dict[str, Any]], with_error: bool = True) -> list[list[str]]:
    names = ("mean", "second")
    short = lambda ratio, error: f"{ratio:.2f}"
    show = cell if with_error else short
    factors = sorted({row["factor"] for row in rows})
    lines = [["constant", "kernel", "target"]]
    lines[0] += [f"{name} ×{factor:g}" for name in names for factor in factors]
    by_place: dict[tuple[str, str, str], dict[float, dict[str, Any]]] = {}
    for row in rows:
        place = row["constant"], row["kernel"], row["target"]
        by_place.setdefault(place, {})[row["factor"]] = row["errors"]
    for place, found in by_place.items():
        errors = [found[factor][name] for name in names for factor in factors]
        lines.append([*place, *(show(e["ratio"], e["error"]) for e in errors)])
    return lines


def rebalance_table(rows: list[dict[str, Any]]) -> Table:
    """The rows of `srmc bench rebalance`."""
    out = Table(box=SIMPLE_HEAD, title="Squared errors of rebalanced over plain draws", **LEFT)
    for column in ("target", "kernel", "means", "covariances", "quantiles", "tails"):
        out.add_column(column, justify="left" if column in ("target", "kernel") else "right")
    for row in rows:
        ours = row["errors"]["rebalanced"]
        names = ("mean", "covariance", "quantile", "tail")
        cells = [f"{ours[name]['ratio']:.3f}" for name in names]
        out.add_row(row["target"], row["kernel"], *cells)
    return out


def rebalance_page(rows: list[dict[str, Any]]) -> str:
    """The rows of `srmc bench rebalance`, as Markdown."""
    names = ("mean", "second", "radius", "covariance", "quantile", "tail")
    counts = sorted({row["replicates"] for row in rows})
    counted = " or ".join(map(str, counts))
    parts = [
        "Squared errors over those of the plain draws, with the jackknife standard error over "
        f"{counted} replicates. `second` is the error of second moments, `radius` "
        "that of their average over coordinates, `quantile` that of the 5, 25, 50, 75 and 95% "
        "quantiles, and `tail` that of the probability beyond 1.5 standard deviations. Rebalancing "
        "takes no gradients in addition to those of the kernel (for MH, one per draw). What the "
        "checks of the assumption evaluate is in the last table; two log densities count as one "
        "gradient. "
        "Control variates are of "
        "second order, on all features at once; a dash means too few draws for them.\n"
    ]
    for side in ("rebalanced", "reweighted", "control variates"):
        lines = [["target", "kernel", "chains x draws", *names]]
        for place in dict.fromkeys(map(_place, rows)):
            mine, kernel = [row for row in rows if _place(row) == place], place[0]
            for row in mine:
                found = row["errors"][side]
                cells = [
                    cell(found[name]["ratio"], found[name]["error"]) if name in found else "–"
                    for name in names
                ]
                size = f"{row['chains']} x {row['draws']}"
                lines.append([row["target"], kernel, size, *cells])
            if len(mine) > 1:
                sides = [row["errors"][side] for row in mine]
                ratios = [[found[n]["ratio"] for found in sides if n in found] for n in names]
                means = [geometric_mean(r) or "–" for r in ratios]
                lines.append(["geometric mean", kernel, size, *means])
        parts.append(f"## {side[0].upper()}{side[1:]}\n\n{markdown(lines)}\n")
    head = ["target", "kernel", "chains x draws", "gradients per draw", "of checks"]
    cost = [[*head, "chosen most for means, second moments, distributions", "failed checks"]]
    for row in rows:
        most = ("; ".join([*found][:1]) for found in row["chosen"].values())
        forms = " / ".join(most)
        size = f"{row['chains']} x {row['draws']}"
        spent = (f"{row[k]:.2f}" for k in ("gradients_per_draw", "checks_per_draw"))
        cost.append([row["target"], row["kernel"], size, *spent, forms, str(row["failed_checks"])])
    parts.append("## What it took\n\n" + markdown(cost) + "\n")
    return "\n".join(parts)


def _place(row: dict[str, Any]) -> tuple[str, int, int]:
    return row["kernel"], row["chains"], row["draws"]


def of_nuts(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of one chain of 1,000 draws of NUTS."""
    return [row for row in rows if _place(row) == ("nuts", 1, 1000)]


SHORT = ("logistic", "breast-cancer", "eight-schools", "cox-256", "funnel", "student-t")


def short_table(rows: list[dict[str, Any]]) -> str:
    """The table of the README, as Markdown, and a sentence on control variates."""
    names = {"mean": "means", "covariance": "covariances", "quantile": "quantiles", "tail": "tails"}
    mine = of_nuts(rows)
    lines = [["target", *names.values()]]
    for row in mine:
        if row["target"] in SHORT:
            found = row["errors"]["rebalanced"]
            lines.append([f"{row['target']} ({row['dim']})", *(_short(found[k]) for k in names)])
    known = [row for row in mine if "mean" in row["errors"]["control variates"]]
    won = [sum(_rival_wins(row, name) for row in known) for name in ("mean", "covariance")]
    least, most = (pick(row["replicates"] for row in mine) for pick in (min, max))
    counted = f"{least}" if least == most else f"{least} to {most}"
    words = (
        f"Each number comes from {counted} runs, each with one chain of 1,000 draws. Control "
        f"variates of second order have too few draws on {len(mine) - len(known)} of all "
        f"{len(mine)} targets. On the other {len(known)} they have the smaller error of means on "
        f"{won[0]} and of covariances on {won[1]} (differences below 1% are not counted), but give "
        "no draws, quantiles or plots."
    )
    return f"{markdown(lines)}\n\n{textwrap.fill(words, 150)}\n"


def _rival_wins(row: dict[str, Any], name: str) -> bool:
    ours, rival = (row["errors"][side][name] for side in ("rebalanced", "control variates"))
    return bool(rival["ratio"] < 0.99 * ours["ratio"])


def _short(found: dict[str, float]) -> str:
    return f"{found['ratio']:.3f}"
