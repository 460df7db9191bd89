"""Repelled MALA and HMC in plain and in learned coordinates, each over its plain kernel."""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

import srmc
from srmc_studies.bench.cells import cell, markdown, terminal
from srmc_studies.bench.coordinates import CASES, Truth, find_truth
from srmc_studies.bench.errors import ratio_error

TARGETS = ("banana", "funnel-5", "eight-schools-centred")
KERNELS = ("mala", "hmc")
MEASURES = ("mean", "second moment")


class Size(NamedTuple):
    """Chains, each a replicate with its own history; steps of warm-up and draws of each."""

    chains: int = 32
    warmup: int = 1000
    draws: int = 2000
    seed: int = 0


def looped(
    size: Size | None = None,
    *,
    alpha: float = 3.0,
    quick: bool = False,
    on_progress: Callable[..., None] = lambda *args: None,
) -> list[dict[str, Any]]:
    """A row for each target, kernel and coordinates: errors of plain and of repelled chains."""
    size = Size(8, 300, 200) if quick else size or Size()
    targets, kernels = (TARGETS[:1], KERNELS[:1]) if quick else (TARGETS, KERNELS)
    ways = ("learned",) if quick else ("plain", "learned")
    rows = []
    jobs = [(t, k, way) for t in targets for k in kernels for way in ways]
    truths = {t: find_truth(CASES[t].posterior(), CASES[t].view, quick) for t in targets}
    for n, (target, kernel, way) in enumerate(jobs):
        on_progress("looped", n, len(jobs), f"{kernel} on {target}, {way} coordinates")
        row = {"target": target, "kernel": kernel, "coordinates": way, "alpha": alpha}
        both = [_run(target, kernel, way, a, size, truths[target]) for a in (0.0, alpha)]
        rows.append(row | size._asdict() | {"plain": both[0], "repelled": both[1]})
    on_progress("looped", len(jobs), len(jobs), "")
    return rows


def _run(
    target: str, kernel: str, way: str, alpha: float, size: Size, truth: Truth
) -> dict[str, Any]:
    """Errors of each chain, and gradients per draw."""
    case = CASES[target]
    rng = np.random.default_rng(size.seed)
    starts = truth.draws[rng.integers(0, len(truth.draws), size.chains)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = srmc.sample(
            case.posterior().logdensity_fn,
            kernel=kernel,
            alpha=alpha,
            initial_position=list(np.asarray(starts, np.float32)),
            num_chains=size.chains,
            num_warmup=size.warmup,
            num_samples=size.draws,
            coordinates=way,
            shared_history=False,
            seed=size.seed,
            progress=False,
        )
    x = np.asarray(result.draws["x"], float)
    y = np.stack([(case.view(chain) - truth.mean) / truth.sd for chain in x])
    return {
        "mean": np.mean(y.mean(axis=1) ** 2, axis=1).tolist(),
        "second moment": np.mean((np.mean(y**2, axis=1) - 1) ** 2, axis=1).tolist(),
        "gradients": float(np.mean(result.stats["gradients"])),
    }


def _ratio(ours: dict[str, Any], theirs: dict[str, Any], name: str) -> str:
    """The ratio of squared errors at equal gradients, with its standard error."""
    mine, other = np.array(ours[name]), np.array(theirs[name])
    factor = ours["gradients"] / theirs["gradients"]
    ratio = factor * mine.mean() / other.mean()
    return cell(float(ratio), float(factor * ratio_error(other, mine)))


def _lines(rows: list[dict[str, Any]]) -> list[list[str]]:
    first = {
        (r["target"], r["kernel"]): r["plain"] for r in rows if r["coordinates"] == "plain"
    } or {(r["target"], r["kernel"]): r["plain"] for r in rows}
    heads = [f"{side}: {name}s" for side in ("plain", "repelled") for name in MEASURES]
    lines = [["target", "kernel", "coordinates", *heads]]
    for row in rows:
        base = first[row["target"], row["kernel"]]
        cells = [_ratio(row[side], base, m) for side in ("plain", "repelled") for m in MEASURES]
        lines.append([row["target"], row["kernel"], row["coordinates"], *cells])
    return lines


def looped_table(rows: list[dict[str, Any]]) -> Table:
    """Errors over those of the plain kernel in plain coordinates."""
    return terminal("Squared errors at equal gradients", _lines(rows))


def looped_page(rows: list[dict[str, Any]]) -> str:
    """The same as Markdown."""
    row = rows[0]
    return (
        "# Repelled kernels in learned coordinates\n\nMade by `srmc bench looped`.\n\n"
        f"Each of {row['chains']} chains has its own history, {row['warmup']:,} steps of warm-up "
        f"and {row['draws']:,} draws, and starts from a draw of the target. The numbers are "
        "squared errors of means and second moments, over those of the plain kernel in plain "
        "coordinates, at equal gradients of the draws. Warm-up is not counted. Repelled chains "
        f"have alpha = {row['alpha']:g}, which a guard lowers where the loop heats up.\n\n"
        + markdown(_lines(rows))
        + "\n"
    )
