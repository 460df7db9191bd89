"""Tables of a run: the estimates with their standard errors, and facts about the run."""

import html
import json
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table

from srmc._attempt import attempt
from srmc.models.problem import name_leaves
from srmc.results.blocks import labels
from srmc.results.result import Result
from srmc.results.trouble import is_learned, said_of
from srmc.targets import Moments

_LEFT: dict[str, Any] = {"title_justify": "left", "caption_justify": "left"}


def estimates(result: Result, truth: Moments | None = None, most: int = 20) -> Table:
    """Means with errors, of the plain chain too, with the truth and diagnostics if available."""
    own = result.summary()
    sides = {"plain": result.summary(base=True).reindex(own.index)} if _has_base(result) else {}
    sides[_what(result)] = own
    true_mean = _by_coordinate(truth.mean) if truth is not None else {}
    diagnostics = {"r_hat_base": ("R-hat", ".3f"), "ess_base": ("ESS", ".0f")}
    diagnostics = {name: value for name, value in diagnostics.items() if name in own}
    title = "Means, with their standard errors"
    out = Table(box=SIMPLE_HEAD, title=title, pad_edge=False, **_LEFT)
    out.add_column("", no_wrap=True)
    heads = [*(["truth"] if true_mean else []), *sides, "sd"]
    for head in heads + [head for head, _ in diagnostics.values()]:
        out.add_column(head, justify="right", no_wrap=True)
    for name in own.index[:most]:
        row = [f"{true_mean[name]:.4g}" if name in true_mean else ""] if true_mean else []
        row += [_with_error(summary.loc[name]) for summary in sides.values()]
        row += [f"{own.loc[name, 'sd']:.3g}"]
        row += [format(own.loc[name, key], form) for key, (_, form) in diagnostics.items()]
        out.add_row(name, *row)
    notes = [f"{len(own) - most} more coordinates are in the result."] * (len(own) > most)
    notes += ["R-hat and ESS are those of the plain chains."] * (len(sides) > 1)
    notes += [f"{said_of(result)}."] if is_learned(result) else []
    out.caption = " ".join(notes)
    return out


def _with_error(row: Any) -> str:
    """To the first digit that the error leaves open."""
    return f"{_digits(row['mean'], 10 * row['error'])} ± {row['error']:.1g}"


def short(summary: Any, most: int = 20) -> Table:
    """`srmc.summary(..., kind="short")` in 80 columns."""
    out = Table(box=SIMPLE_HEAD, **_LEFT)
    out.add_column("", overflow="fold")
    for name in summary.columns:
        out.add_column(name, justify="right", no_wrap=True)
    for name, row in summary.head(most).iterrows():
        cells = [_digits(row[k], row["mcse_mean"]) for k in ("mean", "sd")]
        cells += [f"{row[k]:.2g}" for k in ("mcse_mean", "mcse_sd") if k in row]
        cells += [f"{row[k]:.{p}f}" for k, p in (("ess", 0), ("r_hat", 3)) if k in row]
        out.add_row(str(name), *cells, f"{row['gain']:.3g}")
    left = len(summary) - most
    more = f"{left} more rows are not shown. " if left > 0 else ""
    out.caption = f"{more}ess and r_hat are those of the plain draws."
    return out


def _digits(value: float, error: float) -> str:
    """A value to the digits that its error leaves.

    >>> _digits(1.23456, 0.0123)
    '1.235'
    """
    if not np.isfinite(error) or error <= 0:
        return f"{value:.4g}"
    return f"{value:.{int(np.clip(1 - np.floor(np.log10(error)), 0, 6))}f}"


def gain_in_words(summary: Any) -> str:
    """How many plain draws the same errors of the means would take."""
    gain = summary["gain"].to_numpy()
    gain = gain[np.isfinite(gain)]
    if not gain.size or np.max(gain) < 1.05:
        return "The standard errors of the means are those of the plain draws."
    if len(gain) == 1:
        return (
            f"Plain draws would have the same error of the mean if there were {gain[0]:.3g} "
            "times as many."
        )
    return (
        "Plain draws would have the same errors of the means if there were "
        f"{np.median(gain):.3g} times as many (median of {len(gain):,} means; from "
        f"{np.min(gain):.3g} to {np.max(gain):.3g})."
    )


