"""Tables of the benchmarks, on the terminal and as pages."""

import itertools
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table

from srmc.bench.theory import slope

_LEFT: dict[str, Any] = {"title_justify": "left", "caption_justify": "left"}


def overhead_table(rows: list[dict[str, Any]]) -> Table:
    """The rows of `srmc bench overhead`."""
    out = Table(
        box=SIMPLE_HEAD,
        title="Time relative to BlackJAX, or to the plain kernel (quartiles over repeats)",
        **_LEFT,
    )
    for column in ("", "µs/step", "ratio", "quartiles", "compile", "ratio"):
        out.add_column(column, justify="right" if column else "left", no_wrap=True)
    for row in rows:
        low, high = row["ratio_quartiles"]
        out.add_row(
            f"{row['kernel']}, {row['variant']}",
            f"{row['microseconds_per_step']:.0f}",
            f"{row['ratio']:.2f}",
            f"{low:.2f}, {high:.2f}",
            f"{row['compile_seconds']:.1f} s",
            f"{row['compile_ratio']:.2f}",
        )
    return out


def discrete_table(rows: list[dict[str, Any]]) -> Table:
    """The rows of `srmc bench discrete`."""
    out = Table(box=SIMPLE_HEAD, title="Squared errors, repelled divided by plain", **_LEFT)
    columns = ("target", "kernel", "means", "pairs", "calls", "by calls", "by time")
    for n, column in enumerate(columns):
        out.add_column(column, justify="left" if n < 2 else "right", no_wrap=True)
    for row in rows:
        mean, pair = row["errors"]["mean"], row["errors"]["pair"]
        old, new = row["evaluations_per_step"]
        out.add_row(
            row["target"],
            row["kernel"],
            _short(mean["ratio"], mean["error"]),
            _short(pair["ratio"], pair["error"]),
            f"{old:.3g}, {new:.3g}",
            f"{mean['at_equal_evaluations']:.3f}",
            f"{mean['at_equal_seconds']:.3f}",
        )
    out.caption = (
        "At equal numbers of steps, with the standard error of the last digits in brackets. "
        "Calls are evaluations per step, plain and repelled. The last two columns are the ratios "
        "of the means at equal evaluations and at equal time."
    )
    return out


def _short(ratio: float, error: float) -> str:
    return f"{ratio:.3f}({1000 * error:.0f})"


def discrete_page(rows: list[dict[str, Any]]) -> str:
    """The same as Markdown."""
    head = (
        *("target", "kernel", "means", "pairs", "evaluations per step", "seconds"),
        *("means, equal evaluations", "means, equal time"),
    )
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        mean, pair = row["errors"]["mean"], row["errors"]["pair"]
        cells = (
            row["target"] if row["is_exact"] else f"{row['target']} *",
            row["kernel"],
            _cell(mean["ratio"], mean["error"]),
            _cell(pair["ratio"], pair["error"]),
            "{:.3g} → {:.3g}".format(*row["evaluations_per_step"]),
            "{:.1f} → {:.1f}".format(*row["seconds"]),
            f"{mean['at_equal_evaluations']:.3f}",
            f"{mean['at_equal_seconds']:.3f}",
        )
        lines.append("| " + " | ".join(cells) + " |")
    chains = ", ".join(sorted({str(row["replicates"]) for row in rows}, key=int))
    note = (
        "This page compares discrete kernels, plain and repelled; see discrete.md. The columns "
        "`means` and `pairs` are squared errors of the means of all sites, and of products of "
        "pairs, repelled divided by plain, at equal numbers of steps, with the jackknife standard "
        f"error over chains with their own histories (number of chains: {chains}). Next are the "
        "evaluations of the log density per step (a gradient, or a set of supplied "
        "differences, counts as one) and the seconds of the run, plain → repelled. The last two "
        "columns are the ratio for the means multiplied by that of the evaluations, and by that "
        "of the seconds. Where the target is too large to sum over its states (*), the truth is "
        "the mean over all chains, plain and repelled.\n"
    )
    return note + "\n" + "\n".join(lines) + "\n"


_FUNCTIONALS = ("mean", "second", "radius", "covariance", "quantile", "tail")


