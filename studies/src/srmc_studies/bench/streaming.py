"""One pass over many dimensions that keeps moments alone: plain, controlled, and repelled."""

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from rich.table import Table

import srmc
from srmc.targets import Target
from srmc_studies.bench.cells import markdown, terminal
from srmc_studies.bench.coverage import log_gamma

Row = dict[str, Any]
TARGETS: dict[str, Callable[[int], Target]] = {
    "ellipsoid": lambda dim: srmc.targets.ellipsoid(dim, 100.0),
    "log gamma": lambda dim: log_gamma(2.0, dim),
}
# The second is the default; an empty `repellence` repels with the strength found in warm-up.
SIDES: dict[str, dict[str, Any]] = {
    "plain": {"alpha": 0.0},
    "control variates": {},
    "repelled": {"repellence": {}},
}


def streaming(
    dims: Sequence[int] | None = None,
    *,
    num_samples: int = 1000,
    replicates: int = 3,
    seed: int = 0,
    quick: bool = False,
    on_progress: Callable[..., None] = lambda *args: None,
    on_row: Callable[[Row], None] = lambda row: None,
) -> list[Row]:
    """A row for each target and number of dimensions, of runs with keep="moments"."""
    names = list(TARGETS)
    if quick:
        replicates, num_samples, names = 1, 200, names[-1:]
    jobs = [(name, dim) for dim in dims or ([16] if quick else [4096, 100_000]) for name in names]
    rows = []
    for done, (name, dim) in enumerate(jobs):
        on_progress("streaming", done, len(jobs), f"{name}, d = {dim:,}")
        rows.append({"target": name} | compare(TARGETS[name](dim), num_samples, replicates, seed))
        on_row(rows[-1])
    on_progress("streaming", len(jobs), len(jobs), "")
    return rows


def compare(target: Target, num_samples: int, replicates: int, seed: int = 0) -> Row:
    """Errors, gradients and seconds of all sides, averaged over replicates of four chains."""
    found: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    for n in range(replicates):
        for side, options in SIDES.items():
            found[side].append(_run(target, options, num_samples, seed + n))
    assert target.moments is not None
    return {
        "dim": int(np.size(target.moments.mean)),
        "draws": num_samples,
        "replicates": replicates,
        "seed": seed,
        "sides": {
            side: {k: float(np.mean([one[k] for one in each])) for k in each[0]}
            for side, each in found.items()
        },
    }


def _run(target: Target, options: dict[str, Any], num_samples: int, seed: int) -> dict[str, float]:
    """The errors of a run that keeps moments, and what it costs in gradients and seconds."""
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = srmc.sample(
            target,
            kernel="hmc",
            num_samples=num_samples,
            seed=seed,
            keep="moments",
            progress=False,
            **options,
        )
        table = result.summary()
    seconds = time.perf_counter() - began
    gradients = float(result.gradients + result.total("hvps"))
    errors = _errors(target, table["mean"].to_numpy(), table["sd"].to_numpy() ** 2)
    return {"gradients": gradients, "seconds": seconds} | errors


def _errors(target: Target, mean: np.ndarray, found: np.ndarray) -> dict[str, float]:
    """Squared errors of means and variances in units of the target's, and the largest ones."""
    assert target.moments is not None
    true_mean, variance = (np.asarray(leaf, float) for leaf in target.moments[:2])
    off, wide = (mean - true_mean) ** 2 / variance, found / variance - 1
    return {
        "mean": float(off.mean()),
        "variance": float(np.mean(wide**2)),
        "worst mean": float(off.max()),
        "worst variance": float(np.max(wide**2)),
        # That of the average of all variances, in which many small errors of one sign add up.
        "average variance": float(np.mean(wide) ** 2),
    }


def _lines(rows: list[Row]) -> list[list[str]]:
    columns = ("mean", "variance", "worst mean", "worst variance", "average variance")
    lines = [["target", "", *columns, "gradients", "seconds"]]
    for row in rows:
        plain = row["sides"]["plain"]
        for side in SIDES:
            found = row["sides"][side]
            spent = found["gradients"] / plain["gradients"]
            ratios = [
                f"{found[k]:.2g}" if side == "plain" else f"{found[k] / plain[k] * spent:.3g}"
                for k in columns
            ]
            cost = [f"{found['gradients']:.3g}", f"{found['seconds']:.0f}"]
            lines.append([f"{row['target']}, d = {row['dim']:,}", side, *ratios, *cost])
    return lines


def streaming_table(rows: list[Row]) -> Table:
    """The rows of `srmc bench streaming`."""
    caption = "Those of plain runs; for the others the ratio to these, times that of gradients."
    return terminal("Squared errors of moments in one pass", _lines(rows), caption)


def streaming_page(rows: list[Row]) -> str:
    """The same as Markdown."""
    first = rows[0]
    about = (
        "# One pass over many dimensions\n\nMade by `srmc bench streaming`: "
        f'`srmc.sample(target, keep="moments")` with four chains of {first["draws"]:,} draws of '
        f"HMC, {first['replicates']} replicates, in single precision. Lines called plain have "
        "squared errors in units of the target's variances, averaged over coordinates, and the "
        "largest over coordinates; the last of the errors is that of the average of all "
        "variances. The other lines have ratios to these, times the ratio of the gradients. "
        "Control variates, the default, are the score of each coordinate and its product with the "
        "coordinate, with coefficients from batches of the same run. Seconds are those of a whole "
        "call, with compilation.\n\n"
    )
    return about + markdown(_lines(rows)) + "\n"
