"""Discrete samplers measured as the DISCS benchmark does, plain and repelled side by side."""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from blackjax.base import SamplingAlgorithm
from rich.table import Table

import srmc
from srmc.sample.tune import Discrete, tune
from srmc.targets import Target
from srmc.types import Array, Float, Int, PRNGKey
from srmc_studies.bench.cells import cell, markdown, terminal
from srmc_studies.bench.errors import ratio_error

DISCS_CALLS = 4  # per step of any sampler with gradients: a value and a gradient at either end
PUBLISHED = {
    ("ising-50x50", "dlmc"): 2.74,
    ("ising-50x50", "path_auxiliary"): 2.70,
    ("ising-50x50", "gwg"): 2.22,
}
"""Effective sizes per thousand energy evaluations that DISCS publishes; GWG's with the balancing
function t / (1 + t) and a tuned number of sites, where ours takes the root and one site."""
ENUMERATED = 2**16  # states
KERNELS = ("gwg", "dlp", "acs", "dlmc", "path_auxiliary")


class Size(NamedTuple):
    """Number of chains, and of warm-up and sampling steps."""

    chains: int
    warmup: int
    steps: int


def _fields(side: int, values: int = 1) -> Float[np.ndarray, "site value"]:
    """A field of 0.5 inside of a disc of half the area and -0.5 outside, and noise to +-1.5."""
    noise = np.random.default_rng(0).uniform(-1.5, 1.5, size=(side**2, values))
    row, column = np.divmod(np.arange(side**2), side) / np.array(side) - 0.5
    inside = row**2 + column**2 < 0.5 / np.pi
    return noise + np.where(inside, 0.5, -0.5)[:, None]


Model: TypeAlias = tuple[Target, Int[np.ndarray, "edge 2"]]


def _ising(side: int) -> Model:
    """DISCS's Ising model: open borders, and each pair counted from both ends, with 0.5."""
    graph = srmc.targets.lattice(side, side, periodic=False)
    return srmc.targets.ising(graph, 2 * 0.5, -_fields(side)[:, 0]), graph


def _uniform(coupling: float, size: float) -> Model:
    """An Ising model of 50 x 50 sites with periodic borders and a scaled field."""
    graph = srmc.targets.lattice(50, 50)
    return srmc.targets.ising(graph, coupling, size * _fields(50)[:, 0]), graph


def _rbm() -> Model:
    """A Boltzmann machine whose means are known by enumeration."""
    target = srmc.targets.rbm(num_visible=16, num_hidden=8, scale=0.8)
    return target, np.zeros((0, 2), int)


def _potts(side: int) -> Model:
    """A Potts model of four values on the same graph, with a field for each value."""
    graph = srmc.targets.lattice(side, side, periodic=False)
    return srmc.targets.potts(graph, 4, 0.5, _fields(side, 4)), graph


TARGETS: dict[str, Callable[[], Model]] = {
    "ising-50x50": lambda: _ising(50),
    "ising-50x50-below": lambda: _uniform(0.3, 0.1),
    "ising-50x50-transition": lambda: _uniform(float(np.log(1 + np.sqrt(2)) / 2), 0.0),
    "rbm-16": _rbm,
    "potts-20x20": lambda: _potts(20),
}


def discs(
    targets: Sequence[str] | None = None,
    kernels: Sequence[str] | None = None,
    *,
    chains: int = 32,
    warmup: int = 2000,
    steps: int = 4000,
    seed: int = 0,
    quick: bool = False,
    on_progress: Callable[..., None] = lambda *args: None,
) -> list[dict[str, Any]]:
    """One row per target and kernel, plain and repelled, both tuned by one warm-up.

    `quick` takes an Ising model of 8 x 8 sites, two kernels and short runs.
    """
    known = {"ising-8x8": lambda: _ising(8)} if quick else TARGETS
    names, chosen = targets or list(known), kernels or (KERNELS[-2:] if quick else KERNELS)
    for argument, given, among in (("targets", names, known), ("kernels", chosen, KERNELS)):
        unknown = [name for name in given if name not in among]
        if unknown:
            raise ValueError(f"{argument} must be among {', '.join(among)}, got {unknown}")
    size = Size(8, 200, 400) if quick else Size(chains, warmup, steps)
    rows: list[dict[str, Any]] = []
    count = len(names) * len(chosen)
    for name in names:
        on_progress("discs", len(rows), count, f"the reference for {name}")
        target, graph = known[name]()
        reference = _reference(target, graph, size, seed)
        for kernel in chosen:
            on_progress("discs", len(rows), count, f"{kernel} on {name}")
            rows.append({"target": name} | compare(target, reference, kernel, size, seed))
    on_progress("discs", count, count, "")
    return rows


