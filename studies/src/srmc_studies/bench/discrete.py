"""Discrete kernels, plain and repelled: errors at equal evaluations and at equal time."""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from blackjax.base import SamplingAlgorithm

import srmc
from srmc.sample.tune import Discrete, tune
from srmc.targets import Target
from srmc.types import Array, PRNGKey
from srmc_studies.bench.errors import ratio_error


class Size(NamedTuple):
    """Number of replicates, and of warm-up and sampling steps."""

    chains: int
    warmup: int
    steps: int


def _ising(side: int, coupling: float, field: bool) -> Target:
    """An Ising model on a periodic lattice, with a field of 0.1 + 0.3 z, z normal, or of 0."""
    z = np.random.default_rng(0).normal(size=side**2)
    graph = srmc.targets.lattice(side, side)
    return srmc.targets.ising(graph, coupling, 0.1 + 0.3 * z if field else 0.0)


SMALL, LARGE = Size(128, 4000, 20_000), Size(32, 2000, 4000)
PARTS = 10  # of the timed steps, so that both sides take turns
TIMED = 10  # one step in so many is run once more to be timed
ONE_SITE = 20  # factor on the steps on large targets, for kernels that change one site per step
TARGETS: dict[str, tuple[Callable[[], Target], Size]] = {
    "ising-4x4": (lambda: _ising(4, 0.15, True), SMALL),
    "ising-4x4-cold": (lambda: _ising(4, 0.35, True), SMALL),
    "ising-5x5": (lambda: _ising(5, 0.3, True), SMALL),
    "ising-50x50": (lambda: _ising(50, 0.4, False), LARGE),
    "potts-10x10": (lambda: srmc.targets.potts(srmc.targets.lattice(10, 10), 3, 0.8), LARGE),
    "rbm-784x500": (srmc.targets.rbm, Size(16, 1000, 1000)),
}
KERNELS = ("flip_mh", "gibbs", "locally_balanced", "gwg", "dlp")


def discrete(
    targets: Sequence[str] | None = None,
    kernels: Sequence[str] | None = None,
    *,
    seed: int = 0,
    quick: bool = False,
    on_progress: Callable[..., None] = lambda *args: None,
) -> list[dict[str, Any]]:
    """One row per kernel and target; `quick` takes the first target and short runs.

    Every chain is a replicate with its own history. Locally balanced proposals run only on the
    small targets, to bound the time that the study takes.
    """
    names = targets or (["ising-4x4"] if quick else list(TARGETS))
    kernels = kernels or KERNELS
    for argument, given, known in (("targets", names, TARGETS), ("kernels", kernels, KERNELS)):
        unknown = [name for name in given if name not in known]
        if unknown:
            raise ValueError(f"{argument} must be among {', '.join(known)}, got {unknown}")
    rows: list[dict[str, Any]] = []
    jobs = [(name, kernel) for name in names for kernel in kernels]
    built = {name: TARGETS[name][0]() for name in names}  # once, since states are summed over
    for done, (name, kernel) in enumerate(jobs):
        size = TARGETS[name][1]
        if kernel == "locally_balanced" and size is not SMALL:
            continue
        on_progress("discrete", done, len(jobs), f"{kernel} on {name}")
        if size is not SMALL and kernel != "dlp":
            size = Size(size.chains, ONE_SITE * size.warmup, ONE_SITE * size.steps)
        size = Size(16, 400, 1000) if quick else size
        rows.append({"target": name} | compare(built[name], kernel, size, seed))
    on_progress("discrete", len(jobs), len(jobs), "")
    return rows


class Side(NamedTuple):
    """Averages of a run, (chain, site) and (chain, pair), its cost, and the share of hot steps.

    The seconds are of the processor, for steps of all chains without the averages.
    """

    mean: np.ndarray
    pair: np.ndarray
    evaluations: float
    hot: float
    seconds: float = 0.0


