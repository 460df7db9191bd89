"""Table, page and picture of `srmc bench clock`."""

from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure
from rich.box import SIMPLE_HEAD
from rich.table import Table

from srmc.results.look import COLOURS, OTHERS, WIDTH, look, save
from srmc_studies.bench.cells import LEFT, markdown
from srmc_studies.bench.panels import name_lines

PICTURE = "clock.png"
Row = dict[str, Any]
CALLS = (
    ("srmc", "first"),
    ("srmc", "second"),
    ("srmc", "new process"),
    ("BlackJAX", "first"),
    ("BlackJAX", "second"),
    ("NumPyro", "first"),
    ("NumPyro", "second"),
    ("nutpie", "first"),
    ("nutpie", "second"),
)
UNIT = ("BlackJAX", "first")
VARIANTS = ("BlackJAX", "plain", "repelled", "gradients alone")


def of_kind(rows: list[Row], kind: str) -> list[Row]:
    return [row for row in rows if row["kind"] == kind]


def call_lines(rows: list[Row], clock: str = "") -> list[list[str]]:
    """A heading, and a line per model, with the times of whole calls over BlackJAX's first.

    `clock` is "cpu_" for the time of the processor.
    """
    found = of_kind(rows, "call")
    there = [pair for pair in CALLS if pair in {(r["library"], r["call"]) for r in found}]
    there.remove(UNIT)
    lines = [["model", "d", "BlackJAX, s", *(f"{library}, {call}" for library, call in there)]]
    for model in dict.fromkeys(row["model"] for row in found):
        mine = {(r["library"], r["call"]): r for r in found if r["model"] == model}
        unit = mine[UNIT]
        cells = [f"{mine[pair][clock + 'ratio']:.2f}" if pair in mine else "–" for pair in there]
        lines.append([model, str(unit["dim"]), f"{unit[clock + 'seconds']:.1f}", *cells])
    return lines


def step_lines(rows: list[Row]) -> list[list[str]]:
    """A heading, and a line per model and kernel, with processor times over BlackJAX's."""
    found = of_kind(rows, "step")
    lines = [["model", "d", "kernel", "gradients per step", "BlackJAX, µs", *VARIANTS[1:]]]
    lines[0].append("repelled over plain")
    for model, kernel in dict.fromkeys((row["model"], row["kernel"]) for row in found):
        mine = {r["variant"]: r for r in found if (r["model"], r["kernel"]) == (model, kernel)}
        unit = mine["BlackJAX"]
        ratios = [mine[name]["cpu_ratio"] for name in VARIANTS[1:]]
        cells = [f"{ratio:.2f}" for ratio in (*ratios, ratios[1] / ratios[0])]
        about = [model, str(unit["dim"]), kernel, f"{unit['gradients_per_step']:.1f}"]
        lines.append([*about, f"{unit['cpu_microseconds_per_step']:.0f}", *cells])
    return lines


def builder_lines(rows: list[Row]) -> list[list[str]]:
    """A heading, and a line per builder, with processor times and gradients over BlackJAX's."""
    lines = [["kernel", "variant", "µs", "gradients", "time", "time over gradients"]]
    found = of_kind(rows, "builder")
    units = {r["kernel"]: r["gradients_per_step"] for r in found if r["variant"] == "BlackJAX"}
    for row in found:
        gradients = row["gradients_per_step"] / units[row["kernel"]]
        numbers = gradients, row["cpu_ratio"], row["cpu_ratio"] / gradients
        micro = f"{row['cpu_microseconds_per_step']:.0f}"
        cells = [f"{number:.2f}" for number in numbers]
        lines.append([row["kernel"], row["variant"], micro, *cells])
    return lines


def memory_lines(rows: list[Row]) -> list[list[str]]:
    """A heading, and a line per size, with the peak of memory of a run."""
    lines = [["d", "kernel", "steps per chain", "kept", "size of it, MB", "peak, MB", "seconds"]]
    for row in of_kind(rows, "memory"):
        steps = f"{row['warmup']} + {row['samples']}"
        peak = row["megabytes"] - row["megabytes_before"]
        sizes = [f"{row['kept_megabytes']:.3g}", f"{peak:.0f}", f"{row['seconds']:.1f}"]
        lines.append([f"{row['dim']:,}", row["kernel"], steps, row["keep"], *sizes])
    return lines


