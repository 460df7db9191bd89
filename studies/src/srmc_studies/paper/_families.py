"""The families of figure 2 on one problem: plain, printed and self-tuned samplers."""

import time
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

import srmc
from srmc.repel import RepelInfo, RepelState
from srmc.types import Array, Float, Int
from srmc_studies.paper._chains import Kept, Number, Trial, run
from srmc_studies.paper._control import control_variates
from srmc_studies.paper._derivatives import settings
from srmc_studies.paper._problems import BURN_IN, Errors, Problem, RepelOptions, measure
from srmc_studies.paper._progress import OnBlock

ALPHAS = (0.01, 0.1, 1.0, 2.0, 5.0)


class Curve(NamedTuple):
    """Squared errors, and the steps, gradients and seconds spent at each point.

    Steps are counted as the paper does; seconds are None until they are measured.
    """

    errors: Float[np.ndarray, "replicate point"]
    steps: Int[np.ndarray, " point"]
    gradients: Float[np.ndarray, " point"]
    seconds: Float[np.ndarray, " point"] | None
    acceptance: Float[np.ndarray, " replicate"]

    @property
    def last(self) -> Float[np.ndarray, " replicate"]:
        """Errors at the end of the run."""
        return self.errors[:, -1]

    def cost(self, view: str) -> Float[np.ndarray, " point"]:
        """What was spent at each point: "steps", "gradients" or "processor time"."""
        found = self.seconds if view == "processor time" else getattr(self, view)
        assert found is not None
        return np.asarray(found, float)

    def at(self, view: str, spent: float) -> Float[np.ndarray, " replicate"]:
        """Errors when `spent` was spent in this view, or at the end if the run is shorter."""
        point = int(np.sum(self.cost(view) <= spent * (1 + 1e-6))) - 1
        return self.errors[:, max(0, point)]


Repelled: TypeAlias = tuple[str, float]  # a derivative rule, and alpha
CurveKey: TypeAlias = str | Repelled
Curves: TypeAlias = dict[CurveKey, Curve]


class _Run(NamedTuple):
    """Draws of many replicates, the gradients of each draw, and the acceptance rates."""

    draws: Float[np.ndarray, "replicate draw d"]
    cost: Float[np.ndarray, " draw"]
    acceptance: Float[np.ndarray, " replicate"]


def key_name(key: CurveKey) -> str:
    """The name of a curve.

    >>> key_name(("exact", 2.0))
    'exact, alpha = 2'
    """
    return key if isinstance(key, str) else f"{key[0]}, alpha = {key[1]:g}"


def repelled(problem: Problem, derivative: str, trial: Trial, on_block: OnBlock) -> Curves:
    """The paper's algorithm with fixed alphas, under one derivative rule."""
    options = lambda alpha: settings(alpha, derivative)
    found = measure(problem, options, jnp.array(ALPHAS), trial, on_block)
    return {(derivative, a): curve(found, k) for k, a in enumerate(ALPHAS)}


def curve(found: Errors, k: int) -> Curve:
    """The curve of the k-th setting."""
    gradients = found.gradients[k] * found.steps
    return Curve(found.errors[k], found.steps, gradients, None, found.acceptance[k])


def plain(problem: Problem, trial: Trial, on_block: OnBlock) -> tuple[Curve, Curve]:
    """The plain sampler with the paper's step size, and control variates on its draws."""
    plan = trial.plan(on_block, problem.leapfrogs)
    starts, run_key = problem.starts(trial.replicates, trial.seed)

    def fold(
        kept: Kept,
        setting: Number,
        state: RepelState,
        info: RepelInfo,
        n: Int[Array, ""],
    ) -> Kept:
        at = (n - 1) % plan.block
        inner = state.inner_state
        return {
            "draws": kept["draws"].at[at].set(inner.position),
            "scores": kept["scores"].at[at].set(inner.logdensity_grad),
            "acceptance": kept["acceptance"] + info.inner_info.acceptance_rate / plan.block,
        }

    empty = jnp.zeros((plan.block, problem.target.position.size))
    found = run(
        lambda _: problem.build(**srmc.paper_settings(0.0)),
        jnp.zeros(1),
        starts[None],
        run_key,
        plan,
        empty={"draws": empty, "scores": empty, "acceptance": jnp.asarray(0.0)},
        fold=fold,
    ).kept
    first = round(BURN_IN * trial.blocks)
    draws, scores = (
        found[name][0, :, first:].reshape(trial.replicates, -1, empty.shape[1])
        for name in ("draws", "scores")
    )
    cost = problem.leapfrogs * np.ones(draws.shape[1])
    chains = _Run(draws, cost, found["acceptance"][0].mean(axis=1))
    points = trial.blocks - first
    return _running(problem, chains, points), _controlled(problem, chains, scores)


