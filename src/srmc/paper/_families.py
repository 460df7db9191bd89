"""The families of figure 2 on one target and sampler: printed, adaptive, plain and self-tuned."""

import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import srmc
from srmc.paper._adaptive import measure_rules
from srmc.paper._chains import run
from srmc.paper._control import control_variates
from srmc.paper._problems import BURN_IN, Errors, Problem

ALPHAS = (0.01, 0.1, 1.0, 2.0, 5.0)
ADAPTIVE = (1.0, 2.0, 5.0)


class Curve(NamedTuple):
    """Squared errors (replicate, point), and steps, gradients and seconds at each point.

    Steps are counted as the paper does; seconds are None where they were not measured.
    """

    errors: np.ndarray
    steps: np.ndarray
    gradients: np.ndarray
    seconds: np.ndarray | None
    acceptance: np.ndarray

    @property
    def last(self) -> np.ndarray:
        return self.errors[:, -1]

    def at_gradients(self, gradients: float) -> np.ndarray:
        """Errors when so many gradients were spent, or at the end if the run is shorter."""
        point = int(np.sum(self.gradients <= gradients * (1 + 1e-6))) - 1
        return self.errors[:, max(0, point)]


def repelled(problem: Problem, *, on_block: Any, **options: Any) -> dict[tuple[str, float], Curve]:
    """The paper's algorithm as printed, with fixed alphas and with its adaptive rules."""
    index, found = measure_rules(problem, ALPHAS, ADAPTIVE, on_block=on_block, **options)
    return {name: _curve(found, k) for name, k in index.items()}


def _curve(found: Errors, k: int) -> Curve:
    return Curve(
        found.errors[k],
        found.steps,
        found.gradients[k] * found.steps,
        found.seconds * found.steps,
        found.acceptance[k],
    )


def plain(
    problem: Problem, *, steps: int, replicates: int, blocks: int, seed: int, light: bool, on_block
) -> tuple[Curve, Curve]:
    """The plain sampler with the printed step size, and control variates on its draws."""
    block = steps // problem.leapfrogs // blocks
    pick_key, run_key = jax.random.split(jax.random.key(seed))
    picks = jax.random.randint(pick_key, (replicates,), 0, len(problem.truth.draws))

    def fold(kept, setting, state, info, n):
        at = (n - 1) % block
        inner = state.inner_state
        return {
            "x": kept["x"].at[at].set(inner.position),
            "s": kept["s"].at[at].set(inner.logdensity_grad),
            "acceptance": kept["acceptance"] + info.inner_info.acceptance_rate / block,
        }

    empty = jnp.zeros((block, problem.target.position.size))
    found = run(
        lambda _: problem.build(alpha=0.0),
        jnp.zeros(1),
        jnp.asarray(problem.truth.draws, float)[picks][None],
        run_key,
        num_blocks=blocks,
        block=block,
        empty={"x": empty, "s": empty, "acceptance": 0.0},
        fold=fold,
        light=light,
        on_block=on_block,
    )
    first = round(BURN_IN * blocks)
    draws, scores = (
        found.kept[k][0, :, first:].reshape(replicates, -1, empty.shape[1]) for k in "xs"
    )
    cost = problem.leapfrogs * np.ones(draws.shape[1])
    seconds = found.seconds * np.arange(1, draws.shape[1] + 1)
    acceptance = found.kept["acceptance"][0].mean(axis=1)
    return _both(problem, draws, scores, cost, seconds, acceptance, points=blocks - first)


def self_tuned(
    problem: Problem, *, steps: int, replicates: int, seed: int, timed: bool, points: int = 40
) -> dict[str, Curve]:
    """`srmc.sample` with alpha="auto", own histories; and its base chain, a well-tuned sampler.

    Its warm-up takes the place of burn-in. Chains are replicates, but for the step size, the
    metric and the loop, which are found on 32 of them together.
    """
    iterations = round((1 - BURN_IN) * steps) // problem.leapfrogs
    options: dict[str, Any] = {
        "kernel": problem.kernel,
        "num_chains": replicates,
        "num_warmup": min(3000, max(500, steps // problem.leapfrogs - iterations)),
        "seed": seed,
        "shared_history": False,
        "base": True,
        "progress": False,
    }
    seconds = None
    began = time.process_time()
    result = srmc.sample(problem.target, num_samples=iterations, **options)
    if timed:
        took = time.process_time() - began
        began = time.process_time()
        srmc.sample(problem.target, num_samples=100, **options)  # compiling and warm-up
        took -= time.process_time() - began
        seconds = took / (iterations - 100) / replicates * np.arange(1, iterations + 1)
    base: Any = result.base
    acceptance = result.stats["acceptance_rate"].mean(axis=1)
    cost = np.mean(result.stats["gradients"] + result.stats["hvps"], axis=0)
    base_cost = problem.leapfrogs * np.ones(iterations)
    score = jax.jit(lambda x: jax.lax.map(jax.vmap(jax.grad(problem.target.logdensity_fn)), x))
    scores = np.asarray(score(jnp.asarray(base["x"])))
    of_base = _both(problem, base["x"], scores, base_cost, None, acceptance, points)
    draws = result.draws["x"]
    return {
        "self-tuned": _running(problem, draws, cost, seconds, acceptance, points),
        "well-tuned": of_base[0],
        "control variates": of_base[1],
    }


def _running(problem, draws, cost, seconds, acceptance, points):
    """Errors of the mean of the first draws, at so many lengths."""
    at = np.unique(np.linspace(0, draws.shape[1], points + 1).astype(int)[1:])
    blocks = np.stack([x.sum(axis=1, dtype=float) for x in np.split(draws, at[:-1], axis=1)], 1)
    means = np.cumsum(blocks, axis=1) / at[:, None]
    return Curve(
        np.sum((means - problem.truth.mean) ** 2, axis=-1),
        problem.leapfrogs * at,
        np.cumsum(cost)[at - 1],
        None if seconds is None else seconds[at - 1],
        acceptance,
    )


def _both(problem, draws, scores, cost, seconds, acceptance, points):
    """Plain averages, and control variates at a few lengths."""
    whole = _running(problem, draws, cost, seconds, acceptance, points)
    at = np.unique(np.geomspace(max(40, draws.shape[1] // 64), draws.shape[1], 7).astype(int))
    estimates = [control_variates(draws[:, :n], scores[:, :n]) for n in at]
    errors = np.stack([np.sum((e - problem.truth.mean) ** 2, axis=-1) for e in estimates], 1)
    steps = problem.leapfrogs * at
    taken = None if seconds is None else seconds[at - 1]
    return whole, Curve(errors, steps, np.cumsum(cost)[at - 1], taken, acceptance)
