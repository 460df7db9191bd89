"""Training with progress and checkpoints: a run that was stopped goes on as if it had not been."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax
import numpy as np
import optax

from srmc.types import Int, PRNGKey, Scalar
from srmc_studies.paper._progress import Progress, silent

State: TypeAlias = Any  # a tree of arrays
Batch: TypeAlias = Any  # a tree of arrays


class Task(NamedTuple):
    """What is trained.

    start
        The first state, from a key.
    batch
        The data of an iteration, by its number.
    step
        A pure function of key, state and batch, to a state and a number to watch.
    watched
        What that number is, in words.
    settings
        All that the weights depend on, for the card; a checkpoint of other settings is refused.
    finish
        The trained network, and its quality, from the last state.
    """

    start: Callable[[PRNGKey], State]
    batch: Callable[[int], Batch]
    step: Callable[[PRNGKey, State, Batch], tuple[State, Scalar]]
    watched: str
    settings: dict[str, Any]
    finish: Callable[[State], tuple[Any, dict[str, object]]]


class Training(NamedTuple):
    """The state of a training: network, optimiser, and persistent chains, if there are any."""

    model: Any
    optimiser: Any
    chains: Any = ()


def adam(rate: float, iterations: int) -> optax.GradientTransformation:
    """Adam with clipped gradients, and a rate that rises for a while and then falls to 0."""
    schedule = optax.warmup_cosine_decay_schedule(0.0, rate, iterations // 20, iterations)
    return optax.chain(optax.clip_by_global_norm(1.0), optax.adam(schedule, b1=0.9, b2=0.99))


def picks(seed: int, n: int, count: int, size: int) -> Int[np.ndarray, " batch"]:
    """The images of iteration n, which do not depend on the iterations before it."""
    return np.random.default_rng((seed, n)).integers(count, size=size)


def train(
    name: str,
    task: Task,
    iterations: int,
    folder: Path,
    *,
    seed: int = 0,
    resume: bool = False,
    every: int = 250,
    on_progress: Progress = silent,
) -> tuple[Any, dict[str, object]]:
    """Train, and return the network and its card; a checkpoint is written `every` iterations.

    With `resume` the run goes on from the checkpoint in `folder`, and ends as it would have.
    """
    folder.mkdir(parents=True, exist_ok=True)
    key = jax.random.key(seed)
    settings = {**task.settings, "seed": seed, "iterations": iterations}
    state, first, spent = task.start(key), 0, 0.0
    if resume:
        state, first, spent = _read(folder, name, settings, state)
    step = eqx.filter_jit(task.step)
    began = time.process_time()
    for n in range(first, iterations):
        state, watched = step(jax.random.fold_in(key, n), state, task.batch(n))
        if (n + 1) % every == 0 or n + 1 == iterations:
            seconds = spent + time.process_time() - began
            _write(folder, name, settings, state, n + 1, seconds)
        if (n + 1) % 10 == 0:
            on_progress(name, n + 1, iterations, f"{task.watched} {float(watched):.3f}")
    seconds = spent + time.process_time() - began
    model, quality = task.finish(state)
    card: dict[str, object] = {
        "name": name,
        "command": f"srmc train {name}" + (f" --seed {seed}" if seed else ""),
        "settings": settings,
        "processor_seconds": round(seconds),
        "quality": quality,
    }
    return model, card


def _write(
    folder: Path, name: str, settings: dict[str, Any], state: State, done: int, seconds: float
) -> None:
    """Write the checkpoint to a new file, which then takes the place of the old one."""
    head = {"settings": settings, "done": done, "seconds": seconds}
    partial = folder / f"{name}.partial"
    with partial.open("wb") as file:
        file.write(json.dumps(head).encode() + b"\n")
        eqx.tree_serialise_leaves(file, state)
    partial.replace(folder / f"{name}.checkpoint")


def _read(
    folder: Path, name: str, settings: dict[str, Any], like: State
) -> tuple[State, int, float]:
    path = folder / f"{name}.checkpoint"
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing; leave out --resume to begin a new run")
    with path.open("rb") as file:
        head = json.loads(file.readline())
        if head["settings"] != json.loads(json.dumps(settings)):
            raise ValueError(
                f"{path} must be of these settings, got {head['settings']}; leave out --resume to "
                "begin a new run"
            )
        return eqx.tree_deserialise_leaves(file, like), head["done"], head["seconds"]
