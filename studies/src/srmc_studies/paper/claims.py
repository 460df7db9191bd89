"""Claims that need no chain: sums and counts that the paper prints, costs per step, and memory."""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from blackjax.base import SamplingAlgorithm
from matplotlib.figure import Figure

import srmc
from srmc.kernels import Space
from srmc.types import Array, Scalar
from srmc_studies.paper._arithmetic import classes_row, distance_row, divergence_row, exactly
from srmc_studies.paper._ledger import Estimate, Outcome, Row
from srmc_studies.paper._progress import Progress, counter, silent
from srmc_studies.paper._style import new_figure

SITES = 16
DIMENSIONS = (10, 100, 1000)


class Cost(NamedTuple):
    """Evaluations of the log density or its gradient per step, plain and repelled."""

    plain: int
    repelled: int


def claims(size: str = "full", seed: int = 0, on_progress: Progress = silent) -> Outcome:
    """Check what arithmetic, enumeration and counting can check; the size makes no difference."""
    tell = counter(on_progress, "claims", 3)
    means = _score_means(seed)
    tell(1)
    costs = _costs(seed)
    tell(2)
    memory = {d: _numbers_kept(d) for d in DIMENSIONS}
    tell(3)
    rows = [
        divergence_row(),
        distance_row(),
        classes_row(),
        _mean_row(means),
        _balanced_row(costs),
        _informed_row(costs),
        _memory_row(memory),
    ]
    numbers: dict[str, object] = {
        "score_means": means,
        "evaluations": {name: cost._asdict() for name, cost in costs.items()},
        "numbers_kept": {str(d): kept for d, kept in memory.items()},
    }
    settings: dict[str, object] = {
        "discrete targets": "a random quadratic with a sine on {0, 1}^8 and on {0, 1, 2}^5",
        "sites for the costs": SITES,
        "dimensions for the memory": DIMENSIONS,
    }
    return Outcome(settings, numbers, {"costs": _picture(costs)}, rows)


def _score_means(seed: int) -> dict[str, float]:
    """The largest |E[s_i]| on small spaces, by summing over all states."""
    found = {}
    for name, space, sites in (("binary", srmc.Binary(), 8), ("ordinal", srmc.Ordinal(3), 5)):
        states = jnp.asarray(space.all_states((sites,)), float)
        f = _target(seed, sites)
        p = jax.nn.softmax(jax.vmap(f)(states))
        for feature in ("stein", "relaxed"):
            algorithm = srmc.flip_mh(f, space, feature=feature)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that the relaxed score is biased is the point
                features = jax.jit(jax.vmap(lambda x, a=algorithm: a.init(x).feature))(states)
            found[f"{name}, {feature}"] = float(jnp.max(jnp.abs(p @ features)))
    return found


def _target(seed: int, sites: int) -> Callable[[Array], Scalar]:
    weights = 0.3 * np.random.default_rng(seed).normal(size=(sites, sites)).astype(np.float32)

    def logdensity(x: Array) -> Scalar:
        return x @ weights.astype(x.dtype) @ x + 0.5 * jnp.sum(jnp.sin(2 * x))

    return logdensity


def _mean_row(means: dict[str, float]) -> Row:
    return Row(
        "eqn:discrete_score",
        "The discrete score has mean 0 under the target; a relaxed gradient need not",
        "0",
        {f"largest |E[s_i]|, {name}": exactly(x) for name, x in means.items()},
        {
            f"{name}: the mean is {'0' if 'stein' in name else 'not 0'}": (x < 1e-4)
            == ("stein" in name)
            for name, x in means.items()
        },
        "Sums over all states of two random targets, in single precision.",
    )


def _costs(seed: int) -> dict[str, Cost]:
    """The evaluations per step that samplers report, which tests compare with counted calls."""
    f, space = _target(seed, SITES), srmc.Binary()
    printed = srmc.paper_settings(0.01, discrete=True)
    in_acceptance = {k: v for k, v in printed.items() if k != "surrogate"}
    balanced: Callable[..., SamplingAlgorithm] = srmc.locally_balanced
    cases: dict[str, tuple[Callable[..., SamplingAlgorithm], dict[str, Any]]] = {
        "locally balanced": (balanced, printed),
        "GWG, acceptance only": (srmc.gwg, in_acceptance),
        "DLP, acceptance only": (_dlp, in_acceptance),
        "SR-GWG as printed": (srmc.gwg, printed),
        "SR-DLP as printed": (_dlp, printed),
    }
    return {
        name: Cost(
            _evaluations(build(f, space, alpha=0.0)), _evaluations(build(f, space, **options))
        )
        for name, (build, options) in cases.items()
    }


