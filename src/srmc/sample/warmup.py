"""Warm-up of all chains: the first are tuned, others follow, a checkpoint stores the outcome."""

import warnings
from typing import Any

import jax
import numpy as np

from srmc._programs import over_rows, parted
from srmc.coordinates import Coordinates
from srmc.coordinates.learned import arrays_of, from_arrays
from srmc.repel.state import RepelState
from srmc.sample import learning, windows
from srmc.sample.checkpoint import Checkpoint
from srmc.sample.devices import lay_out, of_all, together
from srmc.sample.keep import written
from srmc.sample.loop import Parameters, Task, chunks, start
from srmc.sample.task import Call, dim_of, first_of, plain_builder
from srmc.sample.tune import rule
from srmc.sample.tune.continuous import Continuous, check_step
from srmc.sample.tune.tuner import Alpha, Tuned, tune
from srmc.types import LogDensity, Position, PRNGKey

PARTS = 20  # chunks of a follower's warm-up; signals are checked between chunks


def warm_up(
    call: Call, rng_key: PRNGKey, positions: Position, store: Checkpoint | None
) -> tuple[Tuned, Coordinates | None]:
    """Tune the chains, or load the tuned chains from the checkpoint; and the learned coordinates.

    If coordinates were learned, the positions that are returned are vectors in them.

    Every process tunes the same chains on one device, so that all processes agree bit for bit. A
    signal raises KeyboardInterrupt; the run can then be resumed from its start.
    """
    found = None if store is None else together(store.load_warmup)
    is_known = bool(of_all(found is not None).all())
    if found is None or not is_known:
        tuned, coordinates = _all_chains(call, rng_key, positions)
        found = {
            "positions": _numbered(tuned.positions),
            "parameters": {k: np.asarray(v) for k, v in tuned.parameters.items()},
            "loop": _numbered(tuned.loop),
            "cost": {k: np.asarray(getattr(tuned, k)) for k in ("gradients", "extra_gradients")},
            "coordinates": {} if coordinates is None else arrays_of(coordinates),
        }
        if store is not None:
            outcome = found
            written(store, lambda: store.save_warmup(outcome))
    coordinates = None
    like_now = positions
    if found.get("coordinates"):
        coordinates = from_arrays(found["coordinates"], learning.coordinate_names(positions))
        like_now = np.zeros(0)  # vectors
    like = lambda tree, name: jax.tree.unflatten(jax.tree.structure(tree), found[name].values())
    tuned = Tuned(
        positions=like(like_now, "positions"),
        parameters=found.get("parameters", {}),
        loop=like(call.tuner.no_loop, "loop"),
        gradients=found["cost"]["gradients"],
        extra_gradients=int(found["cost"]["extra_gradients"]),
    )
    return tuned, coordinates


def _all_chains(
    call: Call, rng_key: PRNGKey, positions: Position
) -> tuple[Tuned, Coordinates | None]:
    """Warm up all chains, in the coordinates that a pilot shows if these are to be learned."""
    plan, names = call.plan, learning.coordinate_names(positions)
    if not learning.is_open(plan, dim_of(positions), _goes_on(call, positions)):
        return _tuned(call, rng_key, positions, plan.num_warmup), None
    first, stretch, last = learning.lengths(plan.num_warmup)
    pilot, chains = _pilot(call, rng_key, positions, first, plan.num_warmup)
    found = learning.learned(plan, pilot, names)
    if found is None and chains is not None:
        chains = windows.go_on(call, chains, plan.num_warmup)
        return _checked(windows.adapted(call, chains)), None
    keys = (jax.random.fold_in(rng_key, n) for n in (1, 2))
    spent = pilot.gradients
    if found is not None and stretch:
        inner = call._replace(problem=learning.in_coordinates(call.problem, found, positions))
        begin = learning.moved(found, pilot.positions)
        pilot, _ = _pilot(inner, next(keys), begin, stretch, stretch)
        spent += pilot.gradients
        pilot = learning.as_pilot(found, pilot, positions)
        found = learning.learned(plan, pilot, names) or found
    if found is None:
        tuned = _tuned(call, next(keys), pilot.positions, last + stretch)
    else:
        inner = call._replace(problem=learning.in_coordinates(call.problem, found, positions))
        tuned = _tuned(inner, next(keys), learning.moved(found, pilot.positions), last)
    return tuned._replace(gradients=np.asarray(tuned.gradients) + spent), found


