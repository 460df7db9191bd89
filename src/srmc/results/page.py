"""The page of a run: one HTML file that needs nothing else."""

from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import numpy as np

from srmc.results.charts import Markup, join, limit, pictures, table, tag
from srmc.results.repeat import how_to_repeat
from srmc.results.result import Result
from srmc.results.shown import Shown, first_coordinates, kind_of, summary_of
from srmc.results.tables import facts
from srmc.results.verdict import coordinates, in_words, verdict

CHAINS = 20  # largest number of chains in a table


def page(result: Result) -> str:
    """The page as HTML."""
    shown = first_coordinates(result)
    own = summary_of(result, shown, base=False)
    settings = result.about.get("settings", {})
    title = str(settings.get("model", "draws"))
    head = join(
        (
            tag("title", f"{title}: a run of srmc"),
            Markup('<meta charset="utf-8">'),
            Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            tag("style", Markup(files("srmc.results").joinpath("page.css").read_text())),
        )
    )
    sections = (
        tag("h1", title),
        tag("p", in_words(result), class_="lead"),
        verdict(result, own),
        *_estimates(result, shown, own),
        *pictures(result, shown),
        *_rebalancing(result),
        *coordinates(result),
        *_looks(result),
        *_chains(result),
        *_cost(result),
        *how_to_repeat(result),
    )
    body = tag("main", *sections, class_=kind_of(result))
    return f'<!DOCTYPE html>\n<html lang="en">\n<head>{head}</head>\n<body>{body}</body>\n</html>\n'


def _estimates(result: Result, shown: Shown, own: Any) -> Iterator[Markup]:
    yield tag("h2", "Estimates")
    what = kind_of(result)
    plain = None
    if shown.before is not None or (what != "plain" and result.kept.base_moments):
        plain = summary_of(result, shown, base=True)
    how = "by control variates from the plain" if what == "controlled" else f"from the {what}"
    words = f"These are estimates {how} draws, each with its standard error."
    if plain is not None:
        words += (
            " A gain of 30 means that 30 times as many plain draws would give the same error of "
            "the mean. R-hat and ESS are those of the plain chains."
        )
    yield tag("p", words, " Estimate ± 1.96 × error is a 95% interval.")
    yield _table(shown, own, plain)
    yield tag("p", "Scroll the table sideways for more columns.", class_="small cue")
    yield from limit(shown.total, len(shown.names), "coordinates are in this table")
    if plain is not None:
        yield tag("details", tag("summary", "Estimates from the plain draws"), _table(shown, plain))


def _table(shown: Shown, own: Any, plain: Any = None) -> Markup:
    """Estimates with errors, the gain over plain draws, and convergence of the plain chains."""
    columns = [c for c in own.columns if not c.startswith(("error", "tail")) and "_base" not in c]
    known = {"r_hat_base": "R-hat", "ess_base": "ESS"}
    heads = ["", *columns, *(["gain"] if plain is not None else [])]
    heads += [head for key, head in known.items() if key in own]
    if plain is not None:
        heads.insert(2, "plain mean")
    rows = []
    for name in shown.names:
        row, cells = own.loc[name], [_with_error(own.loc[name], c) for c in columns]
        if plain is not None:
            cells.insert(1, _with_error(plain.loc[name], columns[0]))
            cells.append(_plain_number((plain.loc[name, "error"] / row["error"]) ** 2))
        if "r_hat_base" in own:
            cells += [f"{row['r_hat_base']:.3f}", _plain_number(row["ess_base"])]
        rows.append([name, *cells])
    return table([heads], rows)


def _with_error(row: Any, column: str) -> str:
    """A value to the digits that its error leaves.

    >>> _with_error({"mean": 1.23456, "error": 0.0123}, "mean")
    '1.235 ± 0.012'
    """
    name = "error" if column == "mean" else f"error_{column}"
    value, error = row[column], row.get(name)
    if error is None or not np.isfinite(error) or error <= 0:
        return _plain_number(value)
    digits = int(1 - np.floor(np.log10(error)))
    if not 0 <= digits <= 9:
        return f"{value:.4g} ± {error:.1g}".replace("-", "\N{MINUS SIGN}")
    return f"{value:,.{digits}f} ± {error:.{digits}f}".replace("-", "\N{MINUS SIGN}")