def clock_table(rows: list[Row]) -> Table:
    """The rows of `srmc bench clock`, one line each."""
    out = Table(box=SIMPLE_HEAD, title="Time over that of BlackJAX in the same run", **LEFT)
    for n, column in enumerate(("", "", "seconds", "ratio")):
        out.add_column(column, justify="left" if n < 2 else "right", no_wrap=True)
    for row in of_kind(rows, "call"):
        label = f"{row['library']}, {row['call']} call"
        out.add_row(row["model"], label, f"{row['seconds']:.2f}", f"{row['ratio']:.2f}")
    for row in of_kind(rows, "step"):
        label = f"{row['kernel']} step, {row['variant']}"
        micro = f"{row['microseconds_per_step']:.0f}e-6"
        out.add_row(row["model"], label, micro, f"{row['ratio']:.2f}")
    for row in of_kind(rows, "builder"):
        micro = f"{row['microseconds_per_step']:.0f}e-6"
        label = f"{row['kernel']} step, {row['variant']}"
        out.add_row(f"{row['rows']:,} rows", label, micro, f"{row['ratio']:.2f}")
    for row in of_kind(rows, "memory"):
        label = f"peak {row['megabytes'] - row['megabytes_before']:.0f} MB, "
        label += f"{row['kernel']}, {row['keep']}"
        out.add_row(f"normal-{row['dim']}", label, f"{row['seconds']:.1f}", "")
    for row in of_kind(rows, "import"):
        out.add_row("", f"import {row['library']}", f"{row['seconds']:.2f}", "")
    out.caption = skipped(rows)
    return out


def skipped(rows: list[Row]) -> str:
    """A sentence on libraries that are not installed, if any."""
    names = dict.fromkeys(row["library"] for row in of_kind(rows, "skipped"))
    return f"Not installed, and skipped: {', '.join(names)}." if names else ""


def _rounds(rows: list[Row], kind: str) -> str:
    return "/".join(map(str, sorted({row["rounds"] for row in of_kind(rows, kind)})))


def clock_page(rows: list[Row]) -> str:
    """The same as Markdown."""
    imports = ", ".join(f"{r['library']} {r['seconds']:.2f} s" for r in of_kind(rows, "import"))
    parts = [
        "# By the clock",
        "Made by `srmc bench clock`.",
        "All times of a line were taken in turn, in one run, and lines may be of separate runs; "
        "they are given relative to BlackJAX's in the same round: medians over "
        f"{_rounds(rows, 'call')} rounds of calls and {_rounds(rows, 'step')} of steps. On a "
        "machine that runs other programs at the same time, seconds by the clock are longer and "
        "their ratios scatter; those of processor time do so less.",
        f"![Times of calls and of steps over BlackJAX's]({PICTURE})",
        "## Whole calls",
        "Four chains of 1,000 + 1,000 NUTS steps at each library's defaults. The first call of a "
        "library is made in a new process and compiles everything; the second follows in the same "
        "process with another seed; for srmc, another one is made in a new process that finds "
        "the compiled programs on disk (`srmc.enable_cache()`; without it, this call takes as "
        "long as the first). The unit is the first call of BlackJAX's window "
        "adaptation and NUTS, compiled as one program; its seconds are in the third column. "
        "srmc's calls rebalance their draws and compute R-hat, too. "
        "Linear algebra has one thread (`OPENBLAS_NUM_THREADS=1`). "
        "BlackJAX's chains run in lockstep in one program, which keeps about one core busy; srmc's "
        "chains use all cores. By the clock that favours srmc on this machine of two cores; the "
        "second table, of processor time, does not credit it. One program per chain is what keeps "
        "draws independent of the number of devices. It takes more processor time where the "
        "gradient is a product with a large matrix (logistic-100), which lockstep reads once for "
        "all chains, and less where chains differ in their tree depths (normal-1000). "
        "Imports are not included."
        + (f" They take, of the processor: {imports}." if imports else ""),
        markdown(call_lines(rows)),
        "The same in seconds of the processor, of all threads:",
        markdown(call_lines(rows, "cpu_")),
        skipped(rows),
        "## Single steps",
        "Processor times, for four chains in lockstep with the parameters that warm-up found; HMC "
        "takes 10 leapfrog steps. The unit is the same kernel of BlackJAX. `plain` is the kernel "
        "that `srmc.sample` runs at its defaults, `repelled` what it runs where repellence tunes "
        "itself, with one history for all chains; `gradients alone` are as many evaluations of the "
        "log density and its gradient as the longest chain of each step takes, and nothing else.",
        markdown(step_lines(rows)),
    ]
    if builders := of_kind(rows, "builder"):
        first = builders[0]
        parts += [
            f"The builders, such as `srmc.mala`, with {first['chains']} chains under `vmap` and "
            f"`scan` on a logistic regression with {first['rows']:,} rows, d = {first['dim']}. "
            "Gradients, which the steps count, and processor times are relative to the kernel of "
            f"BlackJAX; medians of {_rounds(rows, 'builder')} runs that take turns.",
            markdown(builder_lines(rows)),
        ]
    if of_kind(rows, "memory"):
        parts += [
            "## Memory",
            "`srmc.sample` on independent normal coordinates, four chains, in a process of its "
            "own: the size of what is kept, and the peak of the process's memory above that of "
            "JAX and srmc before the run. The compiler alone takes several hundred MB. Draws that "
            "are kept are rebalanced in 10 and in 1,000 dimensions, with several copies of draws "
            "and scores in double precision. In 100,000 they are too many, and are repelled as "
            "they are made; the peak is that of warm-up, which measures the loop on late draws of "
            "each chain and their scores. Where only moments are kept, chains are plain, with "
            "control variates. HMC is run in 100,000 dimensions, for fewer "
            "steps: BlackJAX's NUTS copies what it stores of its trajectory at each leapfrog "
            "step, and had not done 400 steps after two minutes.",
            markdown(memory_lines(rows)),
        ]
    return "\n\n".join(part for part in parts if part) + "\n"


