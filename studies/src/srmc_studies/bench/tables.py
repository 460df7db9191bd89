"""Tables of the other benchmarks, and a page for any of them."""

from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from srmc_studies.bench.cells import LEFT, cell
from srmc_studies.bench.discs import discs_page
from srmc_studies.bench.noharm_tables import noharm_page, with_rebalanced
from srmc_studies.bench.rebalance_tables import rebalance_page, rule_page
from srmc_studies.bench.stopping import FIRST
from srmc_studies.bench.theory import slope


def overhead_table(rows: list[dict[str, Any]]) -> Table:
    """The rows of `srmc bench overhead`."""
    out = Table(
        box=SIMPLE_HEAD,
        title="Time relative to BlackJAX, or to the plain kernel (quartiles over repeats)",
        **LEFT,
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


def summary_table(rows: list[dict[str, Any]]) -> Table:
    """The rows of `srmc bench summary`."""
    out = Table(box=SIMPLE_HEAD, title="Seconds that `result.summary()` takes", **LEFT)
    for column in ("rows", "chains x draws", "first call", "processor", "second call"):
        out.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        seconds = (row[name] for name in ("seconds", "processor_seconds", "seconds_again"))
        draws = f"{row['chains']} x {row['draws_per_chain']:,}"
        out.add_row(f"{row['rows']:,}", draws, *(f"{value:.3g}" for value in seconds))
    return out


def soak_table(rows: list[dict[str, Any]]) -> Table:
    """The rows of `srmc bench soak`."""
    out = Table(box=SIMPLE_HEAD, title="Long and large runs", **LEFT)
    for column in ("case", "step"):
        out.add_column(column)
    for column in SOAKED:
        out.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        out.add_row(*_soaked(row))
    return out


SOAKED = ("seconds", "processor seconds", "peak, MB")


def _soaked(row: dict[str, Any]) -> tuple[str, ...]:
    seconds = (row[name] for name in ("seconds", "processor_seconds"))
    step = f"{row['step']} {row['failed']}".rstrip()
    return row["case"], step, *(f"{value:,.1f}" for value in seconds), f"{row['peak']:,.0f}"


def soak_page(rows: list[dict[str, Any]]) -> str:
    """The same as Markdown."""
    about = (
        "Each case ran in a process of its own, on two cores that other programs used as well, so "
        "that seconds of wall time are upper bounds.\nProcessor time is that of all threads. Peak "
        "memory is that of the process until the end of the step.\n"
    )
    lines = [about, "| " + " | ".join(("case", "step", *SOAKED)) + " |", "|---|---|---:|---:|---:|"]
    return "\n".join([*lines, *("| " + " | ".join(_soaked(row)) + " |" for row in rows), ""])


def discrete_table(rows: list[dict[str, Any]]) -> Table:
    """The rows of `srmc bench discrete`."""
    out = Table(box=SIMPLE_HEAD, title="Squared errors, repelled divided by plain", **LEFT)
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
        *("target", "kernel", "means", "pairs", "evaluations per step", "seconds", "ratio"),
        *("means, equal evaluations", "means, equal time"),
    )
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        mean, pair = row["errors"]["mean"], row["errors"]["pair"]
        cells = (
            row["target"] if row["is_exact"] else f"{row['target']} *",
            row["kernel"],
            cell(mean["ratio"], mean["error"]),
            cell(pair["ratio"], pair["error"]),
            "{:.3g} → {:.3g}".format(*row["evaluations_per_step"]),
            "{:.2f} → {:.2f}".format(*row["seconds"]),
            f"{row['seconds'][1] / row['seconds'][0]:.2f}",
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
        "evaluations of the log density per step (a gradient, or the change of one site, counts "
        "as one; all one-site changes count as one, or as many gradients as they take) and the "
        "processor's seconds for the steps of all chains, plain → repelled, with the ratio of the "
        "two. The last two columns are the ratio for the means multiplied by that of the "
        "evaluations, and by that of the seconds. Where the target is too large to sum over its "
        "states (*), the truth is the mean over all chains, plain and repelled.\n"
    )
    return note + "\n" + "\n".join(lines) + "\n"


COVERED = ("means", "sds", "quantiles")


def coverage_cells(rows: list[dict[str, Any]]) -> list[list[str]]:
    """A heading, and a line per row of `srmc bench coverage`."""
    names = [f"{side}, {what}" for side in ("rebalanced", "plain") for what in COVERED]
    lines = [["kernel", "target", *names]]
    for row in rows:
        found = [row[name] for name in names]
        shares = [f"{100 * one['coverage']:.1f} ± {100 * one['error']:.1f}" for one in found]
        lines.append([row["kernel"], row["target"], *shares])
    return lines


def coverage_table(rows: list[dict[str, Any]]) -> Table:
    """The rows of `srmc bench coverage`."""
    out = Table(box=SIMPLE_HEAD, title="Coverage of 95% intervals, in percent", **LEFT)
    head, *lines = coverage_cells(rows)
    for n, column in enumerate(head):
        out.add_column(column, justify="left" if n < 2 else "right")
    for line in lines:
        out.add_row(*line)
    first = rows[0]
    out.caption = f"{first['replicates']} replicates of {first['chains']} chains."
    return out


