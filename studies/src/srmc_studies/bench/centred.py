"""Simulation-based calibration of a centred hierarchy, in its own and in learned coordinates."""

from collections.abc import Callable
from typing import Any, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from rich.table import Table

import srmc
from srmc.types import Array, Float, PRNGKey, PyTree
from srmc_studies.bench.calibration import BINS, Generative, Vector, rank, uniformity
from srmc_studies.bench.cells import markdown, terminal

GROUPS = 5
DIM = GROUPS + 2


class Size(NamedTuple):
    """Data sets, steps of each of the three stretches of warm-up, and draws."""

    data_sets: int = 500
    warmup: int = 400
    draws: int = 2000


class Chains(NamedTuple):
    """One chain for each data set: draws and scores of the model's parameters, and divergences."""

    x: Float[Array, "data_set draw d"]
    scores: Float[Array, "data_set draw d"]
    diverging: Float[Array, " data_set"]


def centred_hierarchy() -> Generative:
    """theta_j ~ N(mu, tau^2), y_j ~ N(theta_j, 5^2), mu ~ N(0, 5^2), log tau ~ N(1, 1)."""

    def prior(key: PRNGKey) -> Vector:
        z = jax.random.normal(key, (DIM,))
        mu, log_tau = 5 * z[0], 1 + z[1]
        return jnp.concatenate([jnp.stack([mu, log_tau]), mu + jnp.exp(log_tau) * z[2:]])

    def logdensity(y: Array, x: Vector) -> Array:
        own = (x[0] / 5) ** 2 + (x[1] - 1) ** 2
        spread = jnp.sum(((x[2:] - x[0]) * jnp.exp(-x[1])) ** 2)
        return -0.5 * (own + spread + jnp.sum(((y - x[2:]) / 5) ** 2)) - GROUPS * x[1]

    simulate = lambda key, x: x[2:] + 5 * jax.random.normal(key, (GROUPS,))
    return Generative(DIM, prior, simulate, logdensity)


def centred(
    size: Size | None = None,
    *,
    seed: int = 0,
    quick: bool = False,
    on_progress: Callable[..., None] = lambda *args: None,
) -> list[dict[str, Any]]:
    """A row with the ranks of the true parameters among draws of NUTS in both coordinates.

    Two stretches of warm-up are pilots, from each of which coordinates are learned. A data set
    whose pilots show no need of them stays in its own coordinates.
    """
    size = Size(6, 200, 200) if quick else size or Size()
    with jax.enable_x64(True):
        model = centred_hierarchy()
        keys = jax.random.split(jax.random.key(seed), 6)
        truth = jax.vmap(model.prior)(jax.random.split(keys[0], size.data_sets))
        data = jax.vmap(model.simulate)(jax.random.split(keys[1], size.data_sets), truth)
        nothing = np.zeros((2, DIM))  # too few draws to learn from
        plain = srmc.learn_coordinates(nothing, nothing).padded(DIM - 1)
        own = _stacked([plain] * size.data_sets)
        pilot, run = (_program(model, size, draws) for draws in (0, size.draws))
        start = jax.vmap(model.prior)(jax.random.split(keys[2], size.data_sets))
        maps, learned = own, np.zeros(size.data_sets, bool)
        for n, key in enumerate(keys[3:5]):
            on_progress("centred", n, 3, "pilots")
            seen = pilot(jax.random.split(key, size.data_sets), data, maps, start)
            start = seen.x[:, -1]
            maps, found = _learned(seen, maps)
            learned |= found
        on_progress("centred", 2, 3, "both runs")
        last = jax.random.split(keys[5], size.data_sets)
        sides = {"plain": run(last, data, own, start), "learned": run(last, data, maps, start)}
    on_progress("centred", 3, 3, "")
    ranks = {
        side: np.array(
            [rank(*pair) for pair in zip(np.asarray(truth), np.asarray(c.x), strict=True)]
        )
        for side, c in sides.items()
    }
    return [
        {"model": "centred hierarchy", "dim": DIM, "seed": seed, "learned": int(learned.sum())}
        | size._asdict()
        | {"divergences": {side: float(np.mean(c.diverging)) for side, c in sides.items()}}
        | {"sides": {side: uniformity(found) for side, found in ranks.items()}}
    ]


