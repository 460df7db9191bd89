"""The front door: from a model to a result."""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from srmc._checks import check_number
from srmc._progress import progress_bar
from srmc.core.target import LogDensity
from srmc.discrete.sites import Changes
from srmc.discrete.space import Space
from srmc.models.model import Model, as_discrete_model, as_model, space_of
from srmc.results.result import Result, versions
from srmc.run import loop as _run
from srmc.run.devices import lay_out
from srmc.run.keep import Kept, keep_draws, keep_moments
from srmc.run.plan import Plan, check_plan
from srmc.store.checkpoint import Checkpoint, probe
from srmc.tune import continuous as _tune
from srmc.tune.warmup import Warm, options, tuner_of, warm_up

PyTree = Any
FEATURES = 2**26  # numbers of them that a run keeps


def sample(
    model: Any,
    *,
    kernel: str | None = None,
    alpha: Any = "auto",
    num_warmup: int = 1000,
    num_samples: int = 1000,
    num_chains: int = 4,
    seed: int = 0,
    initial_position: Any = None,
    data: Any = None,
    space: Space | None = None,
    differences: Changes | None = None,
    step_size: float | None = None,
    num_integration_steps: int | None = None,
    shared_history: bool = True,
    repellence: dict[str, Any] | None = None,
    thin: int = 1,
    keep: str = "draws",
    statistics: Callable[[dict[str, jax.Array]], dict[str, jax.Array]] | None = None,
    base: bool = False,
    checkpoint: Any = None,
    resume: bool = False,
    checkpoint_seconds: float = 5.0,
    progress: bool = True,
) -> Result:
    """Sample a model with a kernel that tunes and repels itself.

    Parameters
    ----------
    model
        A JAX log density of a position, a NumPyro model, a PyMC model or a `srmc.targets.Target`.
    kernel
        "nuts", the default, "hmc", "jittered_hmc", "mala", "mh", "ula" or "uld"; on a discrete
        space "gwg", the default, "dlp", "gibbs", "flip_mh" or "locally_balanced".
    alpha
        The strength of repellence; "auto" measures in warm-up what is best, 0 is the plain kernel.
    num_warmup, num_samples, num_chains, seed
        Steps of warm-up and of sampling, a chain; the number of chains; the seed of everything.
    initial_position
        Where chains start: a position, a list of one a chain, or a function of a key. For NumPyro
        and PyMC models "uniform", the default, or "prior".
    data
        The arguments of a NumPyro model, a tuple or a dictionary.
    space, differences
        The discrete space of a log density, such as `srmc.Binary()`, and its one-site changes, if
        there is a cheap way; see `srmc.flip_mh`. A target knows its own.
    step_size
        Of the kernel; found in warm-up if not given.
    num_integration_steps
        Of HMC; 10 if not given.
    shared_history
        One history for all chains, which is best when they are pooled.
    repellence
        Keywords of `srmc.repel` in place of the tuned ones, such as `srmc.paper_settings()`.
    thin
        Keep every so many-th draw.
    keep
        "draws"; or, in memory that does not grow, "moments" (means and variances) or "covariance".
    statistics
        A function of a draw's values that returns more of them by name, to be kept as well.
    base
        Keep the plain kernel's draws too, which repellence in the moving frame leaves alone.
    checkpoint
        A folder. Draws go there as they are made, and the run can be resumed.
    resume
        Go on with the run in `checkpoint`, if there is one.
    checkpoint_seconds
        The time between two commits to the checkpoint.
    progress
        Show a progress bar on a terminal.

    Ctrl-C or SIGTERM ends a run early; the result then has what was drawn. A second one, or one
    before there are draws, raises KeyboardInterrupt.
    """
    space = space_of(model, space)
    plan = Plan(
        kernel or ("nuts" if space is None else "gwg"),
        alpha,
        num_warmup,
        num_samples,
        num_chains,
        seed,
        step_size,
        num_integration_steps,
        shared_history,
        thin,
        keep,
        base,
        repellence,
        space,
    )
    check_plan(plan)
    check_number("checkpoint_seconds", checkpoint_seconds, above=0.0)
    if resume and checkpoint is None:
        raise ValueError("resume=True needs checkpoint, the folder of the run to go on with")
    if space is None:
        found = as_model(model, initial_position, data)
    else:
        found = as_discrete_model(model, space, initial_position, differences)
    tuner = tuner_of(found)
    values = lambda position: _values(found, statistics, position)
    began = time.perf_counter()
    start_key, warm_key, init_key, run_key = jax.random.split(jax.random.key(seed), 4)
    with progress_bar(progress and jax.process_index() == 0) as show:
        show("warm-up", 0, None)
        positions = found.starts(start_key, num_chains)
        store = None
        if checkpoint is not None:
            identity = _identity(found.logdensity_fn, values, plan, positions)
            store = Checkpoint(checkpoint, identity, resume)
        warm = warm_up(found, plan, warm_key, positions, store)
        repelling = options(tuner, plan, warm)
        parameters = warm.parameters | ({} if step_size is None else {"step_size": step_size})
        found_step = parameters.get("step_size")
        remark = "" if found_step is None else f"step size {float(found_step):.3g}"
        show("warm-up", num_warmup, num_warmup, remark)
        algorithm = tuner.RECIPES[plan.kernel].build(found.logdensity_fn, **parameters, **repelling)
        layout = lay_out(num_chains, shared=repelling.get("history_axis") is not None)
        tuned = plan.repellence is None and "surrogate" in repelling
        record = _recorder(values, base)
        if tuned and keep == "draws" and thin == 1:
            record = _seeing(record, lambda state: _tune.seen(state, warm.loop), plan)
        task = _run.Task(algorithm, run_key, layout, record, thin)
        states = _run.start(task, init_key, warm.positions)
        keeping = keep_draws if keep == "draws" else keep_moments
        kept = keeping(task, states, plan, store, checkpoint_seconds, show)
    seconds = time.perf_counter() - began
    measured = tuner.measured(warm.loop)
    measured |= {} if found_step is None else {"step_size": np.mean(found_step)}
    return _result(found.name, plan, warm, measured, kept, seconds)


