"""Tables of `srmc bench coordinates`."""

from typing import Any

from rich.table import Table

from srmc_studies.bench.cells import cell, geometric_mean, markdown, terminal
from srmc_studies.bench.coordinates import FUNCTIONALS, against

Row = dict[str, Any]
PER = {"gradients": "gradients", "seconds": "seconds", "first call": "seconds of a first call"}


def _by_target(rows: list[Row]) -> dict[str, dict[str, Row]]:
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        found.setdefault(row["target"], {})[row["sampler"]] = row
    return found


def best_of(samplers: dict[str, Row], name: str, per: str) -> Row:
    """The rival whose error of this functional is smallest at equal cost."""
    plain = samplers["srmc, plain"]
    others = [row for key, row in samplers.items() if not key.startswith("srmc")]
    return min(others, key=lambda row: against(row, "draws", plain, name, per)[0])


def _ratios(samplers: dict[str, Row], ours: str, side: str, per: str) -> list[tuple[float, float]]:
    """Ours over the best rival of each functional."""
    own = samplers[ours]
    return [against(own, side, best_of(samplers, name, per), name, per) for name in FUNCTIONALS]


def over_best(rows: list[Row], per: str) -> dict[str, list[tuple[float, float]]]:
    """`srmc.sample` over the best rival of each functional, with standard errors, by target."""
    return {
        target: _ratios(samplers, "srmc, auto", "rebalanced", per)
        for target, samplers in _by_target(rows).items()
    }


def _lines(rows: list[Row], ours: str, side: str, per: str) -> list[list[str]]:
    """A heading, a line per target, and the geometric means over targets that are not controls."""
    lines, kept = [["target", *(f"{name}s" for name in FUNCTIONALS)]], []
    for target, samplers in _by_target(rows).items():
        ratios = _ratios(samplers, ours, side, per)
        control = samplers[ours]["control"]
        kept += [] if control else [[ratio for ratio, _ in ratios]]
        lines.append([target + control * " *", *(cell(*pair) for pair in ratios)])
    if kept:
        means = (geometric_mean(column) for column in zip(*kept, strict=True))
        lines.append(["geometric mean", *means])
    return lines


def _within(rows: list[Row], side: str) -> list[list[str]]:
    """`coordinates="auto"` over `coordinates="plain"`, at equal gradients."""
    lines = [["target", *(f"{name}s" for name in FUNCTIONALS)]]
    for target, samplers in _by_target(rows).items():
        plain, auto = samplers["srmc, plain"], samplers["srmc, auto"]
        other = plain | {"errors": {"draws": plain["errors"][side]}}
        found = [against(auto, side, other, name, "gradients") for name in FUNCTIONALS]
        lines.append([target + auto["control"] * " *", *(cell(*pair) for pair in found)])
    return lines


def _spent(rows: list[Row]) -> list[list[str]]:
    lines = [["target", "sampler", "gradients", "seconds", "first call", "divergences"]]
    for row in rows:
        first = row["seconds"] + row["compile_seconds"]
        counted = (
            "" if row["divergences"] is None else f"{row['divergences'] / row['replicates']:.1f}"
        )
        numbers = f"{row['gradients']:,.0f}", f"{row['seconds']:.2f}", f"{first:.2f}"
        lines.append([row["target"], row["sampler"], *numbers, counted])
    return lines


def coordinates_table(rows: list[Row]) -> Table:
    """Rebalanced draws in learned coordinates over the best rival, at equal gradients."""
    title = "Squared errors times gradients, srmc.sample over the best other sampler"
    return terminal(title, _lines(rows, "srmc, auto", "rebalanced", "gradients"))


def coordinates_page(rows: list[Row]) -> str:
    """All tables as Markdown."""
    first = rows[0]
    others = [name for name in dict.fromkeys(row["sampler"] for row in rows) if "srmc" not in name]
    counts = sorted({row["replicates"] for row in rows})
    sources = {row["target"]: row["truth"] for row in rows}
    head = (
        "# Learned coordinates: measurements\n\nMade by `srmc bench coordinates`.\n\n"
        f"Each replicate is four chains of {first['warmup']:,} steps of warm-up and "
        f"{first['draws']:,} draws, which start from draws of the target; there are "
        f"{' or '.join(map(str, counts))} replicates. Errors are squared, averaged over "
        "coordinates, and multiplied by all gradients, warm-up, pilot and checks included, or by "
        "seconds of the processor. The numbers are ratios, with standard errors over replicates. "
        f"The best other sampler is the best of {', '.join(others)}, chosen for each functional by "
        "its error at that cost. Quantiles are those at 5, 25, 50, 75 and 95%, and tails are "
        "probabilities beyond the true 93.3% quantile. For funnels, means and variances are those "
        "of the neck and of the logarithms of the other coordinates, since log-normal variables "
        "with this scale have variances that no sampler of this length estimates. A star marks "
        "targets near a Gaussian, where learned coordinates should change nothing; they are not "
        "part of the geometric means.\n"
    )
    parts = [head]
    for per, words in PER.items():
        parts.append(f"\n## `srmc.sample` over the best other sampler, by {words}\n")
        parts.append(markdown(_lines(rows, "srmc, auto", "rebalanced", per)) + "\n")
    parts.append("\n## The same before rebalancing, by gradients\n")
    parts.append(markdown(_lines(rows, "srmc, auto", "draws", "gradients")) + "\n")
    parts.append('\n## `coordinates="plain"` over the best other sampler, by gradients\n')
    parts.append(markdown(_lines(rows, "srmc, plain", "rebalanced", "gradients")) + "\n")
    parts.append('\n## `coordinates="auto"` over `coordinates="plain"`, both rebalanced\n')
    parts.append(markdown(_within(rows, "rebalanced")) + "\n")
    parts.append("\n## Cost per replicate\n\nDivergences are counted for `srmc.sample` alone.\n")
    parts.append(markdown(_spent(rows)) + "\n")
    parts.append("\n## References\n")
    parts.append("\n".join(f"- {target}: {source}" for target, source in sources.items()) + "\n")
    return "\n".join(parts)