def _program(model: Generative, size: Size, draws: int) -> Callable[..., Chains]:
    """Warm-up and `draws` draws of NUTS for all data sets, in coordinates that are arguments.

    Without draws, it returns the second half of the warm-up.
    """

    def one(key: PRNGKey, y: Array, c: Any, start: Vector) -> Chains:
        density = c.logdensity(Partial(model.logdensity, y))
        warm_key, run_key = jax.random.split(key)
        warmup = blackjax.window_adaptation(blackjax.nuts, density)
        (state, parameters), info = warmup.run(warm_key, c.forward(start), size.warmup)
        if not draws:
            half = jax.tree.map(lambda a: a[size.warmup // 2 :], info.state)
            x, s = jax.vmap(c.of_scores)(half.position, half.logdensity_grad)
            return Chains(x, s, jnp.zeros(()))
        step = blackjax.nuts(density, **parameters).step

        def body(state: Any, key: PRNGKey) -> tuple[Any, tuple[Array, ...]]:
            state, info = step(key, state)
            return state, (state.position, state.logdensity_grad, info.is_divergent)

        u, s, diverging = jax.lax.scan(body, state, jax.random.split(run_key, draws))[1]
        x, s = jax.vmap(c.of_scores)(u, s)
        return Chains(x, s, jnp.mean(diverging))

    batch = max(n for n in range(1, 51) if size.data_sets % n == 0)
    return jax.jit(lambda *args: jax.lax.map(lambda each: one(*each), args, batch_size=batch))


def _learned(seen: Chains, before: Any) -> tuple[Any, np.ndarray]:
    """The coordinates that the pilots show, and for which data sets these are new."""
    maps, new = [], []
    for n, (x, s) in enumerate(zip(np.asarray(seen.x), np.asarray(seen.scores), strict=True)):
        found = srmc.learn_coordinates(x, s)
        new.append(not found.is_identity)
        one = found.padded(DIM - 1) if new[-1] else jax.tree.map(lambda a, n=n: a[n], before)
        maps.append(one)
    return _stacked(maps), np.array(new)


def _stacked(maps: list[Any]) -> PyTree[Array]:
    return jax.tree.map(lambda *parts: jnp.stack(parts), *maps)


def centred_table(rows: list[dict[str, Any]]) -> Table:
    """P-values of uniform ranks."""
    return terminal("Ranks of true parameters: p-values of uniformity", _lines(rows))


def centred_page(rows: list[dict[str, Any]]) -> str:
    """The same as Markdown."""
    (row,) = rows
    return (
        "# Calibration of a centred hierarchy\n\nMade by `srmc bench centred`.\n\n"
        f"A hierarchy of {GROUPS} groups in its centred form draws its parameters from the prior "
        f"and {row['data_sets']} data sets from these. The rank of each true parameter among 99 "
        f"draws of its posterior, thinned from {row['draws']:,} of one chain of NUTS, must then be "
        f"uniform. The table has p-values of chi-squared tests with {BINS} bins, and the share of "
        "the draws in the lowest and in the highest bin, which must be "
        f"{1 / BINS:.2f}. Both sides have the same target acceptance, .8, the same "
        f"{3 * row['warmup']:,} steps of warm-up, and the same starts. Coordinates were learned "
        f"for {row['learned']} of the data sets. Divergences per draw are "
        f"{row['divergences']['plain']:.2%} in the coordinates of the model and "
        f"{row['divergences']['learned']:.2%} in learned ones.\n\n" + markdown(_lines(rows)) + "\n"
    )


def _lines(rows: list[dict[str, Any]]) -> list[list[str]]:
    (row,) = rows
    names = ["mu", "log tau", *(f"theta[{k}]" for k in range(GROUPS))]
    heads = [f"{side}: {what}" for side in row["sides"] for what in ("p", "lowest", "highest")]
    lines = [["parameter", *heads]]
    for k, name in enumerate(names):
        cells = []
        for side in row["sides"].values():
            counts = np.array(side["counts"][k]) / row["data_sets"]
            cells += [f"{side['p'][k]:.2g}", f"{counts[0]:.3f}", f"{counts[-1]:.3f}"]
        lines.append([name, *cells])
    return lines
