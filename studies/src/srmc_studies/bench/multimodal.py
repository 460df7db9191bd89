"""Isolated modes: plain, repelled and tempered NUTS, and the error of the modes' weights."""

from collections.abc import Callable, Sequence
from typing import Any

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from blackjax.base import SamplingAlgorithm
from rich.table import Table

import srmc
from srmc.kernels import find_temperatures
from srmc.targets import Target
from srmc.types import Array, Float, PRNGKey
from srmc_studies.bench.cells import markdown, terminal
from srmc_studies.bench.errors import ratio_error

CASES = [(modes, dim) for modes in (2, 25) for dim in (2, 10, 50)]
SIDES = ("plain", "repelled", "tempered", "tempered and repelled")
CHUNK = 100  # steps at a time


def modes_target(modes: int, dim: int) -> tuple[Target, np.ndarray, np.ndarray]:
    """A mixture of unit Gaussians in the first two coordinates, with its weights and centres.

    Two modes, of weights 0.3 and 0.7, are 8 standard deviations apart. More are on a square grid
    with a spacing of 6, and the heaviest has three times the weight of the lightest.
    """
    if modes == 2:
        weights, places = np.array([0.3, 0.7]), np.array([[-4.0, 0.0], [4.0, 0.0]])
    else:
        side = round(modes**0.5)
        weights = np.linspace(1, 3, side**2)
        steps = 6.0 * (np.arange(side) - (side - 1) / 2)
        places = np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)
    weights = weights / weights.sum()
    centres = np.zeros((len(weights), dim))
    centres[:, :2] = places
    return srmc.targets.mixture(weights, centres, np.ones(len(weights))), weights, centres


def multimodal(
    cases: Sequence[tuple[int, int]] | None = None,
    *,
    budget: int = 100_000,
    replicates: int = 32,
    seed: int = 0,
    quick: bool = False,
    on_progress: Callable[..., None] = lambda *args: None,
    on_row: Callable[[dict[str, Any]], None] = lambda row: None,
) -> list[dict[str, Any]]:
    """A row for each number of modes and of dimensions, at `budget` gradients per chain."""
    jobs = list(cases or (CASES[:1] if quick else CASES))
    rows = []
    for done, (modes, dim) in enumerate(jobs):
        on_progress("multimodal", done, len(jobs), f"{modes} modes in {dim} dimensions")
        sizes = (6000, 8, 1) if quick else (budget, replicates, 4)
        sides = ("plain", "tempered") if quick else SIDES
        rows.append(compare(modes, dim, *sizes, seed, sides))
        on_row(rows[-1])
    on_progress("multimodal", len(jobs), len(jobs), "")
    return rows


def compare(
    modes: int,
    dim: int,
    budget: int,
    replicates: int,
    rounds: int = 4,
    seed: int = 0,
    sides: Sequence[str] = SIDES,
) -> dict[str, Any]:
    """All sides on one target, from exact draws; tuning on one mode is not charged.

    `rounds` are those of `srmc.kernels.find_temperatures`.
    """
    target, weights, centres = modes_target(modes, dim)
    warm_key, heat_key, start_key, run_key = jax.random.split(jax.random.key(seed), 4)
    parameters = _tuned(target, warm_key)
    # The modes merge once a standard deviation is about their distance.
    temperatures = find_temperatures(
        heat_key,
        target.logdensity_fn,
        target.position,
        30.0,
        num_steps=150,
        rounds=rounds,
        **parameters,
    )
    assert target.sample is not None
    starts = jax.vmap(target.sample)(jax.random.split(start_key, replicates))
    found, errors = {}, {}
    for side in sides:
        algorithm = _algorithm(side, target, parameters, temperatures)
        shares, steps, cost = _shares(algorithm, run_key, starts, centres, budget)
        errors[side] = np.sum((shares - weights) ** 2, axis=1)
        found[side] = {
            "squared_error": float(errors[side].mean()),
            "ratio": float(errors[side].mean() / errors["plain"].mean()),
            "error": ratio_error(errors["plain"], errors[side]),
            "modes_visited": float(np.mean(np.sum(shares > 0, axis=1))),
            "draws": float(np.mean(steps)),
            "gradients_per_draw": cost,
        }
    return {
        "modes": modes,
        "dim": dim,
        "budget": budget,
        "replicates": replicates,
        "seed": seed,
        "levels": len(temperatures),
        "hottest": float(temperatures[-1]),
        "exact_draw_error": float(1 - np.sum(weights**2)),  # of one exact draw; divide by draws
        "sides": found,
    }


