"""The end of a run: from what it kept to a result that is precise enough."""

import dataclasses
import functools
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from srmc._attempt import attempt
from srmc._progress import Show
from srmc._versions import versions
from srmc.coordinates import Coordinates
from srmc.models.problem import Problem
from srmc.rebalance.report import Report, as_record
from srmc.results.kept import Kept
from srmc.results.result import Result
from srmc.results.trouble import troubles
from srmc.sample.finish import How, rebalance_run
from srmc.sample.learning import described, in_model
from srmc.sample.looks import Aim
from srmc.sample.plan import Plan
from srmc.sample.precision import Look, look_at, missed
from srmc.sample.stop import Stop
from srmc.sample.task import dim_of, first_of
from srmc.sample.tune import Tuned, Tuner


class Ending(NamedTuple):
    """From what was kept of a run, of the `inner` problem, to its result."""

    problem: Problem
    inner: Problem
    coordinates: Coordinates | None
    plan: Plan
    tuner: Tuner
    tuned: Tuned
    lengths: tuple[int, ...]
    show: Show
    stop: Stop
    began: float

    def of(self, found: Iterator[tuple[Kept, int]], aim: Aim | None) -> Result:
        """The first result that is as precise as was asked for, or the last one."""
        seen: list[Look] = []
        for kept, done in found:
            told: list[str] = []
            end = functools.partial(self.at, kept, done)
            then = "the result has what the chains kept, and nothing else"
            whole = attempt("the end of the run", end, None, then, told)
            result = self._bare(kept, done, told) if whole is None else whole
            if aim is None or result.interrupted:
                break
            look = attempt(
                "the summary",
                functools.partial(look_at, result, aim),
                None,
                "it is not known whether target_error was reached, so that the run ended",
                result.about["warnings"],
            )
            if look is None:
                break
            seen.append(look)
            if look.met:
                break
        if aim is not None:
            result.about["settings"]["target_error"] = aim.errors
            result.about["looks"] = [look._asdict() for look in seen]
            if seen and not result.interrupted:
                result.about["warnings"] += missed(seen[-1], aim)
        return result

    def _bare(self, kept: Kept, done: int, told: list[str]) -> Result:
        """What was kept of a run whose end failed."""
        self.stop.at_once = False
        about = {"settings": {"model": self.problem.name}, "num_draws": done, "warnings": told}
        return Result(kept, about, interrupted=self.stop.signal is not None)

    def at(self, kept: Kept, done: int) -> Result:
        """The result of what was kept so far."""
        stop = self.stop
        length = next(n for n in self.lengths if n // self.plan.keep.thin >= done)
        plan = dataclasses.replace(self.plan, num_samples=length)
        reports: list[Report] = []
        known: list[str] = []
        stop.at_once = True
        if plan.rebalances(dim_of(self.tuned.positions)):
            last = self.show if stop.signal is None else stop.show  # a stop does not wait for this
            how, first = How.of(plan, self.tuner), first_of(self.tuned.positions)
            kept, reports, known = rebalance_run(self.inner, how, kept, first, last)
            if self.coordinates is not None:
                kept = in_model(self.coordinates, kept)
        elif plan.is_plain:
            kept = kept._replace(base=kept.draws)
        stop.at_once = False
        seconds = time.perf_counter() - self.began
        about = about_run(self.problem, plan, self.tuner, self.tuned, done, seconds)
        about["coordinates"] = described(self.coordinates)
        result = Result(
            kept=kept,
            about=about | {"rebalancing": [as_record(report) for report in reports]},
            shared_history=plan.shared_history,
            interrupted=done < plan.num_draws or stop.signal is not None,
            labels=self.problem.labels,
            problem=self.problem,
        )
        return diagnosed(result, known)


def diagnosed(result: Result, known: list[str]) -> Result:
    """The result with its warnings: those that are known, and those of the diagnostics."""
    result.about["warnings"] = known
    known += attempt(
        "diagnostics",
        lambda: troubles(result),
        [],
        "it is not known whether the chains have mixed",
        known,
    )
    return result


def about_run(
    problem: Problem, plan: Plan, tuner: Tuner, tuned: Tuned, done: int, seconds: float
) -> dict[str, Any]:
    """How a run was made, and what it cost."""
    loops = tuned.loop is not tuner.no_loop and bool(tuner.is_on(tuned.loop))
    measured = tuner.describe(tuned.loop) if loops else {}
    for name in ("step_size", "path_length"):
        if name in tuned.parameters:
            measured[name] = jnp.asarray(tuned.parameters[name])
    return {
        "settings": {"model": problem.name} | plan.settings(),
        "controlled": plan.controls,
        "measured": {k: float(x) for k, x in measured.items()},
        "versions": versions(),
        "double_precision": jnp.zeros(()).dtype == "float64",
        "num_draws": done,
        "steps": done * plan.keep.thin,
        "seconds": round(seconds, 3),
        "gradients_of_warmup": int(np.asarray(tuned.gradients)),
    }
