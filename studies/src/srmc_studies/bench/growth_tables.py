"""Table and page of `srmc bench growth`."""

from typing import Any

import numpy as np
from rich.table import Table

from srmc_studies.bench.cells import markdown, terminal
from srmc_studies.bench.growth import (
    AXES,
    BANDWIDTH,
    CHAINS,
    CHAINS_PER_HOST,
    DIM,
    DRAWS,
    HOSTS,
    LATENCY,
    LEAPFROGS,
)

Row = dict[str, Any]


def of_kind(rows: list[Row], kind: str) -> list[Row]:
    return [row for row in rows if row["kind"] == kind]


def slope(sizes: list[int], seconds: list[float]) -> float:
    """The slope of the logarithm of seconds in that of the size, by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def time_lines(rows: list[Row]) -> list[list[str]]:
    """A heading, and a line per axis and part: seconds, and their slopes."""
    lines = [["", "sizes", "seconds of the processor", "slope", "slope of the last decade"]]
    for axis in AXES:
        for part in ("sampling", "rebalancing"):
            mine = [r for r in of_kind(rows, "time") if (r["axis"], r["part"]) == (axis, part)]
            if not mine:
                continue
            sizes, seconds = [r["size"] for r in mine], [r["cpu_seconds"] for r in mine]
            shown = ", ".join(f"{size:,}" for size in sizes), ", ".join(f"{s:.3g}" for s in seconds)
            slopes = slope(sizes, seconds), slope(sizes[-2:], seconds[-2:])
            lines.append([f"{axis}, {part}", *shown, *(f"{s:.2f}" for s in slopes)])
    return lines


def traffic_lines(rows: list[Row]) -> list[list[str]]:
    lines = [["d", "history", "bytes in all-reduces per step"]]
    found = of_kind(rows, "traffic")
    return lines + [[f"{r['dim']:,}", r["history"], f"{r['bytes']:,}"] for r in found]


def simulation_lines(rows: list[Row]) -> list[list[str]]:
    names = {
        "microseconds_on_one_host": "one host, µs",
        "own_histories": "own histories, µs",
        "shared_history": "shared history, µs",
        "waiting_share": "share of waiting",
        "network_share": "share of the network",
    }
    lines = [["d", "history_every", *names.values()]]
    for row in of_kind(rows, "simulation"):
        cells = [f"{row[k]:.0%}" if "share" in k[-5:] else f"{row[k]:,.0f}" for k in names]
        lines.append([f"{row['dim']:,}", str(row["history_every"]), *cells])
    return lines


def growth_table(rows: list[Row]) -> Table:
    """The rows of `srmc bench growth` that have seconds."""
    return terminal("What grows how", time_lines(rows))


def growth_page(rows: list[Row]) -> str:
    """All of them as Markdown."""
    repeats = of_kind(rows, "time")[0]["repeats"]
    of_rows = (
        "In the line of rows, two draws of two chains are made of the posterior of a logistic "
        f"regression with so many rows, d = {DIM}. "
    )
    has_rows = any(row["axis"] == "rows" for row in of_kind(rows, "time"))
    parts = [
        "# What grows how",
        "Made by `srmc bench growth`.",
        f"One size grows in each line. The others are {DRAWS} draws of {CHAINS} chains in {DIM} "
        "dimensions, of independent normal coordinates whose gradient costs next to nothing. "
        f"Sampling is BlackJAX's HMC with {LEAPFROGS} leapfrog steps, all chains in one program; "
        "rebalancing is `srmc.rebalance` of independent draws with their scores. "
        f"{of_rows * has_rows}Times are of the processor, of all threads, after a run that "
        f"compiles; the least of {repeats}. A slope of 1 is a cost in proportion to the "
        "size; small sizes have a constant share, so the last decade tells more.",
        markdown(time_lines(rows)),
        "Memory of draws grows with draws, chains and dimensions in proportion; that of "
        '`keep="moments"` does not grow with the number of draws.',
    ]
    if calls := of_kind(rows, "call"):
        parts += ["## Ten million rows", *map(_of_call, calls)]
    if of_kind(rows, "traffic"):
        parts += [
            "## What leaves a device",
            "Bytes of the all-reduces in the compiled program of one step of repelled HMC, for "
            "eight chains on four devices of a CPU. Each device adds its own chains first, so the "
            "number of chains does not enter. With own histories, and for plain chains that are "
            "rebalanced afterwards (the default), nothing leaves a device during a step. Draws go "
            "to the host: 4 bytes per coordinate of a draw in single precision, and as many for "
            "its score.",
            markdown(traffic_lines(rows)),
        ]
    if of_kind(rows, "simulation"):
        parts += [
            f"## {HOSTS * CHAINS_PER_HOST:,} chains on {HOSTS} hosts: a simulation",
            "**No cluster took part.** The time of a step of one host, repelled HMC with "
            f"{CHAINS_PER_HOST} chains, was measured 100 times on this machine, in time of the "
            "processor; each simulated host takes one of these times at random for each of 1,000 "
            "steps. The network is "
            f"assumed: an all-reduce by a ring or a tree, whichever is faster, at "
            f"{BANDWIDTH / 1e9:.0f} GB/s with {1e6 * LATENCY:.0f} µs per message, after which all "
            "hosts go on. The table has microseconds per step, and "
            "the shares of waiting for the slowest host and of the network in a step with a shared "
            "history. Disturbances by other programs of a host are not in these times.",
            markdown(simulation_lines(rows)),
            "The gradient of this target costs next to nothing, so these are the largest shares. "
            "A step that takes longer has smaller ones.",
        ]
    return "\n\n".join(parts) + "\n"


def _of_call(row: Row) -> str:
    return (
        f"A whole call of `srmc.sample` with the data of {row['rows']:,} rows, d = {row['dim']}, "
        f"sharded over {row['devices']} devices of one CPU: HMC, "
        f"{row['num_integration_steps']} leapfrog step per draw, {row['num_chains']} chains of "
        f"{row['num_warmup']} + {row['num_samples']} steps from near the mode. It took "
        f"{row['seconds']:.0f} s, {row['cpu_seconds']:.0f} s of the processor, for "
        f"{row['gradients']:,} gradients, and the process had {row['megabytes']:,.0f} MB at its "
        f"peak, the making of the data included. The largest distance of a mean from the true "
        f"coefficient is {row['largest_z']:.1f} posterior standard deviations."
    )