def timed(problem: Problem, curves: Curves, replicates: int) -> Curves:
    """The curves with processor times, from short runs of the plain and of the tilted samplers.

    All run as many chains in one program as `srmc.sample`, which was timed by itself.
    """
    trial = Trial(steps=4000, replicates=replicates, blocks=4, seed=0)

    def rate(options: RepelOptions) -> float:
        return measure(problem, lambda _: options, jnp.zeros(1), trial).seconds

    rules = dict.fromkeys(key[0] for key in curves if isinstance(key, tuple))
    rates = {rule: rate(settings(1.0, rule)) for rule in rules}
    plain = rate(srmc.paper_settings(0.0))
    out: Curves = {}
    for key, curve in curves.items():
        seconds = curve.steps * (rates[key[0]] if isinstance(key, tuple) else plain)
        out[key] = curve if curve.seconds is not None else curve._replace(seconds=seconds)
    return out


def self_tuned(problem: Problem, trial: Trial, clock: bool, points: int = 40) -> Curves:
    """The tuned loop of `srmc.sample`, with a history per chain, and its well-tuned base chains.

    `repellence={}` keeps all that is tuned, and repels draws as they are made.
    Its warm-up takes the place of burn-in. The chains are replicates, except for the step size,
    the metric and the loop, which are tuned on 32 of them together.
    """
    iterations = round((1 - BURN_IN) * trial.steps) // problem.leapfrogs
    warmup = trial.steps // problem.leapfrogs - iterations
    options: dict[str, Any] = {
        "kernel": problem.kernel,
        "num_chains": trial.replicates,
        "num_warmup": min(3000, max(500, warmup)),
        "seed": trial.seed,
        "shared_history": False,
        "repellence": {},
        "base": True,
        "progress": False,
    }
    seconds = None
    began = time.process_time()
    result = srmc.sample(problem.target, num_samples=iterations, **options)
    if clock:
        took = time.process_time() - began
        began = time.process_time()
        srmc.sample(problem.target, num_samples=100, **options)  # compilation and warm-up
        took -= time.process_time() - began
        per_draw = took / (iterations - 100) / trial.replicates
        seconds = per_draw * np.arange(1, iterations + 1)
    assert result.base is not None
    acceptance = result.stats["acceptance_rate"].mean(axis=1)
    cost = np.mean(result.stats["gradients"] + result.stats["hvps"], axis=0)
    base = _Run(result.base["x"], problem.leapfrogs * np.ones(iterations), acceptance)
    score = jax.jit(lambda x: jax.lax.map(jax.vmap(jax.grad(problem.target.logdensity_fn)), x))
    scores = np.asarray(score(jnp.asarray(base.draws)))
    repelled = _Run(result.draws["x"], cost, acceptance)
    return {
        "self-tuned": _running(problem, repelled, points, seconds),
        "well-tuned": _running(problem, base, points),
        "control variates": _controlled(problem, base, scores),
    }


def _running(
    problem: Problem, run: _Run, points: int, seconds: Float[np.ndarray, " draw"] | None = None
) -> Curve:
    """Errors of the mean of the first draws, at `points` lengths."""
    at = np.unique(np.linspace(0, run.draws.shape[1], points + 1).astype(int)[1:])
    pieces = np.split(run.draws, at[:-1], axis=1)
    sums = np.stack([piece.sum(axis=1, dtype=float) for piece in pieces], 1)
    means = np.cumsum(sums, axis=1) / at[:, None]
    return Curve(
        np.sum((means - problem.truth.mean) ** 2, axis=-1),
        problem.leapfrogs * at,
        np.cumsum(run.cost)[at - 1],
        None if seconds is None else seconds[at - 1],
        run.acceptance,
    )


def _controlled(
    problem: Problem, run: _Run, scores: Float[np.ndarray, "replicate draw d"]
) -> Curve:
    """Errors of control variates on the first draws, at a few lengths."""
    length = run.draws.shape[1]
    at = np.unique(np.geomspace(max(40, length // 64), length, 7).astype(int))
    estimates = [control_variates(run.draws[:, :n], scores[:, :n]) for n in at]
    errors = np.stack([np.sum((e - problem.truth.mean) ** 2, axis=-1) for e in estimates], 1)
    gradients = np.cumsum(run.cost)[at - 1]
    return Curve(errors, problem.leapfrogs * at, gradients, None, run.acceptance)