def _values(model: Model, statistics: Callable | None, position: PyTree) -> dict[str, jax.Array]:
    """A draw's values by name, in the user's space."""
    out = model.values(position)
    return out if statistics is None else out | statistics(out)


def _recorder(values: Callable, base: bool) -> Callable[[Any], dict[str, jax.Array]]:
    """What is kept of a state: values by name, and those of the base chain as `base/name`."""

    def record(state):
        out = values(state.position)
        if not base:
            return out
        return out | {f"base/{k}": x for k, x in values(state.inner_state.position).items()}

    return record


def _seeing(record: Callable, features: Callable, plan: Plan) -> Callable:
    """The same, and the features that the history saw, unless they are too many to keep."""

    def both(state):
        out, seen = record(state), features(state)
        if seen.size > 256 or seen.size * plan.num_draws * plan.num_chains > FEATURES:
            return out
        return out | {"stats/features": seen}

    return both


def _identity(
    logdensity_fn: LogDensity, values: Callable, plan: Plan, positions: PyTree
) -> dict[str, Any]:
    """What a checkpoint says about its run; a resumed one must say the same."""
    first = jax.tree.map(lambda x: x[0], positions)
    kept = {k: np.asarray(v, float) for k, v in values(first).items()}
    settings = plan.settings() | {
        "processes": jax.process_count(),
        "double_precision": jnp.zeros(()).dtype == "float64",
    }
    return {
        "settings": settings,
        "shapes": {k: list(x.shape) for k, x in kept.items()},
        "probe": probe(logdensity_fn, first) + [float(x.sum()) for x in kept.values()],
        "versions": versions(),
    }


def _result(name, plan: Plan, warm: Warm, measured, kept: Kept, seconds: float) -> Result:
    about = {
        "settings": {"model": name} | plan.settings(),
        "measured": {k: float(x) for k, x in measured.items()},
        "versions": versions(),
        "num_draws": kept.done,
        "steps": kept.done * plan.thin,
        "interrupted": kept.done < plan.num_draws,
        "seconds": round(seconds, 3),
        "gradients_of_warmup": int(warm.gradients),
    }
    if kept.batches is not None:
        about["draws_a_batch"] = kept.batches
    return Result(kept.values, kept.stats, kept.moments, kept.covariance, about)
