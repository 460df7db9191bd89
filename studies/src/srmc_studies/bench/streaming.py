"""One pass over many dimensions that keeps moments alone: plain, controlled, and repelled."""

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from rich.table import Table

import srmc
from srmc.targets import Target
from srmc.types import Array
from srmc_studies.bench.cells import markdown, terminal
from srmc_studies.bench.coverage import log_gamma

Row = dict[str, Any]
TARGETS: dict[str, Callable[[int], Target]] = {
    "ellipsoid": lambda dim: srmc.targets.ellipsoid(dim, 100.0),
    "log gamma": lambda dim: log_gamma(2.0, dim),
}
SIDES = ("plain", "control variates", "repelled")


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
        plain = _run(target, 0.0, num_samples, seed + n)
        repelled = _run(target, "auto", num_samples, seed + n)
        for side, (moments, cost) in zip(
            SIDES, [_plain(plain), _controlled(plain), _plain(repelled)], strict=True
        ):
            found[side].append(cost | _errors(target, *moments))
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


Run = tuple[dict[str, np.ndarray], dict[str, float]]


def _run(target: Target, alpha: float | str, num_samples: int, seed: int) -> Run:
    """Averages of what control variates need, and what they cost, in gradients and seconds."""
    score = jax.grad(target.logdensity_fn)

    def statistics(values: dict[str, Array]) -> dict[str, Array]:
        x = values["x"]
        s = score(x)
        named = {"xx": x * x, "s": s, "ss": s * s, "xs": x * s, "xxs": x * x * s}
        return named | {"xss": x * s * s, "xxss": x * x * s * s, "xxxs": x**3 * s}

    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = srmc.sample(
            target,
            kernel="hmc",
            alpha=alpha,
            num_samples=num_samples,
            seed=seed,
            keep="moments",
            statistics=statistics if alpha == 0.0 else (lambda x: {"xx": x["x"] ** 2}),
            progress=False,
        )
    seconds = time.perf_counter() - began
    moments = result.moments
    assert moments is not None
    gradients = float(result.gradients + result.total("hvps"))
    means = {name: np.mean(one["mean"], axis=0) for name, one in moments.items()}
    return means, {"gradients": gradients, "seconds": seconds}


def _plain(run: Run) -> tuple[tuple[np.ndarray, np.ndarray], dict[str, float]]:
    means, cost = run
    return (means["x"], means["xx"]), cost


def _controlled(run: Run) -> tuple[tuple[np.ndarray, np.ndarray], dict[str, float]]:
    """Each coordinate with its own s and x s + 1 as control variates, both of mean 0."""
    m, cost = run
    features = np.stack([m["s"], m["xs"] + 1])
    # Covariances of the two, and of them with x and x^2, coordinate by coordinate.
    ss = m["ss"] - m["s"] ** 2
    sp = m["xss"] - m["s"] * m["xs"]
    pp = m["xxss"] - m["xs"] ** 2
    with_x = np.stack([m["xs"] - m["x"] * m["s"], m["xxs"] - m["x"] * m["xs"]])
    with_xx = np.stack([m["xxs"] - m["xx"] * m["s"], m["xxxs"] - m["xx"] * m["xs"]])
    det = ss * pp - sp**2
    solve = lambda v: np.stack([pp * v[0] - sp * v[1], ss * v[1] - sp * v[0]]) / det
    mean, second = (
        m[k] - np.sum(solve(v) * features, 0) for k, v in (("x", with_x), ("xx", with_xx))
    )
    return (mean, second), cost


def _errors(target: Target, mean: np.ndarray, second: np.ndarray) -> dict[str, float]:
    """Squared errors of means and variances in units of the target's, and the largest ones."""
    assert target.moments is not None
    true_mean, variance = (np.asarray(leaf, float) for leaf in target.moments[:2])
    off = (mean - true_mean) ** 2 / variance
    wide = ((second - mean**2) / variance - 1) ** 2
    return {
        "mean": float(off.mean()),
        "variance": float(wide.mean()),
        "worst mean": float(off.max()),
        "worst variance": float(wide.max()),
        # That of the average of all variances, in which many small errors of one sign add up.
        "average variance": float(np.mean((second - mean**2) / variance - 1) ** 2),
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
        "Control variates are the score of each coordinate, and its product with the coordinate, "
        "with regression coefficients from the same draws. Seconds are those of a whole call, "
        "with compilation.\n\n"
    )
    return about + markdown(_lines(rows)) + "\n"
