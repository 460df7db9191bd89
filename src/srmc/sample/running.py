"""Chains from their starts, through warm-up, to what is kept of them."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from srmc._progress import Show
from srmc.coordinates import Coordinates
from srmc.models.problem import Problem
from srmc.results.kept import Kept
from srmc.sample.checkpoint import Checkpoint
from srmc.sample.keep import Recording, keep_draws, keep_moments
from srmc.sample.learning import in_coordinates
from srmc.sample.loop import start
from srmc.sample.plan import Plan
from srmc.sample.stop import Stop
from srmc.sample.task import dim_of, make_task
from srmc.sample.tune import Tuned, Tuner
from srmc.sample.warmup import warm_up
from srmc.sample.windows import is_shared, sampling_task
from srmc.types import Position, PRNGKey


class Begun(NamedTuple):
    """Chains that are warmed up: the problem as they see it, and what they keep as it is made.

    kept
        What was kept and the number of draws per chain, at each length.
    """

    inner: Problem
    learned: Coordinates | None
    tuned: Tuned
    kept: Iterator[tuple[Kept, int]]


class Running(NamedTuple):
    """How chains run: of which problem, by which plan, and who watches.

    seconds
        The time between two commits to a checkpoint.
    """

    problem: Problem
    plan: Plan
    tuner: Tuner
    seconds: float
    show: Show
    stop: Stop

    def begin(
        self,
        rng_keys: Sequence[PRNGKey],
        positions: Position,
        store: Checkpoint | None,
        lengths: Sequence[int],
    ) -> Begun:
        """Warm up chains that start at these positions; they then run up to each of the lengths.

        The keys are for warm-up, for the first states, and for the steps.
        """
        problem, plan, tuner, seconds, show, stop = self
        warm_key, init_key, run_key = rng_keys
        tuned, learned = warm_up(problem, plan, tuner, warm_key, positions, store, stop, show)
        inner = problem if learned is None else in_coordinates(problem, learned, positions)
        show("warm-up", plan.num_warmup, plan.num_warmup, _remark(tuned))
        make = sampling_task if is_shared(plan, dim_of(positions)) else make_task
        task = make(inner, plan, tuner, tuned, run_key)
        states = start(task, init_key, tuned.positions)
        recording = Recording(task, plan.num_draws, store, seconds, show, stop)
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
    key: PRNGKey = jax.random.wrap_key_data(words, impl="threefry2x32")
    return key


def _remark(tuned: Tuned) -> str:
    """What warm-up found, for the progress bar."""
    step = tuned.parameters.get("step_size")
    return "" if step is None else f"step size {float(np.asarray(step)):.3g}"