def noharm_cells(rows: list[dict[str, Any]], side: str = "repelled") -> list[list[str]]:
    """A heading, a line per row of `srmc bench noharm`, and geometric means per kernel."""
    rows = [row for row in rows if side in row["errors"]]
    names = _measured_names(rows, side)
    lines = [["kernel", "target", "gradients", *names]]
    for kernel, mine in _by_kernel(rows):
        for row in mine:
            errors = [row["errors"][side].get(name) for name in names]
            cells = ["" if e is None else _cell(e["ratio"], e["error"]) for e in errors]
            lines.append([kernel, row["target"], f"{row['gradients_per_chain']:,.0f}", *cells])
        means = [_geometric_mean(_ratios(mine, side, name)) for name in names]
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


def _geometric_mean(ratios: dict[str, float]) -> str:
    return f"{np.exp(np.mean(np.log(list(ratios.values())))):.3g}" if ratios else ""


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
            cells.append(_geometric_mean(ratios) + most)
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


def _cell(ratio: float, error: float) -> str:
    if not np.isfinite(ratio):
        return "not finite"
    return f"{ratio:.2g}" if ratio > 100 else f"{ratio:.3f} ± {error:.3f}"


def noharm_table(rows: list[dict[str, Any]]) -> Table:
    """The rows of `srmc bench noharm`, in 80 columns if need be."""
    out = Table(box=SIMPLE_HEAD, title="Squared errors, repelled divided by plain", **_LEFT)
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
        "variance.",
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


def _groups(
    rows: list[dict[str, Any]],
) -> list[tuple[tuple[str, int, str, int], list[dict[str, Any]]]]:
    """Rows grouped by alpha, number of chains, dtype and seed; alpha="auto", one chain first."""
    groups: dict[tuple[str, int, str, int], list[dict[str, Any]]] = {}
    for row in rows:
        key = str(row["alpha"]), row["chains"], row["dtype"], row["seed"]
        groups.setdefault(key, []).append(row)
    return sorted(groups.items(), key=lambda group: (group[0][0] != "auto", *group[0][1:]))


def coverage_cells(rows: list[dict[str, Any]]) -> list[list[str]]:
    """A heading, and a line per row of `srmc bench coverage`."""
    sides = ("repelled", "batch means", "plain")
    lines = [["kernel", "target", *sides, "error over reported"]]
    for row in rows:
        shares = [f"{100 * row[s]['coverage']:.1f} ± {100 * row[s]['error']:.1f}" for s in sides]
        ratio = f"{row['error_over_reported']:.2f}"
        lines.append([row["kernel"], row["target"], *shares, ratio])
    return lines


def coverage_table(rows: list[dict[str, Any]]) -> Table:
    """The rows of `srmc bench coverage`."""
    out = Table(box=SIMPLE_HEAD, title="Coverage of 95% intervals for means, in percent", **_LEFT)
    head, *lines = coverage_cells(rows)
    for n, column in enumerate(head):
        out.add_column(column, justify="left" if n < 2 else "right")
    for line in lines:
        out.add_row(*line)
    first = rows[0]
    out.caption = (
        f"{first['replicates']} replicates of {first['chains']} chains, "
        f"{first['draws_per_chain']} draws each."
    )
    return out


def coverage_page(rows: list[dict[str, Any]]) -> str:
    """The same as Markdown."""
    first = rows[0]
    about = (
        "This page reports how often 95% intervals for means contain the truth, in percent, over "
        f"all coordinates of {first['replicates']} replicates of {first['chains']} chains that "
        f"share a history, {first['draws_per_chain']} draws each. `repelled` uses the standard "
        "errors that `result.summary()` reports, `batch means` those of batch means on the same "
        "draws, and `plain` those of batch means on the base chains. The last column is the true "
        "root mean square error divided by the reported one."
    )
    head, *lines = ["| " + " | ".join(line) + " |" for line in coverage_cells(rows)]
    rule = "|---|---|" + "---:|" * (head.count("|") - 3)
    return "\n".join([about, "", head, rule, *lines, ""])


def page(rows: list[dict[str, Any]]) -> tuple[str, str]:
    """Title and Markdown for the rows of any benchmark."""
    if "evaluations_per_step" in rows[0]:
        return "Discrete kernels, plain and repelled", discrete_page(rows)
    if "constant" in rows[0]:
        return "How much the constants of the tuning matter", rule_page(rows)
    if "error_over_reported" in rows[0]:
        return "Coverage of 95% intervals for means", coverage_page(rows)
    return "Errors of repelled kernels relative to plain ones", noharm_page(rows)