def _tuned(call: Call, rng_key: PRNGKey, positions: Position, num_steps: int) -> Tuned:
    """Warm up all chains, in the program that samples them if that can be done."""
    plan = call.plan
    if windows.is_shared(plan, dim_of(positions)):
        chains = windows.adapting(call, rng_key, positions, num_steps)
        return _checked(windows.adapted(call, windows.go_on(call, chains, num_steps)))
    first, rest = _first_and_rest(positions)
    tuned = tune(
        call.tuner,
        call.problem.logdensity_fn,
        rng_key,
        first,
        num_warmup=num_steps,
        num_samples=plan.num_samples,
        alpha=_strength(call, positions),
        together=plan.num_chains if plan.shared_history else 1,
    )
    call.show("warm-up", 0, None, f"{plan.num_warmup} steps")  # compiled by now
    call.stop.wait_for(tuned)
    return _settled(call, rng_key, _checked(tuned), rest, num_steps // 2)


def _goes_on(call: Call, positions: Position) -> bool:
    """Whether a pilot is the beginning of the warm-up, which just goes on if it shows nothing.

    Its program records draws and scores.
    """
    dim = dim_of(positions)
    return windows.is_shared(call.plan, dim) and call.plan.rebalances(dim)


def _pilot(
    call: Call, rng_key: PRNGKey, positions: Position, num_steps: int, whole: int
) -> tuple[learning.Pilot, windows.Adapting | None]:
    """Run the first `num_steps` of `whole` warm-up steps, whose second half is the pilot.

    Chains are returned, too, if their warm-up can go on.
    """
    if _goes_on(call, positions):
        chains = windows.adapting(call, rng_key, positions, whole)
        chains = windows.go_on(call, chains, num_steps, num_steps // 2)
        assert chains.draws is not None
        assert chains.scores is not None
        seen = chains.draws, chains.scores
        return learning.Pilot(*seen, windows.positions_of(chains), chains.spent), chains
    first, rest = _first_and_rest(positions)
    warmup = call.tuner.adapt(call.problem.logdensity_fn, rng_key, first, num_steps)
    call.stop.wait_for(warmup.draws)
    join = lambda a, b: np.concatenate([np.asarray(a), np.asarray(b)])
    last = jax.tree.map(join, warmup.positions, rest)
    seen = np.asarray(warmup.draws), np.asarray(warmup.features)
    return learning.Pilot(*seen, last, int(np.asarray(warmup.gradients))), None


def _first_and_rest(positions: Position) -> tuple[Position, Position]:
    """The chains that are tuned, and those that follow with the parameters found."""
    first, rest = (
        jax.tree.map(lambda x, s=side: x[s], positions)
        for side in (slice(rule.NUM_PILOTS), slice(rule.NUM_PILOTS, None))
    )
    return first, rest


def _checked(tuned: Tuned) -> Tuned:
    """What was found, if there is a step size."""
    if "step_size" in tuned.parameters:
        check_step(tuned.parameters["step_size"])
    return tuned


def _strength(call: Call, positions: Position) -> Alpha:
    """The strength to tune for: none, if draws are rebalanced or the features are biased."""
    plan, logdensity_fn = call.plan, call.problem.logdensity_fn
    if plan.controls or plan.rebalances(dim_of(positions)):
        return 0.0
    is_open = plan.is_auto and plan.repellence is None
    biased = is_open and call.tuner.is_biased(logdensity_fn, first_of(positions))
    return 0.0 if biased else plan.alpha


def _numbered(tree: Any) -> dict[str, np.ndarray]:
    return {str(n): np.asarray(x) for n, x in enumerate(jax.tree.leaves(tree))}


def _settled(call: Call, rng_key: PRNGKey, tuned: Tuned, rest: Position, num_steps: int) -> Tuned:
    """Add the `rest` of the chains to the tuned ones, after `num_steps` of the plain kernel."""
    count = len(jax.tree.leaves(rest)[0])
    if count == 0:
        return tuned
    parameters = {k: np.asarray(v) for k, v in tuned.parameters.items()}
    code, data = parted(call.problem.logdensity_fn)
    build, given = plain_builder(call.tuner, code), Parameters(parameters, data)
    layout = lay_out(count, False, data)
    parts = max(n for n in range(1, PARTS + 1) if num_steps % n == 0)
    task = Task(build, given, rng_key, layout, _position, num_steps // parts)
    spent = np.zeros(sum(map(len, layout.chains)), int)
    for chunk in chunks(task, start(task, rng_key, rest), parts):
        call.stop.wait_for(())
        last, spent = chunk.recorded, spent + chunk.stats.gradients.sum(axis=0)
    followed, gradients = layout.of_all_processes((jax.tree.map(lambda x: x[-1], last), spent))
    if isinstance(call.tuner, Continuous):
        followed = _not_left_behind(call.problem.logdensity_fn, tuned.positions, followed)
    join = lambda a, b: np.concatenate([np.asarray(a), b])
    return tuned._replace(
        positions=jax.tree.map(join, tuned.positions, followed),
        gradients=np.asarray(tuned.gradients) + int(np.sum(gradients)),
    )


def _position(_: Any, state: RepelState) -> Position:
    return state.position


def _not_left_behind(logdensity_fn: LogDensity, tuned: Position, followed: Position) -> Position:
    """Move chains whose density is below exp(-10 - d) of the tuned chains' to tuned positions.

    The tuned chains found their step size at their own starting points; at another starting point,
    a chain with that step size may accept nothing.
    """
    density = over_rows(logdensity_fn)
    leaves = jax.tree.leaves(tuned)
    dim, count = sum(leaf[0].size for leaf in leaves), len(leaves[0])
    behind = ~np.asarray(density(followed) > np.min(density(tuned)) - 10 - dim)
    if not np.any(behind):
        return followed
    warnings.warn(
        f"{behind.sum()} of the chains were stuck at their initial_position; they continue from "
        "the positions that other chains have reached after warm-up",
        stacklevel=4,
    )
    others = np.arange(len(behind)) % count
    mend = lambda own, theirs: np.where(
        behind.reshape(-1, *[1] * (own.ndim - 1)), np.asarray(theirs)[others], own
    )
    return jax.tree.map(mend, followed, tuned)
