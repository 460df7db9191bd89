"""Tables of `srmc bench noharm`, on the terminal, as a page, and in the README."""

import itertools
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table

from srmc_studies.bench.cases import CASES
from srmc_studies.bench.cells import LEFT, cell, geometric_mean

_FUNCTIONALS = ("mean", "second", "radius", "covariance", "quantile", "tail")


def noharm_cells(rows: list[dict[str, Any]], side: str = "repelled") -> list[list[str]]:
    """A heading, a line per row of `srmc bench noharm`, and geometric means per kernel."""
    rows = [row for row in rows if side in row["errors"]]
    names = _measured_names(rows, side)
    lines = [["kernel", "target", "gradients", *names]]
    for kernel, mine in _by_kernel(rows):
        for row in mine:
            errors = [row["errors"][side].get(name) for name in names]
            cells = ["" if e is None else cell(e["ratio"], e["error"]) for e in errors]
            lines.append([kernel, row["target"], f"{row['gradients_per_chain']:,.0f}", *cells])
        means = [geometric_mean(_ratios(mine, side, name).values()) for name in names]
        lines.append([kernel, "geometric mean", "", *means])
    return lines


def _measured_names(rows: list[dict[str, Any]], side: str) -> list[str]:
    return [name for name in _FUNCTIONALS if any(name in row["errors"][side] for row in rows)]