def _dlp(f: Callable[[Array], Scalar], space: Space, **options: Any) -> SamplingAlgorithm:
    return srmc.dlp(f, space, 0.5, **options)


def _evaluations(algorithm: SamplingAlgorithm) -> int:
    """Gradients, each Hessian-vector product counted as two, or values of the log density."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        state = algorithm.init(jnp.zeros(SITES))
    _, info = jax.jit(algorithm.step)(jax.random.key(0), state)
    return int(info.gradients) + int(info.hvps)


def _shown(costs: dict[str, Cost], names: list[str]) -> dict[str, Estimate]:
    return {
        f"{name}, {kind}: evaluations per step": exactly(x)
        for name in names
        for kind, x in costs[name]._asdict().items()
    }


def _balanced_row(costs: dict[str, Cost]) -> Row:
    cost = costs["locally balanced"]
    return Row(
        "sec:algo_implementation, computational overhead",
        "Locally balanced proposals need no additional score evaluations, only an inner product",
        "none",
        _shown(costs, ["locally balanced"]),
        {"a repelled step evaluates no more than a plain one": cost.repelled <= cost.plain},
        f"The ratio pi_theta(y) / pi_theta(x) takes the score s(y) of each of the {SITES} "
        "neighbours, where the plain proposal takes their values. Here this is done at both ends; "
        "a kernel that kept the scores of the current neighbours would do it at one.",
    )


def _informed_row(costs: dict[str, Cost]) -> Row:
    names = [name for name in costs if name != "locally balanced"]
    return Row(
        "sec:algo_implementation, computational overhead",
        "Gradient-informed samplers need no additional score evaluations, and a Hessian-vector "
        "product only if the proposal itself goes by the surrogate score",
        "none, or one product",
        _shown(costs, names),
        {
            f"{name}: a repelled step costs no more than a plain one": costs[name].repelled
            <= costs[name].plain
            for name in names
            if "acceptance" in name
        }
        | {
            f"{name}: it costs more, for a product at either end": costs[name].repelled
            == costs[name].plain + 4
            for name in names
            if "printed" in name
        },
        "A product is counted as two gradients. The reverse proposal needs one too, so that the "
        "printed algorithms take two products per step and not one.",
    )


def _numbers_kept(d: int) -> tuple[int, int, int]:
    """The numbers in a state of MALA, in one of SR-MALA, and in the latter after 100 steps."""
    f = lambda x: -0.5 * jnp.sum(x**2)
    count = lambda state: sum(int(leaf.size) for leaf in jax.tree.leaves(state))
    options = srmc.paper_settings(1.0)
    plain = jax.eval_shape(srmc.kernels.plain.mala(f, 0.1).init, jnp.zeros(d))
    algorithm = srmc.mala(f, 0.1, **options)
    first = jax.eval_shape(algorithm.init, jnp.zeros(d))
    step = lambda n, state: algorithm.step(jax.random.key(n), state)[0]
    last = jax.eval_shape(lambda state: jax.lax.fori_loop(0, 100, step, state), first)
    return count(plain), count(first), count(last)


def _memory_row(memory: dict[int, tuple[int, int, int]]) -> Row:
    d, e = DIMENSIONS[0], DIMENSIONS[-1]
    slope = (memory[e][1] - memory[d][1]) / (e - d)
    return Row(
        "sec:conclusion",
        "SRMC takes O(d) memory, independent of the length of the run",
        "O(d)",
        {
            f"d = {n:,}: numbers in a state, {kind}": exactly(x)
            for n, kept in memory.items()
            for kind, x in zip(("MALA", "SR-MALA"), kept, strict=False)
        },
        {
            "the state grows in proportion to d": all(
                memory[n][1] - memory[d][1] == slope * (n - d) for n in DIMENSIONS
            ),
            "it does not grow with the steps": all(kept[1] == kept[2] for kept in memory.values()),
        },
        f"A state of SR-MALA holds {slope:g} d numbers and a few more. The draws, where they are "
        "kept, are another matter.",
    )


def _picture(costs: dict[str, Cost]) -> Figure:
    figure = new_figure(8, 3)
    axis = figure.subplots()
    at = np.arange(len(costs))
    for shift, kind in ((-0.2, "plain"), (0.2, "repelled")):
        bars = axis.barh(at + shift, [getattr(cost, kind) for cost in costs.values()], 0.38)
        bars.set_label(kind)
        axis.bar_label(bars, padding=3, fontsize=9)
    axis.set_yticks(at, list(costs))
    axis.invert_yaxis()
    axis.set(xscale="log", xlabel=f"evaluations per step, {SITES} sites; a product counts as two")
    axis.legend()
    return figure
