"""Warm-up of the chains beyond the pilots, with the parameters that the pilots found."""

import warnings
from typing import Any

import jax
import numpy as np

from srmc._programs import over_rows, parted
from srmc.repel.state import RepelState
from srmc.sample.devices import lay_out
from srmc.sample.loop import Parameters, Task, chunks, start
from srmc.sample.stop import Stop
from srmc.sample.task import plain_builder
from srmc.sample.tune.continuous import Continuous
from srmc.sample.tune.tuner import Tuned, Tuner
from srmc.types import LogDensity, Position, PRNGKey

PARTS = 20


def settle(
    tuner: Tuner,
    logdensity_fn: LogDensity,
    rng_key: PRNGKey,
    tuned: Tuned,
    rest: Position,
    num_steps: int,
    stop: Stop,
) -> Tuned:
    """Add the `rest` of the chains to the tuned pilots, after `num_steps` of the plain kernel."""
    count = len(jax.tree.leaves(rest)[0])
    if count == 0:
        return tuned
    parameters = {k: np.asarray(v) for k, v in tuned.parameters.items()}
    code, data = parted(logdensity_fn)
    build, given = plain_builder(tuner, code), Parameters(parameters, data)
    layout = lay_out(count, shared=False)
    # In parts, between which a signal is noticed.
    parts = max(n for n in range(1, PARTS + 1) if num_steps % n == 0)
    task = Task(build, given, rng_key, layout, _position, num_steps // parts)
    spent = np.zeros(sum(map(len, layout.chains)), int)
    for chunk in chunks(task, start(task, rng_key, rest), parts):
        stop.wait_for(())
        last, spent = chunk.recorded, spent + chunk.stats.gradients.sum(axis=0)
    followed, gradients = layout.of_all_processes((jax.tree.map(lambda x: x[-1], last), spent))
    if isinstance(tuner, Continuous):
        followed = _not_left_behind(logdensity_fn, tuned.positions, followed)
    join = lambda a, b: np.concatenate([np.asarray(a), b])
    return tuned._replace(
        positions=jax.tree.map(join, tuned.positions, followed),
        gradients=np.asarray(tuned.gradients) + int(np.sum(gradients)),
    )


def _position(_: Any, state: RepelState) -> Position:
    return state.position


def _not_left_behind(logdensity_fn: LogDensity, pilots: Position, followed: Position) -> Position:
    """Replace positions by those of pilots where the density is below exp(-10 - d) of theirs.

    The pilots tuned their step size to their own starting points; at another starting point, a
    chain with that step size may accept nothing.
    """
    density = over_rows(logdensity_fn)
    leaves = jax.tree.leaves(pilots)
    dim, num_pilots = sum(leaf[0].size for leaf in leaves), len(leaves[0])
    behind = ~np.asarray(density(followed) > np.min(density(pilots)) - 10 - dim)
    if not np.any(behind):
        return followed
    warnings.warn(
        f"{behind.sum()} of the chains were stuck at their initial_position; they continue from "
        "the positions that other chains have reached after warm-up",
        stacklevel=4,
    )
    others = np.arange(len(behind)) % num_pilots
    mend = lambda own, theirs: np.where(
        behind.reshape(-1, *[1] * (own.ndim - 1)), np.asarray(theirs)[others], own
    )
    return jax.tree.map(mend, followed, pilots)