def _tuned(target: Target, key: PRNGKey) -> dict[str, Any]:
    """Step size and metric of NUTS in the first mode."""
    adaptation = blackjax.window_adaptation(blackjax.nuts, target.logdensity_fn)
    run = jax.jit(lambda key: adaptation.run(key, target.position, 300)[0].parameters)
    found: dict[str, Any] = run(key)
    return found


def _algorithm(
    side: str, target: Target, parameters: dict[str, Any], temperatures: np.ndarray
) -> SamplingAlgorithm:
    strength: dict[str, Any] = {} if "repelled" in side else {"alpha": 0.0}
    if "tempered" in side:
        ladder = srmc.tempering
        return srmc.repel(ladder, target.logdensity_fn, temperatures, **strength, **parameters)
    return srmc.repel(blackjax.nuts, target.logdensity_fn, **strength, **parameters)


def _shares(
    algorithm: SamplingAlgorithm,
    rng_key: PRNGKey,
    starts: Float[Array, "replicate d"],
    centres: np.ndarray,
    budget: int,
) -> tuple[np.ndarray, np.ndarray, float]:
    """Shares of draws in each mode within the budget, their number, and gradients per draw."""

    def one(state: Any, key: PRNGKey) -> tuple[Any, tuple[Array, Array]]:
        state, info = algorithm.step(key, state)
        square = jnp.sum((state.position[None] - jnp.asarray(centres)) ** 2, axis=1)
        return state, (jnp.argmin(square), info.gradients)

    @jax.jit
    @jax.vmap
    def advance(state: Any, key: PRNGKey) -> tuple[Any, tuple[Array, Array]]:
        return jax.lax.scan(one, state, jax.random.split(key, CHUNK))

    states, kept, spent = jax.vmap(algorithm.init)(starts), [], 0
    while spent <= budget:
        rng_key, key = jax.random.split(rng_key)
        states, found = advance(states, jax.random.split(key, len(starts)))
        kept.append([np.asarray(part) for part in found])
        spent += int(kept[-1][1].sum(axis=1).min())
    where, gradients = (np.concatenate(parts, axis=1) for parts in zip(*kept, strict=True))
    used = np.cumsum(gradients, axis=1) <= budget
    counts = np.stack([np.sum((where == k) & used, axis=1) for k in range(len(centres))], axis=1)
    steps = used.sum(axis=1)
    return counts / steps[:, None], steps, float(gradients.mean())


def multimodal_table(rows: list[dict[str, Any]]) -> Table:
    """The rows of `srmc bench multimodal`."""
    return terminal("Squared errors of the weights of modes", _lines(rows))


def multimodal_page(rows: list[dict[str, Any]]) -> str:
    """The same as Markdown."""
    first = rows[0]
    about = (
        "# Isolated modes\n\nMade by `srmc bench multimodal`: mixtures of unit Gaussians, NUTS "
        "plain, repelled, tempered, and both, at equal numbers of gradients "
        f"({first['budget']:,} per chain, {first['replicates']} chains, each from an exact draw). "
        "The tables have the squared error of the weights of the modes, summed over modes; its "
        "ratio to that of plain NUTS, with the jackknife standard error; and the number of modes "
        "that a chain visits. Step size, metric and temperatures are found beforehand, and this "
        "is not charged.\n\n"
    )
    winners = [min(row["sides"], key=lambda s: row["sides"][s]["squared_error"]) for row in rows]
    counts = ", ".join(f"{side} {winners.count(side)}" for side in rows[0]["sides"])
    verdict = f"\n\nThe least error, by number of cases: {counts}.\n"
    return about + markdown(_lines(rows)) + verdict


def _lines(rows: list[dict[str, Any]]) -> list[list[str]]:
    lines = [["modes, d", "levels", *rows[0]["sides"]]]
    for row in rows:
        cells = []
        for side, found in row["sides"].items():
            ratio = "" if side == "plain" else f", {found['ratio']:.3f} ± {found['error']:.3f}"
            cells.append(f"{found['squared_error']:.2g}{ratio}, {found['modes_visited']:.1f}")
        lines.append([f"{row['modes']}, {row['dim']}", str(row["levels"]), *cells])
    return lines