def compare(target: Target, kernel: str, size: Size, seed: int = 0) -> dict[str, Any]:
    """One kernel, plain and repelled, both tuned by the same warm-up."""
    space: Any = target.space
    start_key, warm_key, init_key, run_key = jax.random.split(jax.random.key(seed), 4)
    starts = jax.vmap(lambda key: space.random(key, target.position))(
        jax.random.split(start_key, size.chains)
    )
    tuner = Discrete(kernel, space, target.differences)
    lengths = {"num_warmup": size.warmup, "num_samples": size.steps}
    tuned = tune(tuner, target.logdensity_fn, warm_key, starts, **lengths)
    pairs = _pairs(target.position.size)
    options = tuner.repellence(tuned.loop, size.steps, "auto")
    sides, timed = [], []
    length = max(1, size.steps // TIMED // PARTS)
    for repellence in ({"alpha": 0.0}, options):
        algorithm = tuner.build(target.logdensity_fn, tuned.parameters, **repellence)
        keys = jax.random.split(init_key, size.chains)
        states = jax.vmap(algorithm.init)(tuned.positions, keys)
        states, side = _averages(algorithm, states, run_key, size.steps, pairs)
        sides.append(side)
        timed.append(_steps(algorithm, states, run_key, length))
    seconds = [size.steps / (PARTS * length) * took for took in _in_turn(*timed)]
    plain, repelled = (
        side._replace(seconds=took) for side, took in zip(sides, seconds, strict=True)
    )
    return {
        "kernel": kernel,
        "replicates": size.chains,
        "steps": size.steps,
        "is_exact": target.moments is not None,
        "evaluations_per_step": [side.evaluations / size.steps for side in (plain, repelled)],
        "seconds": [side.seconds for side in (plain, repelled)],
        "hot": repelled.hot,
        "rate_times_time": float(tuned.loop.rate * jnp.mean(tuned.loop.time)),
        "errors": _errors(plain, repelled, _truths(target, *pairs, plain, repelled)),
    }


def _averages(
    algorithm: SamplingAlgorithm,
    states: Any,
    run_key: PRNGKey,
    num_steps: int,
    pairs: tuple[np.ndarray, np.ndarray],
) -> tuple[Any, Side]:
    """Run all chains; return their last states, and everything but the time."""
    chains, (first, second) = len(states.step), pairs

    def one(carry: Any, n: Array) -> tuple[Any, None]:
        states, mean, pair, spent, hot = carry
        keys = jax.random.split(jax.random.fold_in(run_key, n), chains)
        states, info = jax.vmap(algorithm.step)(keys, states)
        x = states.position.reshape(chains, -1)
        mean, pair = mean + x, pair + x[:, first] * x[:, second]
        return (states, mean, pair, spent + jnp.mean(info.gradients), hot + info.is_hot.any()), None

    size = states.position[0].size
    sums = jnp.zeros((chains, size)), jnp.zeros((chains, len(first))), jnp.zeros(()), jnp.zeros(())
    run = jax.jit(lambda carry: jax.lax.scan(one, carry, jnp.arange(num_steps))[0])
    states, mean, pair, spent, hot = run((states, *sums))
    means, products = (np.asarray(total, float) / num_steps for total in (mean, pair))
    return states, Side(means, products, float(spent), float(hot) / num_steps)


def _steps(
    algorithm: SamplingAlgorithm, states: Any, run_key: PRNGKey, length: int
) -> tuple[Any, Any]:
    """A program that makes so many steps of all chains and nothing else, and its first states."""

    def one(states: Any, n: Array) -> tuple[Any, None]:
        keys = jax.random.split(jax.random.fold_in(run_key, n), len(states.step))
        return jax.vmap(algorithm.step)(keys, states)[0], None

    program = jax.jit(lambda states, n: jax.lax.scan(one, states, n + jnp.arange(length))[0])
    return program.lower(states, 0).compile(), states


def _in_turn(*sides: tuple[Any, Any]) -> list[float]:
    """The processor's seconds for all parts of each side; the sides take turns."""
    states = [jax.block_until_ready(program(start, 0)) for program, start in sides]
    seconds = [0.0 for _ in sides]
    for part in range(1, PARTS + 1):
        for k, (program, _) in enumerate(sides):
            began = time.process_time()
            states[k] = jax.block_until_ready(program(states[k], part))
            seconds[k] += time.process_time() - began
    return seconds


def _errors(plain: Side, repelled: Side, truths: tuple[np.ndarray, np.ndarray]) -> dict[str, Any]:
    """Squared errors of the means and of the products of pairs, and their ratios."""
    out = {}
    for name, truth, before, after in (
        ("mean", truths[0], plain.mean, repelled.mean),
        ("pair", truths[1], plain.pair, repelled.pair),
    ):
        old, new = (np.sum((x - truth) ** 2, axis=1) for x in (before, after))
        ratio = float(new.mean() / old.mean())
        out[name] = {
            "plain": float(old.mean()),
            "repelled": float(new.mean()),
            "ratio": ratio,
            "error": ratio_error(old, new),
            "at_equal_evaluations": ratio * repelled.evaluations / plain.evaluations,
            "at_equal_seconds": ratio * repelled.seconds / plain.seconds,
        }
    return out


def _pairs(size: int) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of up to 64 sites; of more sites, only those of consecutive sites."""
    if size <= 64:
        return np.triu_indices(size, 1)
    return np.arange(size - 1), np.arange(1, size)


def _truths(
    target: Target, first: np.ndarray, second: np.ndarray, *sides: Side
) -> tuple[np.ndarray, np.ndarray]:
    """Exact moments, or the mean over all chains of both sides where these are unknown.

    The latter hides a bias that both sides share, and most of a bias that is smaller than the
    errors.
    """
    if target.moments is None or target.second_moments is None:
        mean, pair = (np.mean(np.concatenate([side[n] for side in sides]), axis=0) for n in (0, 1))
        return mean, pair
    products = np.asarray(target.second_moments).reshape(target.position.size, -1)
    return np.ravel(target.moments.mean), products[first, second]