def coverage_page(rows: list[dict[str, Any]]) -> str:
    """The same as Markdown."""
    first = rows[0]
    counts = sorted({row["replicates"] for row in rows})
    replicates = " or ".join(map(str, counts))
    lengths = ", ".join(f"{row['target']}: {row['draws_per_chain']}" for row in rows)
    about = (
        "This page reports how often 95% intervals contain the truth, in percent, over all "
        f"coordinates of {replicates} replicates of {first['chains']} chains, with the "
        "standard error over replicates. The intervals are ± 1.96 of the standard errors that "
        "`result.summary()` reports, for means, standard deviations, and the quantiles at 5, 50 "
        "and 95%. `rebalanced` are the draws that `srmc.sample` returns, `plain` the same draws "
        f"before rebalancing, with batch means. Draws per chain: {lengths}. The checks of the "
        f"assumption behind rebalancing failed in {sum(row['failed_checks'] for row in rows)} of "
        f"{sum(row['replicates'] for row in rows)} runs."
    )
    missing = [
        f"{found['without_error']:.0%} of {row['target']} ({name})"
        for row in rows
        for name, found in row.items()
        if isinstance(found, dict) and found.get("without_error", 0.0) > 0
    ]
    if missing:
        about += (
            f" Where tails are too heavy for an error there is no interval: {'; '.join(missing)}."
        )
    head, *lines = ["| " + " | ".join(line) + " |" for line in coverage_cells(rows)]
    rule = "|---|---|" + "---:|" * (head.count("|") - 3)
    return "\n".join([about, "", head, rule, *lines, ""])


def stopping_cells(rows: list[dict[str, Any]]) -> list[list[str]]:
    """A heading, and two lines per row of `srmc bench stopping`."""
    lines = [["target", "length", "draws per chain: runs", *COVERED, "largest error of a mean"]]
    for row in rows:
        lengths = ", ".join(f"{length}: {count}" for length, count in row["lengths"].items())
        fixed = f"{row['fixed_length']}: {row['replicates']}"
        for side, own in (("stopped", lengths), ("fixed", fixed)):
            found = [row[f"{side}, {what}"] for what in COVERED]
            shares = [f"{100 * one['coverage']:.1f} ± {100 * one['error']:.1f}" for one in found]
            lines.append([row["target"], side, own, *shares, f"{row[f'{side}, error']:.4f}"])
    return lines


def stopping_table(rows: list[dict[str, Any]]) -> Table:
    """The rows of `srmc bench stopping`."""
    title = "Coverage of 95% intervals, in percent, of runs that end at a stated error"
    out = Table(box=SIMPLE_HEAD, title=title, **LEFT)
    head, *lines = stopping_cells(rows)
    for n, column in enumerate(head):
        out.add_column(column, justify="left" if n < 3 else "right")
    for line in lines:
        out.add_row(*line)
    first = rows[0]
    out.caption = f"target_error is {first['target_error']:g}; errors are in standard deviations."
    return out


def stopping_page(rows: list[dict[str, Any]]) -> str:
    """The same as Markdown."""
    first = rows[0]
    about = (
        "This page reports how often 95% intervals contain the truth, in percent, where a run ends "
        f"when its own standard errors say so: `srmc.sample(target, num_samples={FIRST}, "
        f"target_error={first['target_error']:g})`, "
        f"{first['replicates']} runs with different seeds. Beside them are runs of a length that "
        "was fixed beforehand, the median of theirs. The last column is the true error of means, "
        "in standard deviations: the root mean square over runs, for the coordinate where it is "
        f"largest. {sum(row['reached'] for row in rows)} of "
        f"{sum(row['replicates'] for row in rows)} runs reached the error that was asked for."
    )
    head, *lines = ["| " + " | ".join(line) + " |" for line in stopping_cells(rows)]
    return "\n".join([about, "", head, "|---|---|---|---:|---:|---:|---:|", *lines, ""])


def page(rows: list[dict[str, Any]]) -> tuple[str, str]:
    """Title and Markdown for the rows of any benchmark."""
    if "discs" in rows[0]:
        return "Discrete samplers as DISCS measures them", discs_page(rows)
    if "evaluations_per_step" in rows[0]:
        return "Discrete kernels, plain and repelled", discrete_page(rows)
    if all("checks_per_draw" in row for row in rows):
        return "Rebalanced over plain draws", rebalance_page(rows)
    if "fixed_length" in rows[0]:
        return "Coverage of runs that end at a stated error", stopping_page(rows)
    if "peak" in rows[0]:
        return "Long and large runs", soak_page(rows)
    if "constant" in rows[0]:
        return "How much the constants of the tuning matter", rule_page(rows)
    if "draws_per_chain" in rows[0]:
        return "Coverage of 95% intervals", coverage_page(rows)
    title = "Errors of rebalanced and repelled kernels relative to plain ones"
    return title, noharm_page(with_rebalanced(rows))


def theory_table(record: dict[str, Any]) -> Table:
    """The record of `srmc theory`: variances relative to plain MALA, in the limit and simulated."""
    unit, alphas = record["predicted"][0], record["alphas"]
    out = Table(box=SIMPLE_HEAD, title="Variance of means relative to plain MALA, times n", **LEFT)
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