class Side(NamedTuple):
    """What is kept of a run: averages per chain, DISCS's statistic, and the cost.

    mean, pair
        Averages of the entries of a state, and of their products with the next site's.
    distance
        The distance of each state from a random one, (chain, step).
    evaluations, acceptance, seconds
        Evaluations per chain, the mean acceptance rate, and the processor's seconds.
    """

    mean: Float[np.ndarray, "chain d"]
    pair: Float[np.ndarray, "chain d"]
    distance: Float[np.ndarray, "chain step"]
    evaluations: float
    acceptance: float
    seconds: float


def compare(
    target: Target, reference: "Reference", kernel: str, size: Size, seed: int = 0
) -> dict[str, Any]:
    """The row of a kernel on a target, without the target's name."""
    space: Any = target.space
    start_key, warm_key, run_key, far_key = jax.random.split(jax.random.key(seed), 4)
    random = lambda key: space.random(key, target.position)
    tuner = Discrete(kernel, space, target.differences)
    starts = jax.vmap(random)(jax.random.split(start_key, size.chains))
    lengths = {"num_warmup": size.warmup, "num_samples": size.steps}
    tuned = tune(tuner, target.logdensity_fn, warm_key, starts, **lengths)
    sides = []
    for options in ({"alpha": 0.0}, tuner.repellence(tuned.loop, size.steps, "auto")):
        algorithm = tuner.build(target.logdensity_fn, tuned.parameters, **options)
        far, x = random(far_key), tuned.positions
        sides.append(_run(algorithm, x, far, space.width, run_key, size.steps)[0])
    plain = sides[0]
    effective = float(np.mean([effective_size(one) for one in plain.distance]))
    return {
        "kernel": kernel,
        "chains": size.chains,
        "warmup": size.warmup,
        "steps": size.steps,
        "found": {name: float(np.asarray(x)) for name, x in tuned.parameters.items()},
        "acceptance": plain.acceptance,
        "discs": 1000 * effective / (DISCS_CALLS * size.steps),
        "seconds": [side.seconds for side in sides],
        "evaluations": [side.evaluations for side in sides],
        "mean": _sizes(sides, reference, "mean"),
        "pair": _sizes(sides, reference, "pair"),
    }


def _run(
    algorithm: SamplingAlgorithm,
    positions: Array,
    far: Array,
    width: int,
    rng_key: PRNGKey,
    num_steps: int,
) -> tuple[Side, Array]:
    """Run all chains; return what is kept, and the last positions."""
    chains = len(positions)

    def one(carry: Any, n: Array) -> tuple[Any, Array]:
        states, mean, pair, spent, rate = carry
        keys = jax.random.split(jax.random.fold_in(rng_key, n), chains)
        states, info = jax.vmap(algorithm.step)(keys, states)
        x = states.position.reshape(chains, -1)
        mean, pair = mean + x, pair + x * jnp.roll(x, -width, axis=1)
        spent = spent + jnp.mean(info.gradients)
        rate = rate + jnp.mean(info.inner_info.acceptance_rate)
        distance = jnp.sum(jnp.abs(x - far.reshape(1, -1)), axis=1) / (1 + (width > 1))
        return (states, mean, pair, spent, rate), distance

    states = jax.vmap(algorithm.init)(positions)
    zeros = jnp.zeros((chains, far.size))
    start = (states, zeros, zeros, jnp.zeros(()), jnp.zeros(()))
    scan = lambda carry: jax.lax.scan(one, carry, jnp.arange(num_steps))
    program = jax.jit(scan).lower(start).compile()
    began = time.process_time()
    (states, mean, pair, spent, rate), distance = jax.block_until_ready(program(start))
    seconds = time.process_time() - began
    mean, pair = (np.asarray(total, float) / num_steps for total in (mean, pair))
    distances = np.asarray(distance, float).T
    side = Side(mean, pair, distances, float(spent), float(rate) / num_steps, seconds)
    return side, states.position


def effective_size(values: Float[np.ndarray, " step"]) -> float:
    """The effective size of one series as DISCS has it, by TensorFlow Probability's estimate.

    Autocorrelations are summed up to the first that is negative. A series that never moves has
    size 1.
    """
    n = len(values)
    centred = values - values.mean()
    if not np.any(centred):
        return 1.0
    spectrum = np.abs(np.fft.rfft(centred, 2 * n)) ** 2
    covariance = np.fft.irfft(spectrum)[:n] / (n - np.arange(n))
    rho = covariance / covariance[0]
    first = int(np.argmax(rho < 0)) if np.any(rho < 0) else n
    weights = 1 - np.arange(n) / n
    return float(n / (2 * np.sum(weights[:first] * rho[:first]) - 1))


class Reference(NamedTuple):
    """Averages of a long run, (chain, d): the truth, up to its own error."""

    mean: Float[np.ndarray, "chain d"]
    pair: Float[np.ndarray, "chain d"]