def facts(result: Result, truth: Moments | None = None) -> dict[str, Any]:
    """The cost of the run, and counts of unusual events."""
    stats, about = result.stats, result.about
    draws = about["num_draws"]
    impossible = len(stats["alpha"]) * draws - result.total("is_finite")
    found = {
        "draws per chain": draws,
        "chains": len(stats["alpha"]),
        "acceptance": float(np.mean(stats["acceptance_rate"])),
        "divergences": result.total("diverging"),
        "gradients, warm-up": about["gradients_of_warmup"],
        "gradients, sampling": result.gradients,
        "draws with a proposal of zero or non-finite density": impossible,
        "seconds, compilation included": about["seconds"],
    }
    if "divergence" in about.get("coordinates", {}):
        before, after = about["coordinates"]["divergence"]
        found["divergence from a Gaussian, in the model's coordinates"] = before
        found["divergence from a Gaussian, in learned coordinates"] = after
    reports = result.rebalancing
    if reports:
        found["gradients, rebalancing"] = sum(report.gradients for report in reports)
    if result.is_rebalanced:
        found["typical move of a draw, in sd"] = max(r.typical_move for r in reports)
    if _repels(result):
        found |= {
            "draws at which the guard lowered alpha": result.total("is_hot"),
            "alpha at the end": float(np.mean(stats["alpha"][:, -1])),
            "largest exponent scale": float(np.max(stats["exponent"])),
        }
    if truth is not None:
        name = "means off the truth, in sd (root mean square)"
        found[name] = _distance(result.summary(), truth)
        if _has_base(result):
            found[f"plain: {name}"] = _distance(result.summary(base=True), truth)
    return found


def facts_table(found: dict[str, Any]) -> Table:
    """The facts about a run, as a table."""
    out = Table(box=SIMPLE_HEAD, title="The run", show_header=False, **_LEFT)
    out.add_column("")
    out.add_column("", justify="right")
    for name, value in found.items():
        out.add_row(name, f"{value:,}" if isinstance(value, int) else f"{value:.3g}")
    return out


def as_json(result: Result, truth: Moments | None = None) -> str:
    """The summary and the facts as JSON."""
    summary = json.loads(result.summary().to_json(orient="index"))
    record = {"about": result.about, "facts": facts(result, truth), "summary": summary}
    return json.dumps(record, indent=2)


def in_one_line(result: Result) -> str:
    """What a result is: its model and kernel, its size, and whether there were warnings."""
    settings, changed = result.about.get("settings", {}), _what(result)
    chains = len(result.stats["alpha"])
    kept = result.draws if result.kept.draws is not None else result.moments or {}
    what = "draws" if result.kept.draws is not None else "draws, of which moments were kept"
    warned = len(result.warnings)
    parts = [
        " by ".join(str(settings[k]) for k in ("model", "kernel") if k in settings),
        f"{chains} chain{'s' * (chains > 1)} of {result.about['num_draws']:,} {what}",
        "" if changed == "mean" else changed,
        f"of {', '.join(list(kept)[:5])}{' ...' * (len(kept) > 5)}",
        "interrupted" * result.interrupted,
        f"{warned} warning{'s' * (warned > 1)}" if warned else "",
    ]
    return ", ".join(part for part in parts if part)


def as_html(result: Result, most: int = 20) -> str:
    """The estimates as a table in HTML, below a line about the run and its warnings."""
    warned = result.warnings
    table = attempt("the summary", lambda: _html_table(result, most), "", "is not shown", warned)
    line = attempt("the line about the run", lambda: in_one_line(result), "", "is missing", warned)
    listed = "".join(f"<li>{html.escape(text)}</li>" for text in warned)
    listed = f"<p><b>Warnings</b></p><ul>{listed}</ul>" if listed else ""
    said = f"<p>{html.escape(said_of(result))}.</p>" if is_learned(result) else ""
    return f"<p>{html.escape(line)}</p>{listed}{table}{said}"


def _html_table(result: Result, most: int) -> str:
    summary = result.summary()
    more = f"<p>{len(summary) - most} more coordinates.</p>" if len(summary) > most else ""
    table: str = summary.head(most).to_html(float_format=lambda x: f"{x:.4g}")
    return table + more


def _repels(result: Result) -> bool:
    return bool(np.max(result.stats["alpha"]) > 0)


def _what(result: Result) -> str:
    if result.is_rebalanced:
        return "rebalanced"
    if result.is_controlled:
        return "control variates"
    return "repelled" if _repels(result) else "mean"


def _has_base(result: Result) -> bool:
    changed = result.is_rebalanced or result.is_controlled or _repels(result)
    return changed and (result.base is not None or result.kept.base_moments is not None)


def _by_coordinate(tree: Any) -> dict[str, float]:
    out: dict[str, float] = {}
    for name, leaf in name_leaves(tree).items():
        out |= {label: float(leaf[index]) for label, index in labels(name, np.shape(leaf))}
    return out


def _distance(summary: Any, truth: Moments) -> float:
    mean, variance = _by_coordinate(truth.mean), _by_coordinate(truth.variance)
    squares = [(summary.loc[k, "mean"] - mean[k]) ** 2 / variance[k] for k in mean]
    return float(np.sqrt(np.mean(squares)))
