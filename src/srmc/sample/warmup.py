"""Warm-up of all chains: pilots are tuned, the rest follow, and a checkpoint stores the outcome."""

from typing import Any, NamedTuple

import jax
import numpy as np

from srmc._progress import Show, quiet
from srmc.coordinates import Coordinates
from srmc.coordinates.learned import arrays_of, from_arrays
from srmc.models.problem import Problem
from srmc.sample import learning, windows
from srmc.sample.checkpoint import Checkpoint
from srmc.sample.commits import written
from srmc.sample.plan import Plan
from srmc.sample.processes import of_all, together
from srmc.sample.settle import settle
from srmc.sample.stop import Stop
from srmc.sample.task import dim_of
from srmc.sample.tune import Tuned, Tuner, rule, tune
from srmc.sample.tune.continuous import check_step
from srmc.sample.tune.tuner import Alpha
from srmc.types import Position, PRNGKey


def warm_up(
    problem: Problem,
    plan: Plan,
    tuner: Tuner,
    rng_key: PRNGKey,
    positions: Position,
    store: Checkpoint | None,
    stop: Stop,
    show: Show = quiet,
) -> tuple[Tuned, Coordinates | None]:
    """Tune the chains, or load the tuned chains from the checkpoint; and the learned coordinates.

    If coordinates were learned, the positions that are returned are vectors in them.

    Every process tunes the same pilots on one device, so that all processes agree bit for bit. A
    signal raises KeyboardInterrupt; the run can then be resumed from its start.
    """
    found = None if store is None else together(store.load_warmup)
    is_known = bool(of_all(found is not None).all())
    if found is None or not is_known:
        warming = Warming(plan, tuner, stop, show)
        tuned, coordinates = warming.all_chains(problem, rng_key, positions)
        found = {
            "positions": _numbered(tuned.positions),
            "parameters": {k: np.asarray(v) for k, v in tuned.parameters.items()},
            "loop": _numbered(tuned.loop),
            "cost": {
                "gradients": np.asarray(tuned.gradients),
                "extra_gradients": np.asarray(tuned.extra_gradients),
            },
            "coordinates": {} if coordinates is None else arrays_of(coordinates),
        }
        if store is not None:
            outcome = found
            written(store, lambda: store.save_warmup(outcome))
    coordinates = None
    like_now = positions
    if found.get("coordinates"):
        names = learning.coordinate_names(positions)
        coordinates = from_arrays(found["coordinates"], names)
        like_now = np.zeros(0)  # vectors
    like = lambda tree, name: jax.tree.unflatten(jax.tree.structure(tree), found[name].values())
    tuned = Tuned(
        positions=like(like_now, "positions"),
        parameters=found.get("parameters", {}),
        loop=like(tuner.no_loop, "loop"),
        gradients=found["cost"]["gradients"],
        extra_gradients=int(found["cost"]["extra_gradients"]),
    )
    return tuned, coordinates


