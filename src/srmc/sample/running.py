"""How a run begins: distinct names, its fingerprint, warm-up and first states."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from srmc._checks import outputs_of
from srmc._versions import versions
from srmc.coordinates import Coordinates
from srmc.models.problem import Problem, check_labels, name_leaves
from srmc.results.kept import Kept
from srmc.sample.checkpoint import Checkpoint
from srmc.sample.identity import describe, probe
from srmc.sample.keep import Recording, keep_draws, keep_moments
from srmc.sample.learning import in_coordinates
from srmc.sample.loop import start
from srmc.sample.task import Call, dim_of, first_of, make_task, named_values
from srmc.sample.tune import Tuned
from srmc.sample.warmup import warm_up
from srmc.sample.windows import is_shared, sampling_task
from srmc.types import Array, LogDensity, Position, PRNGKey

DENSITY = "the model's log density"  # its name among the probes of a run


class Begun(NamedTuple):
    """Chains that are warmed up: the problem as they see it, and what they keep as it is made."""

    inner: Problem
    learned: Coordinates | None
    tuned: Tuned
    # What was kept and the number of draws per chain, at each length.
    kept: Iterator[tuple[Kept, int]]


def begin(
    call: Call,
    rng_keys: Sequence[PRNGKey],
    positions: Position,
    store: Checkpoint | None,
    lengths: Sequence[int],
) -> Begun:
    """Warm up chains that start at these positions; they then run up to each of the lengths.

    The keys are for warm-up, for the first states, and for the steps.
    """
    warm_key, init_key, run_key = rng_keys
    plan, show = call.plan, call.show
    tuned, learned = warm_up(call, warm_key, positions, store)
    inner = call.problem
    if learned is not None:
        inner = in_coordinates(inner, learned, positions)
    show("warm-up", plan.num_warmup, plan.num_warmup, _remark(tuned))
    make = sampling_task if is_shared(plan, dim_of(positions)) else make_task
    task = make(call._replace(problem=inner), tuned, run_key)
    states = start(task, init_key, tuned.positions)
    recording = Recording(call, task, store)
    if plan.keep.keep == "draws":
        kept = keep_draws(recording, states, [n // plan.keep.thin for n in lengths])
    else:
        kept = iter([keep_moments(recording, states, plan.keep.keep == "covariance")])
    return Begun(inner, learned, tuned, kept)


def key_of(seed: int) -> PRNGKey:
    """The key of a seed, of which `jax.random.key` reads 32 bits in single precision."""
    if seed < 2**32:
        return jax.random.key(seed)
    words = jnp.array([seed >> 32, seed & 0xFFFFFFFF], jnp.uint32)
    return jax.random.wrap_key_data(words, impl="threefry2x32")


def _remark(tuned: Tuned) -> str:
    """What warm-up found, for the progress bar."""
    step = tuned.parameters.get("step_size")
    return "" if step is None else f"step size {float(np.asarray(step)):.3g}"


def check_names(call: Call, positions: Position) -> None:
    """Raise if two values of a draw have one name, or one that a summary could not tell apart."""
    problem, plan, first = call.problem, call.plan, first_of(positions)
    values = jax.eval_shape(problem.values, first)
    if problem.values is name_leaves and len(values) < len(jax.tree.leaves(first)):
        raise ValueError(
            "initial_position must have leaves with different names, but two of "
            f"{jax.tree.map(jnp.shape, first)} would have the same, one of {', '.join(values)}"
        )
    names, shapes = list(map(str, values)), dict(values)
    if plan.keep.statistics is not None:
        more = outputs_of("statistics", plan.keep.statistics, values, of="values by name")
        if not isinstance(more, dict) or not all(hasattr(x, "shape") for x in more.values()):
            raise TypeError(f"statistics must return a dict of arrays by name, got {more!r}")
        more = {k.replace("/", ".") if isinstance(k, str) else k: x for k, x in more.items()}
        if taken := [name for name in more if name in values]:
            raise ValueError(
                f"statistics must return new names, got {', '.join(taken)}, which the model has"
            )
        names += list(more)
        shapes |= more
    check_labels(problem.labels, {name: x.shape for name, x in shapes.items()})
    for name in names:
        if not isinstance(name, str) or not name or not name.isprintable():
            raise ValueError(f"names of values must be printable text, got {name!r}")
        if name.endswith("]") and name.rpartition("[")[0] in names:
            raise ValueError(
                f"names of values must differ from those of entries, got {name!r} and "
                f"{name.rpartition('[')[0]!r}"
            )


def identity(call: Call, positions: Position) -> dict[str, Any]:
    """What a checkpoint records about its run; a run that resumes it must match."""
    problem, plan, first = call.problem, call.plan, first_of(positions)
    values_of = Partial(named_values, problem.values, plan.keep.statistics)
    shapes = jax.eval_shape(values_of, first)
    seen = Partial(_seen, problem.logdensity_fn, values_of)
    return {
        "settings": plan.settings()
        | {
            "own_kernel": None if isinstance(plan.kernel, str) else describe(plan.kernel.algorithm),
            "rebalances": plan.rebalances(dim_of(positions)),
            "controls": plan.controls,
            "processes": jax.process_count(),
            "double_precision": jnp.zeros(()).dtype == "float64",
        },
        "shapes": {k: list(x.shape) for k, x in shapes.items()},
        "probe": probe(seen, positions),
        "versions": versions(),
    }


def _seen(
    logdensity_fn: LogDensity, values_of: Callable[[Position], dict[str, Array]], position: Position
) -> dict[str, Array]:
    kept = values_of(position)
    mixed = lambda x: jnp.sum(jnp.ravel(x) * jnp.cos(jnp.arange(x.size, dtype=float)))
    density = {DENSITY: logdensity_fn(position)}
    return density | {f"what is kept of {k}": mixed(jnp.asarray(x)) for k, x in kept.items()}