LIBRARIES = {"srmc": COLOURS["rebalanced"], "BlackJAX": "0.35"}
LIBRARIES |= {"NumPyro": OTHERS[0], "nutpie": OTHERS[1]}
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
MARKERS = {"first": "o", "second": "s", "new process": "D"}
STYLES: dict[str, dict[str, Any]] = {
    "plain": {"marker": "o", "color": COLOURS["plain"]},
    "repelled": {"marker": "o", "color": COLOURS["repelled"]},
    "gradients alone": {"marker": "|", "color": "0.3", "markersize": 10},
}


class Point(NamedTuple):
    """A point of the picture: its ratio, its line, its name in the legend, and its look."""

    ratio: float
    line: str
    name: str
    style: dict[str, Any]
    lower: float = 0.0  # by so much of a line, so that points of several libraries do not overlap


def draw_clock(rows: list[Row], folder: Path) -> None:
    """Seconds of calls and processor times of steps over BlackJAX's, on a log scale."""
    panels = _of_calls(rows), _of_steps(rows)
    lines = [list(dict.fromkeys(point.line for point in points)) for points in panels]
    heights = [1.6 + 0.42 * len(lines[0]), 1.4 + 0.21 * len(lines[1])]
    titles = "seconds of whole calls", "processor time of steps"
    with look():
        figure = Figure(figsize=(WIDTH, sum(heights)), layout="constrained")
        both = figure.subplots(2, 1, height_ratios=heights)
        for axes, points, names, title in zip(both, panels, lines, titles, strict=True):
            for name in dict.fromkeys(point.name for point in points):
                mine = [point for point in points if point.name == name]
                places = [names.index(point.line) + point.lower for point in mine]
                ratios = [point.ratio for point in mine]
                axes.plot(ratios, places, linestyle="", label=name, **mine[0].style)
            name_lines(axes, names, title, same=1.0)
            axes.set_xscale("log")
            low, high = axes.get_xlim()
            axes.set_xticks([tick for tick in TICKS if low <= tick <= high])
            axes.set_xticks([], minor=True)
            axes.xaxis.set_major_formatter("{x:g}")
            axes.set_xlabel(
                f"← faster      over BlackJAX's {('first call', 'step')[axes is both[1]]}"
            )
            axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        save(figure, folder / PICTURE)


def _of_calls(rows: list[Row]) -> list[Point]:
    points = []
    for place, (library, colour) in enumerate(LIBRARIES.items()):
        for row in (row for row in of_kind(rows, "call") if row["library"] == library):
            filled = colour if row["call"] == "first" else "none"
            style = {"marker": MARKERS[row["call"]], "color": colour, "markerfacecolor": filled}
            name, lower = f"{library}, {row['call']}", 0.2 * (place - 1.5)
            points.append(Point(row["ratio"], row["model"], name, style, lower))
    return points


def _of_steps(rows: list[Row]) -> list[Point]:
    return [
        Point(row["cpu_ratio"], f"{row['model']}, {row['kernel']}", name, style)
        for name, style in STYLES.items()
        for row in of_kind(rows, "step")
        if row["variant"] == name
    ]