def theory_table(record: dict[str, Any]) -> Table:
    """The record of `srmc theory`: variances relative to plain MALA, in the limit and simulated."""
    unit, alphas = record["predicted"][0], record["alphas"]
    out = Table(box=SIMPLE_HEAD, title="Variance of means relative to plain MALA, times n", **_LEFT)
    out.add_column("alpha", justify="right")
    out.add_column("limit", justify="right")
    for steps in record["simulated"]:
        out.add_column(f"{int(steps):,} steps", justify="right")
    for n, alpha in enumerate(alphas):
        rows = [rows[n] for rows in record["simulated"].values()]
        cells = [f"{r['mse'] / unit:.3g} ± {r['error'] / unit:.1g}" for r in rows]
        out.add_row(f"{alpha:g}", f"{record['predicted'][n] / unit:.3g}", *cells)
    floor = record["control_variate"]
    out.add_row("inf", f"{floor / unit:.3g}", *[""] * len(record["simulated"]))
    fitted = slope(alphas, record["predicted"], floor)
    verdict = "hold" if record["tails"]["holds"] else "; ".join(record["tails"]["reasons"])
    law = f"The excess over alpha = inf falls as (1 + alpha)^{fitted:.2f}. "
    out.caption = ("" if fitted != fitted else law) + f"Assumptions on the tails: {verdict}."
    return out


def rule_table(rows: list[dict[str, Any]]) -> Table:
    """The rows of `srmc bench rule`."""
    head, *lines = _rule_cells(rows, with_error=False)
    out = Table(
        box=SIMPLE_HEAD, title="Squared errors relative to plain, constant × factor", **_LEFT
    )
    for n, column in enumerate(head):
        out.add_column(column, justify="left" if n < 3 else "right", no_wrap=True)
    for line in lines:
        out.add_row(*line)
    return out


def rule_page(rows: list[dict[str, Any]]) -> str:
    """The rows of `srmc bench rule`, as Markdown."""
    head, *lines = _rule_cells(rows)
    note = (
        "This page shows how much the constants of `src/srmc/tune/rule.py` matter: squared errors "
        "of means and of second moments, self-tuned repelled divided by plain, with one constant "
        f"halved, kept or doubled; {rows[0]['replicates']} replicates, with the jackknife standard "
        "error over replicates.\n"
    )
    table = [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *lines)]
    return note + "\n" + "\n".join(table) + "\n"


def _rule_cells(rows: list[dict[str, Any]], with_error: bool = True) -> list[list[str]]:
    names = ("mean", "second")
    cell = _cell if with_error else lambda ratio, error: f"{ratio:.3f}"
    factors = sorted({row["factor"] for row in rows})
    lines = [["constant", "kernel", "target"]]
    lines[0] += [f"{name} ×{factor:g}" for name in names for factor in factors]
    by_place: dict[tuple[str, str, str], dict[float, dict[str, Any]]] = {}
    for row in rows:
        place = row["constant"], row["kernel"], row["target"]
        by_place.setdefault(place, {})[row["factor"]] = row["errors"]
    for place, found in by_place.items():
        errors = [found[factor][name] for name in names for factor in factors]
        lines.append([*place, *(cell(e["ratio"], e["error"]) for e in errors)])
    return lines


def short_table(rows: list[dict[str, Any]], kernel: str = "nuts") -> str:
    """The table of the README: ratios of one kernel with alpha="auto", one chain, as Markdown."""
    lines = ["| target | means | covariances | quantiles | control variates: means, covariances |"]
    lines.append("|---|---|---|---|---|")
    for row in rows:
        if row["kernel"] == kernel and row["alpha"] == "auto" and row["chains"] == 1:
            ours, theirs = row["errors"]["repelled"], row["errors"].get("zv2", {})
            cells = [_ratio(ours, name) for name in ("mean", "covariance", "quantile")]
            rival = ", ".join(_ratio(theirs, name) for name in ("mean", "covariance"))
            lines.append(f"| {row['target']} | {' | '.join(cells)} | {rival} |")
    return "\n".join(lines) + "\n"


def _ratio(errors: dict[str, Any], name: str) -> str:
    return f"{errors[name]['ratio']:.2f}" if name in errors else "–"