def _by_kernel(rows: list[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    names = dict.fromkeys(row["kernel"] for row in rows)
    return [(name, [row for row in rows if row["kernel"] == name]) for name in names]


def _ratios(rows: list[dict[str, Any]], side: str, name: str) -> dict[str, float]:
    """The ratios by target, where they are known."""
    found = {row["target"]: row["errors"][side].get(name, {}).get("ratio") for row in rows}
    return {target: r for target, r in found.items() if r is not None and np.isfinite(r) and r > 0}


def _summary_lines(rows: list[dict[str, Any]]) -> list[str]:
    """A line per kernel: geometric means over targets, and the largest ratio."""
    names = _measured_names(rows, "repelled")
    lines = ["| kernel | targets | " + " | ".join(names) + " |", "|---|---:|" + "---|" * len(names)]
    for kernel, mine in _by_kernel(rows):
        cells = []
        for name in names:
            ratios = _ratios(mine, "repelled", name)
            worst = max(ratios, key=lambda target: ratios[target], default=None)
            most = "" if worst is None else f"; at most {ratios[worst]:.3g} ({worst})"
            cells.append(geometric_mean(ratios.values()) + most)
        lines.append(f"| {kernel} | {len(mine)} | " + " | ".join(cells) + " |")
    return lines


def _median_lines(rows: list[dict[str, Any]]) -> list[str]:
    """Ratios of medians over replicates, where a standard error exceeds a fifth of its ratio."""
    names = _measured_names(rows, "repelled")
    lines = ["| kernel | target | " + " | ".join(names) + " |", "|---|---|" + "---:|" * len(names)]
    for row in rows:
        errors = row["errors"]["repelled"]
        if any(e["error"] > 0.2 * e["ratio"] for e in errors.values()) and all(
            "median_ratio" in e for e in errors.values()
        ):
            cells = [f"{errors[n]['median_ratio']:.3f}" if n in errors else "" for n in names]
            lines.append(f"| {row['kernel']} | {row['target']} | " + " | ".join(cells) + " |")
    return lines if len(lines) > 2 else []


def noharm_table(rows: list[dict[str, Any]]) -> Table:
    """The rows of `srmc bench noharm`, in 80 columns if need be."""
    out = Table(box=SIMPLE_HEAD, title="Squared errors, repelled divided by plain", **LEFT)
    head, *lines = noharm_cells(rows)
    out.add_column("", no_wrap=True)
    for name in head[3:]:
        out.add_column(name, justify="right", min_width=6)
    for kernel, mine in itertools.groupby(lines, key=lambda line: line[0]):
        out.add_row(kernel)
        for _, target, _, *cells in mine:
            short = [cell.replace("± ", "±") for cell in cells]
            out.add_row(f"  {target}", *short, end_section=target == "geometric mean")
    out.caption = "At equal cost, with the jackknife standard error over replicates."
    return out


def noharm_page(rows: list[dict[str, Any]]) -> str:
    """The same as Markdown, with the shift alone, the paper's settings and control variates."""
    sides = {
        "rebalanced": "Rebalanced, which takes no gradients",
        "zv2 beside": "Control variates of second order on the draws that are rebalanced",
        "repelled": 'Repelled, `alpha="auto"`',
        "shift": "The shift alone",
        "paper": "The paper's settings (alpha = 1, rho = 0.6, tilt, fixed frame)",
        "zv1": "Control variates of first order on the plain draws",
        "zv2": "Control variates of second order on the plain draws",
    }
    parts = [
        "This page reports squared errors divided by those of the plain kernel at equal cost. They "
        "are errors of means, second moments, all covariances, quantiles (5, 25, 50, 75, 95%) and "
        "the probability beyond 1.5 standard deviations, averaged over coordinates, with the "
        "jackknife standard error over replicates. Radius is the squared error of the average of "
        "second moments over coordinates, in which errors that all coordinates share add up. "
        "Gradients are the number of gradients per plain chain, without warm-up. Repelled chains "
        "are cut short by what they spend in addition, also in warm-up. Where repellence stays "
        "off, all plain draws are used (the scores that random-walk Metropolis evaluates in "
        "warm-up are then not charged). For random-walk Metropolis two densities count as one "
        "gradient. Second moments of Student-t with 3 degrees of freedom have errors of infinite "
        "variance. Rebalanced runs are shorter by what rebalancing costs; their rows are "
        "those of `srmc bench rebalance`, which has more of them (rebalance-results.md).",
        "",
    ]
    for (alpha, chains, dtype, seed), mine in _groups(rows):
        what = "one chain" if chains == 1 else f"{chains} chains, pooled, one history"
        what += f", {dtype}" * (dtype != "float32") + f", seed {seed}" * (seed != 0)
        for side, title in sides.items():
            if not any(side in row["errors"] for row in mine):
                continue
            if alpha != "auto":
                title = f"Repelled, one alpha of {alpha} per replicate"
            parts += [f"## {title}, {what}", ""]
            if side == "repelled":
                parts += [
                    "Geometric means over targets, and the largest ratios:",
                    "",
                    *_summary_lines(mine),
                    "",
                ]
            head, *lines = ["| " + " | ".join(line) + " |" for line in noharm_cells(mine, side)]
            parts += [head, "|---|---|" + "---:|" * (head.count("|") - 3), *lines]
            parts += [""]
            if side == "repelled":
                bad = sum(row["non_finite_results"] for row in mine)
                runs = sum(row["replicates"] for row in mine)
                fewest = min(row["replicates"] for row in mine)
                parts += [
                    f"At least {fewest} replicates per row. Results that are not finite: {bad}, in "
                    f"{runs:,} runs.",
                    "",
                ]
                medians = _median_lines(mine)
                if medians:
                    wide = (
                        "Ratios of medians over replicates, for rows in which a standard error "
                        "exceeds a fifth of its ratio:"
                    )
                    parts += [wide, "", *medians, ""]
    return "\n".join(parts)


def with_rebalanced(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows, with the columns of those of `srmc bench rebalance` that are of the same runs.

    These may have another number of replicates.
    """
    place = lambda row: (row["target"], row["kernel"], row["chains"], row["seed"])
    more = {
        place(row): row["errors"]
        for row in rows
        if row.get("draws") == CASES[row["kernel"]].num_samples
    }
    out = []
    for row in rows:
        if "alpha" not in row:
            continue
        found = more.get(place(row)) if row["alpha"] == "auto" else None
        if found is not None:
            both = {
                "rebalanced": found["rebalanced"],
                "zv2 beside": found["control variates"],
            }
            row = row | {"errors": row["errors"] | both}
        out.append(row)
    return out


def _groups(
    rows: list[dict[str, Any]],
) -> list[tuple[tuple[str, int, str, int], list[dict[str, Any]]]]:
    """Rows grouped by alpha, number of chains, dtype and seed; alpha="auto", one chain first."""
    groups: dict[tuple[str, int, str, int], list[dict[str, Any]]] = {}
    for row in rows:
        key = str(row["alpha"]), row["chains"], row["dtype"], row["seed"]
        groups.setdefault(key, []).append(row)
    return sorted(groups.items(), key=lambda group: (group[0][0] != "auto", *group[0][1:]))