def _plain_number(value: Any) -> str:
    if not np.isfinite(value):
        return "unknown"
    text = (
        f"{value:,}"
        if isinstance(value, int)
        else f"{value:,.0f}"
        if value >= 100
        else f"{value:.3g}"
    )
    return text.replace("-", "\N{MINUS SIGN}")


def _rebalancing(result: Result) -> Iterator[Markup]:
    reports = result.rebalancing
    if not reports:
        return
    yield tag("h2", "Rebalancing")
    yield tag(
        "p",
        "The squared errors to expect, as a share of those of the plain draws, and how far draws "
        "moved, in standard deviations.",
    )
    rows = [
        [
            "all chains" if len(reports) == 1 else f"chain {n}",
            *(f"{ratio:.1%}" for ratio in r.expected),
            f"{r.typical_move:.2g}",
            f"{r.largest_move:.2g}",
        ]
        for n, r in enumerate(reports[:CHAINS])
    ]
    first = [("", 1), ("expected squared error of", 3), ("move", 2)]
    second = ["", "means", "variances", "quantiles", "typical", "largest"]
    yield table([first, second], rows)
    yield from limit(len(reports), len(rows), "chains are shown")
    found = [f for r in reports[:CHAINS] for f in r.findings if f.failed]
    texts = [r.reason for r in reports[:CHAINS] if r.reason] + [f.text for f in found]
    if texts:
        yield tag("ul", *(tag("li", text) for text in dict.fromkeys(texts)))


def _looks(result: Result) -> Iterator[Markup]:
    looks = result.about.get("looks")
    if not looks:
        return
    aims = result.about["settings"]["target_error"]
    yield tag("h2", "Looks at the run")
    asked = ", ".join(f"{kind} {error:g}" for kind, error in aims.items())
    yield tag(
        "p",
        f"The run was to end when standard errors, in standard deviations, are at most: {asked}. "
        "The table has the largest of all coordinates.",
    )
    rows = [
        [
            f"{look['draws']:,} draws",
            *(f"{look['errors'][kind]:.2g}" for kind in aims),
            "yes" if look["trusted"] else "no",
            f"{look['gradients']:,}",
        ]
        for look in looks
    ]
    yield table([["", *aims, "chains have mixed", "gradients of rebalancing"]], rows)


def _chains(result: Result) -> Iterator[Markup]:
    known = {"acceptance_rate": "acceptance", "gradients": "gradients per draw"}
    if kind_of(result) == "repelled":
        known["alpha"] = "alpha"
    if "diverging" not in result.stats:
        return
    yield tag("h2", "Chains")
    sizes = np.array(result.kept.batch_sizes or 1.0)
    count = np.sum(np.broadcast_to(sizes, np.shape(result.stats["alpha"])[1:]))
    sums = {
        k: np.sum(np.asarray(result.stats[k], float) * sizes, axis=1) for k in [*known, "diverging"]
    }
    rows = [
        [
            f"chain {n}",
            f"{sums['diverging'][n]:,.0f}",
            *(_plain_number(sums[k][n] / count) for k in known),
        ]
        for n in range(min(CHAINS, len(sums["diverging"])))
    ]
    yield table([["", "divergences", *known.values()]], rows)
    yield from limit(len(sums["diverging"]), len(rows), "chains are shown")


def _cost(result: Result) -> Iterator[Markup]:
    if "settings" not in result.about:
        return
    yield tag("h2", "The run and its cost")
    found = facts(result)
    unknown = lambda name, value: "gradients" in name and value < 0
    yield table(
        [], [[k, "unknown" if unknown(k, v) else _plain_number(v)] for k, v in found.items()]
    )
