"""Warm-up of all chains of a run, and the repellence that follows from it."""

import warnings
from typing import Any, NamedTuple

import jax
import numpy as np

from srmc.models.model import Model
from srmc.run import loop as _run
from srmc.run.devices import lay_out
from srmc.run.plan import Plan
from srmc.store.checkpoint import Checkpoint
from srmc.tune import continuous as _tune
from srmc.tune import discrete as _tune_sites
from srmc.tune.measure import warn_of_offset

PyTree = Any
NUM_PILOTS = 32
# A sum over several threads would depend on their number in the last bit.
ONE_THREAD = {"xla_cpu_multi_thread_eigen": False}


class Warm(NamedTuple):
    """What is left of a warm-up: last positions, the kernel's parameters, the measured loop."""

    positions: PyTree
    parameters: dict[str, Any]
    loop: Any
    gradients: np.ndarray


def warm_up(
    model: Model, plan: Plan, rng_key: jax.Array, positions: PyTree, store: Checkpoint | None
) -> Warm:
    """Warm-up of all chains; of more than 32, the rest follow with the parameters of those.

    Every process does the same here, and on one device, so that all agree to the last bit.
    """
    tuner: Any = tuner_of(model)
    fixed: dict[str, Any] = {}
    if model.space is not None:
        fixed = {"space": model.space, "differences": model.differences}
        fixed |= {} if plan.step_size is None else {"step_size": plan.step_size}
    if plan.kernel in ("hmc", "jittered_hmc"):
        fixed["num_integration_steps"] = plan.num_integration_steps or 10
    arrays = store.load_warmup() if store is not None else None
    if arrays is None:
        pilots = jax.tree.map(lambda x: x[:NUM_PILOTS], positions)
        logdensity_fn = model.logdensity_fn
        warm = tuner.adapt(plan.kernel, logdensity_fn, rng_key, pilots, plan.num_warmup, **fixed)
        together = plan.num_chains if plan.shared_history else 1
        look = lambda draws, scores: tuner.look(
            plan.kernel,
            warm._replace(draws=draws, scores=scores),
            plan.num_samples,
            alpha=plan.alpha,
            together=together,
        )
        loop = jax.jit(look, compiler_options=ONE_THREAD)(warm.draws, warm.scores)
        last, more = _follow(model, plan, rng_key, positions, warm)
        arrays = {f"position.{n}": x for n, x in enumerate(jax.tree.leaves(last))}
        found = {k: v for k, v in warm.parameters.items() if k not in fixed}
        arrays |= {f"parameter.{k}": v for k, v in found.items()}
        arrays |= {f"loop.{n}": x for n, x in enumerate(jax.tree.leaves(loop))}
        arrays["gradients"] = warm.total_gradients + more
        arrays = {k: np.asarray(v) for k, v in arrays.items()}
        if store is not None:
            store.save_warmup(arrays)
    part = lambda name: [v for k, v in arrays.items() if k.startswith(name)]
    return Warm(
        jax.tree.unflatten(jax.tree.structure(positions), part("position.")),
        fixed | {k[10:]: v for k, v in arrays.items() if k.startswith("parameter.")},
        jax.tree.unflatten(jax.tree.structure(tuner.NO_LOOP), part("loop.")),
        arrays["gradients"],
    )


def _follow(model, plan, rng_key, positions, warm):
    """Where all chains are after warm-up, and the gradients that those beyond the pilots took."""
    rest = jax.tree.map(lambda x: x[NUM_PILOTS:], positions)
    count = plan.num_chains - NUM_PILOTS
    if count <= 0:
        return warm.positions, 0
    parameters = {
        k: np.asarray(v) if isinstance(v, jax.Array) else v for k, v in warm.parameters.items()
    }
    build = tuner_of(model).RECIPES[plan.kernel].build
    algorithm = build(model.logdensity_fn, **parameters, alpha=0.0)
    steps = plan.num_warmup // 2
    task = _run.Task(algorithm, rng_key, lay_out(count, shared=False), thin=steps)
    (chunk,) = _run.draws(task, _run.start(task, rng_key, rest), 1)
    followed, gradients = task.layout.of_all_processes(
        jax.tree.map(lambda x: np.swapaxes(x, 0, 1), (chunk.values, chunk.stats["gradients"]))
    )
    followed = jax.tree.map(lambda x: x[:, 0], followed)
    if model.space is None:
        followed = _not_left_behind(model.logdensity_fn, warm.positions, followed)
    join = lambda a, b: np.concatenate([np.asarray(a), b])
    return jax.tree.map(join, warm.positions, followed), int(np.sum(gradients))


def _not_left_behind(logdensity_fn, pilots, followed):
    """Positions, with those of pilots where the density is less than exp(-10 - d) of any of theirs.

    The pilots tuned themselves to where they started; who follows may have found no step there.
    """
    density = jax.jit(jax.vmap(logdensity_fn))
    dim = sum(leaf[0].size for leaf in jax.tree.leaves(pilots))
    behind = ~np.asarray(density(followed) > np.min(density(pilots)) - 10 - dim)
    if not np.any(behind):
        return followed
    warnings.warn(
        "chains that were stuck where initial_position put them go on from where others are after "
        f"warm-up: {behind.sum()}",
        stacklevel=4,
    )
    others = np.arange(len(behind)) % NUM_PILOTS
    mend = lambda own, theirs: np.where(
        behind.reshape(-1, *[1] * (own.ndim - 1)), np.asarray(theirs)[others], own
    )
    return jax.tree.map(mend, followed, pilots)


def tuner_of(model: Model) -> Any:
    """The module that knows how to tune on the model's space."""
    return _tune if model.space is None else _tune_sites


def options(tuner: Any, plan: Plan, warm: Warm) -> dict[str, Any]:
    """The keywords of `repel`."""
    is_auto = isinstance(plan.alpha, str)
    axis = {"history_axis": _run.ALL_CHAINS if plan.shared_history else None}
    if plan.repellence is not None:
        return axis | plan.repellence | ({} if is_auto else {"alpha": plan.alpha})
    is_on = tuner.is_on(warm.loop) if is_auto else plan.alpha > 0
    if is_auto or is_on:
        warn_of_offset(warm.loop, is_auto)
    if not is_on:
        return {"alpha": 0.0}
    tuned = tuner.repellence(
        plan.kernel,
        warm.loop,
        plan.num_samples,
        alpha=plan.alpha,
        leapfrogs=warm.parameters.get("num_integration_steps"),
    )
    return tuned | axis | {"history_every": int(tuned["history_every"])}