def _reference(target: Target, graph: np.ndarray, size: Size, seed: int) -> Reference:
    """Coloured blocks: twice the chains, each five times as long, after as many of warm-up.

    Of a target that can be enumerated, the exact averages.
    """
    space: Any = target.space
    if space.num_values ** space.num_sites(target.position) <= ENUMERATED:
        p = np.exp(np.asarray(target.table.log_probability, float))
        table = np.asarray(target.table.states, float).reshape(len(p), -1)
        averages = (p @ f for f in (table, table * np.roll(table, -space.width, axis=1)))
        return Reference(*(np.stack([f, f]) for f in averages))
    start_key, *run_keys = jax.random.split(jax.random.key(seed + 1), 3)
    random = lambda key: space.random(key, target.position)
    x = jax.vmap(random)(jax.random.split(start_key, 2 * size.chains))
    algorithm = srmc.block_gibbs(target.logdensity_fn, space, graph, alpha=0.0)
    for key in run_keys:
        side, x = _run(algorithm, x, x[0], space.width, key, 5 * size.steps)
    return Reference(side.mean, side.pair)


def _sizes(sides: Sequence[Side], reference: Reference, what: str) -> dict[str, Any]:
    """Effective sizes of plain and repelled chains, from their squared errors.

    The size of a chain is the sum of variances under the target over the sum of squared errors of
    its averages. `bias` is the squared error of the averages over all chains of a side, relative to
    what is expected from their spread and that of the reference: 1 without bias.
    """
    known = getattr(reference, what)
    truth, noise = known.mean(axis=0), known.var(axis=0, ddof=1).sum() / len(known)
    within = np.sum(truth * (1 - truth))
    averages = [getattr(side, what) for side in sides]
    errors = [np.sum((x - truth) ** 2, axis=1) for x in averages]
    spreads = [x.var(axis=0, ddof=1).sum() / len(x) + noise for x in averages]
    found = [np.sum((x.mean(axis=0) - truth) ** 2) for x in averages]
    return {
        "sizes": [float(within / e.mean()) for e in errors],
        "ratio": float(errors[1].mean() / errors[0].mean()),
        "error": ratio_error(*errors),
        "bias": [float(f / s) for f, s in zip(found, spreads, strict=True)],
    }


def discs_table(rows: list[dict[str, Any]]) -> Table:
    """The rows of `srmc bench discs`."""
    return terminal("Effective sizes, plain and repelled", _lines(rows))


def discs_page(rows: list[dict[str, Any]]) -> str:
    """The same as Markdown, without a title."""
    first, hours = rows[0], sum(sum(row["seconds"]) for row in rows) / 3600
    return (
        "This page has the rows of `srmc bench discs`. All samplers are tuned by warm-up; "
        f"{first['chains']} chains of {first['steps']:,} steps after {first['warmup']:,} of "
        f"warm-up, from uniform states, took {hours:.2f} hours of processor time (sampling alone) "
        "on cores that were shared with other work: compare seconds within a row only.\n\n"
        f"{markdown(_lines(rows))}\n\n"
        "- **DISCS** is the effective size of the distance from a random state, per thousand "
        "energy evaluations, for the plain sampler: the autocorrelations of a chain are summed up "
        "to the first that is negative, and a step counts as four evaluations. In brackets is the "
        "number that DISCS publishes for 100 chains of 100,000 steps, on a field drawn from the "
        "same distribution. GWG's is for a tuned number of sites per step, where ours changes one, "
        "and for another balancing function. Our steps take one gradient, as the other end is "
        "kept.\n"
        "- **Means** and **pairs** are effective sizes per thousand of our evaluations, plain → "
        "repelled, from squared errors of the averages of all entries of a state, and of their "
        "products with the next site's. The truth of `rbm-16` is enumerated; of the others it is a "
        "run of `srmc.block_gibbs` of twice the chains, each five times as long, after as many "
        "steps of warm-up.\n"
        "- **By calls** and **by time** are squared errors, repelled divided by plain, at equal "
        "evaluations and at equal seconds, with the jackknife standard error; below 1, repellence "
        "gains.\n"
        "- **Bias** is the squared error of averages over all chains, plain and repelled, relative "
        "to what their spread and that of the truth make expected: 1 without bias, and more "
        "where chains have not left their starts.\n"
    )


def _lines(rows: list[dict[str, Any]]) -> list[list[str]]:
    names = "target, kernel, accepted, DISCS, means, by calls, by time, pairs, by calls, by time"
    lines = [[*names.split(", "), "bias"]]
    for row in rows:
        published = PUBLISHED.get((row["target"], row["kernel"]))
        calls, seconds = (row[name][1] / row[name][0] for name in ("evaluations", "seconds"))
        line = [row["target"], row["kernel"], f"{row['acceptance']:.2f}"]
        line.append(f"{row['discs']:.3g}" + (f" ({published:.2f})" if published else ""))
        for what in ("mean", "pair"):
            found = row[what]
            rates = np.divide(found["sizes"], row["evaluations"]) * 1000
            line.append(f"{rates[0]:.3g} → {rates[1]:.3g}")
            line += [cell(found["ratio"] * c, found["error"] * c) for c in (calls, seconds)]
        line.append(", ".join(f"{bias:.2f}" for bias in row["mean"]["bias"]))
        lines.append(line)
    return lines
