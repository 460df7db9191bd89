"""From the plain chain of a run to its rebalanced draws."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from srmc._progress import Show
from srmc._types import Array, Position
from srmc.after.batched import NUMBERS_AT_ONCE, Batched
from srmc.after.rebalance import Part, Rebalanced, Run, moved, rebalance_parts, warn
from srmc.after.report import Report, nothing
from srmc.models.problem import Problem
from srmc.run.keep import Kept
from srmc.run.plan import Plan
from srmc.run.task import values_of
from srmc.tune.continuous import UNADJUSTED


def rebalance_run(
    problem: Problem, plan: Plan, kept: Kept, positions: Position, show: Show
) -> tuple[Kept, list[Report]]:
    """Rebalance what a run kept, unconstrained draws and their scores; return draws by name.

    `positions` are some positions, (chain, ...). There is one report, or one for each chain if
    these do not share a map.
    """
    assert kept.draws is not None
    unravel = ravel_pytree(jax.tree.map(lambda x: x[0], positions))[1]
    x, scores = kept.draws["position"], kept.draws.get("score")
    density = lambda v: problem.logdensity_fn(unravel(v))
    run = Run(
        np.asarray(x, float),
        None if scores is None else np.asarray(scores, float),
        Batched("the gradient", jax.grad(density), x, x.shape[2:]),
        Batched("the log density", density, x, ()),
    )
    try:
        parts = rebalance_parts(
            run, plan.shared_history, exact=plan.kernel not in UNADJUSTED, show=show
        )
    except (KeyboardInterrupt, MemoryError, jax.errors.JaxRuntimeError) as error:
        parts = [_untouched(run, error)]
    warn(parts)
    values = lambda draws: _by_name(problem, plan, unravel, draws)
    base = values(x)
    is_moved = any(part.report.form != "none" for part in parts)
    scored = {
        "position": np.concatenate([part.part.chains for part in parts]).astype(x.dtype),
        "score": np.concatenate([part.part.scores for part in parts]).astype(x.dtype),
    }
    kept = kept._replace(
        draws=values(moved(x, parts)) if is_moved else base, base=base, scored=scored
    )
    return kept, [part.report for part in parts]


def _untouched(run: Run, error: BaseException) -> Rebalanced:
    """What stands if rebalancing was interrupted or failed: the plain draws."""
    reason = f"rebalancing ended early, {type(error).__name__} {error}".rstrip()
    report = nothing(reason, run.score.count)
    scores = np.full_like(run.chains, np.nan) if run.scores is None else run.scores
    return Rebalanced(np.zeros_like(run.chains), report, Part(run.chains, scores))


def _by_name(
    problem: Problem, plan: Plan, unravel: Any, draws: np.ndarray
) -> dict[str, np.ndarray]:
    """The values of draws (chain, draw, d) by name, in the user's space."""

    def one(v: Array) -> dict[str, Array]:
        return values_of(problem, plan, unravel(v))

    program = jax.jit(jax.vmap(one))
    rows = draws.reshape(-1, draws.shape[2])
    size = min(len(rows), max(1, NUMBERS_AT_ONCE // draws.shape[2]))
    padded = np.concatenate([rows, np.repeat(rows[-1:], -len(rows) % size, axis=0)])
    parts = [
        jax.tree.map(np.asarray, program(jnp.asarray(part)))
        for part in np.split(padded, len(padded) // size)
    ]
    join = lambda *v: np.concatenate(v)[: len(rows)].reshape(*draws.shape[:2], *v[0].shape[1:])
    return {name: join(*(part[name] for part in parts)) for name in parts[0]}
