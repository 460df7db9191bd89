"""Divergences from a Gaussian of known posteriors, before and after learning, from exact draws."""

import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from rich.table import Table

import srmc
from srmc_studies.bench.cells import markdown, terminal
from srmc_studies.bench.coordinates import CASES

TARGETS = (
    "gaussian-100",
    "eight-schools",
    "eight-schools-centred",
    "hierarchy-48",
    "funnel-5",
    "funnel-10",
    "funnel-100",
    "banana",
    "twisted-10",
)
CHAINS, DRAWS = 4, 250


def divergences(
    replicates: int = 20,
    *,
    seed: int = 0,
    quick: bool = False,
    on_progress: Callable[..., None] = lambda *args: None,
) -> list[dict[str, Any]]:
    """A row for each target: divergences on draws held out, and the processor time of a fit."""
    names = TARGETS[-2:] if quick else TARGETS
    rows = []
    with jax.enable_x64(True):
        for n, name in enumerate(names):
            on_progress("divergences", n, len(names), name)
            rows.append({"target": name} | _measured(name, 3 if quick else replicates, seed))
    on_progress("divergences", len(names), len(names), "")
    return rows


def _measured(name: str, replicates: int, seed: int) -> dict[str, Any]:
    posterior = CASES[name].posterior()
    assert posterior.sample is not None
    draw = jax.jit(jax.vmap(jax.vmap(posterior.sample)))
    score = jax.jit(jax.vmap(jax.vmap(jax.grad(posterior.logdensity_fn))))
    found = []
    for key in jax.random.split(jax.random.key(seed), replicates):
        x = draw(jax.random.split(key, (CHAINS, DRAWS)))
        s = np.asarray(score(x))
        began = time.process_time()
        c = srmc.learn_coordinates(x, s)
        seconds = time.process_time() - began
        found.append((*np.asarray(c.divergence), seconds, not c.is_identity))
    before, after, seconds, learned = np.array(found).T
    return {
        "dim": posterior.dim,
        "replicates": replicates,
        "seed": seed,
        "before": before.tolist(),
        "after": after.tolist(),
        "learned": int(learned.sum()),
        "seconds": seconds.tolist(),
    }


def divergences_table(rows: list[dict[str, Any]]) -> Table:
    """Medians, and the range of nine in ten."""
    return terminal("Divergences from a Gaussian", _lines(rows))


def divergences_page(rows: list[dict[str, Any]]) -> str:
    """The same as Markdown."""
    return (
        "# Divergences from a Gaussian\n\nMade by `srmc bench divergences`.\n\n"
        f"The draws are exact and independent, {CHAINS} x {DRAWS} in each of "
        f"{rows[0]['replicates']} replicates. The divergence is that of "
        "`srmc.learn_coordinates`, on draws that were not fitted. The table has medians and, in "
        "brackets, the 5% and 95% quantiles over replicates.\n\n" + markdown(_lines(rows)) + "\n"
    )


def _lines(rows: list[dict[str, Any]]) -> list[list[str]]:
    lines = [["target", "d", "before", "after", "learned", "seconds of the processor"]]
    for row in rows:
        cells = [_spread(row["before"]), _spread(row["after"])]
        share = f"{row['learned']} of {row['replicates']}"
        seconds = f"{np.median(row['seconds']):.2f}"
        lines.append([row["target"], str(row["dim"]), *cells, share, seconds])
    return lines


def _spread(values: list[float]) -> str:
    low, middle, high = (_number(v) for v in np.quantile(values, (0.05, 0.5, 0.95)))
    return f"{middle} ({low} to {high})"


def _number(value: float) -> str:
    return "0" if value < 5e-4 else f"{value:.2g}"