class Warming(NamedTuple):
    """What all stretches of a warm-up share."""

    plan: Plan
    tuner: Tuner
    stop: Stop
    show: Show

    def all_chains(
        self, problem: Problem, rng_key: PRNGKey, positions: Position
    ) -> tuple[Tuned, Coordinates | None]:
        """Warm up all chains, in the coordinates that a pilot shows if these are to be learned."""
        plan, names = self.plan, learning.coordinate_names(positions)
        if not learning.is_open(plan, dim_of(positions), self._goes_on(positions)):
            return self.tuned(problem, rng_key, positions, plan.num_warmup), None
        first, stretch, last = learning.lengths(plan.num_warmup)
        pilot, chains = self._pilot(problem, rng_key, positions, first, plan.num_warmup)
        found = learning.learned(plan, pilot, names)
        if found is None and chains is not None:
            chains = windows.go_on(chains, plan, plan.num_warmup, self.stop, self.show)
            return _checked(windows.adapted(chains, plan, self.tuner)), None
        keys = (jax.random.fold_in(rng_key, n) for n in (1, 2))
        spent = pilot.gradients
        if found is not None and stretch:
            inner = learning.in_coordinates(problem, found, positions)
            start = learning.moved(found, pilot.positions)
            pilot, _ = self._pilot(inner, next(keys), start, stretch, stretch)
            spent += pilot.gradients
            pilot = learning.as_pilot(found, pilot, positions)
            found = learning.learned(plan, pilot, names) or found
        if found is None:
            tuned = self.tuned(problem, next(keys), pilot.positions, last + stretch)
        else:
            inner = learning.in_coordinates(problem, found, positions)
            start = learning.moved(found, pilot.positions)
            tuned = self.tuned(inner, next(keys), start, last)
        return tuned._replace(gradients=np.asarray(tuned.gradients) + spent), found

    def tuned(
        self, problem: Problem, rng_key: PRNGKey, positions: Position, num_steps: int
    ) -> Tuned:
        """Warm up all chains, in the program that samples them if that can be done."""
        plan, tuner, stop, show = self
        if windows.is_shared(plan, dim_of(positions)):
            chains = windows.adapting(problem, plan, tuner, rng_key, positions, num_steps)
            chains = windows.go_on(chains, plan, num_steps, stop, show)
            return _checked(windows.adapted(chains, plan, tuner))
        pilots, rest = _pilots_and_rest(positions)
        tuned = tune(
            tuner,
            problem.logdensity_fn,
            rng_key,
            pilots,
            num_warmup=num_steps,
            num_samples=plan.num_samples,
            alpha=_strength(problem, plan, tuner, positions),
            together=plan.num_chains if plan.shared_history else 1,
        )
        show("warm-up", 0, None, f"{plan.num_warmup} steps")  # compiled by now
        stop.wait_for(tuned)
        half = num_steps // 2
        tuned = _checked(tuned)
        return settle(tuner, problem.logdensity_fn, rng_key, tuned, rest, half, stop)

    def _goes_on(self, positions: Position) -> bool:
        """Whether a pilot is the beginning of the warm-up, which just goes on if it shows nothing.

        Its program records draws and scores.
        """
        dim = dim_of(positions)
        return windows.is_shared(self.plan, dim) and self.plan.rebalances(dim)

    def _pilot(
        self,
        problem: Problem,
        rng_key: PRNGKey,
        positions: Position,
        num_steps: int,
        whole: int,
    ) -> tuple[learning.Pilot, windows.Adapting | None]:
        """Run the first `num_steps` of `whole` warm-up steps, whose second half is the pilot.

        Chains are returned, too, if their warm-up can go on.
        """
        plan, tuner, stop, show = self
        if self._goes_on(positions):
            chains = windows.adapting(problem, plan, tuner, rng_key, positions, whole)
            chains = windows.go_on(chains, plan, num_steps, stop, show, num_steps // 2)
            assert chains.draws is not None
            assert chains.scores is not None
            seen = chains.draws, chains.scores
            return learning.Pilot(*seen, windows.positions_of(chains), chains.spent), chains
        pilots, rest = _pilots_and_rest(positions)
        warmup = tuner.adapt(problem.logdensity_fn, rng_key, pilots, num_steps)
        stop.wait_for(warmup.draws)
        join = lambda a, b: np.concatenate([np.asarray(a), np.asarray(b)])
        last = jax.tree.map(join, warmup.positions, rest)
        seen = np.asarray(warmup.draws), np.asarray(warmup.features)
        return learning.Pilot(*seen, last, int(np.asarray(warmup.gradients))), None


def _pilots_and_rest(positions: Position) -> tuple[Position, Position]:
    pilots, rest = (
        jax.tree.map(lambda x, s=side: x[s], positions)
        for side in (slice(rule.NUM_PILOTS), slice(rule.NUM_PILOTS, None))
    )
    return pilots, rest


def _checked(tuned: Tuned) -> Tuned:
    """What was found, if there is a step size."""
    if "step_size" in tuned.parameters:
        check_step(tuned.parameters["step_size"])
    return tuned


def _strength(problem: Problem, plan: Plan, tuner: Tuner, positions: Position) -> Alpha:
    """The strength to tune for: none, if draws are rebalanced or the features are biased."""
    first = jax.tree.map(lambda x: x[0], positions)
    is_open = plan.is_auto and plan.repellence is None
    if plan.controls or plan.rebalances(dim_of(positions)):
        return 0.0
    return 0.0 if is_open and tuner.is_biased(problem.logdensity_fn, first) else plan.alpha


def _numbered(tree: Any) -> dict[str, np.ndarray]:
    return {str(n): np.asarray(x) for n, x in enumerate(jax.tree.leaves(tree))}
