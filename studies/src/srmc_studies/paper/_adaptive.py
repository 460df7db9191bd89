"""The paper's rules for alpha, compared in one compiled program."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax.numpy as jnp
import numpy as np

import srmc
from srmc.repel import Seen, Strength
from srmc.types import Array, Float, Int, Scalar
from srmc_studies.paper._chains import Number, Trial
from srmc_studies.paper._derivatives import settings
from srmc_studies.paper._problems import Errors, Problem, RepelOptions, measure
from srmc_studies.paper._progress import OnBlock, later

Rule: TypeAlias = tuple[str, float]  # the name of a rule, and its nominal alpha
RULES: dict[str, Callable[..., Strength]] = {
    "fixed": lambda alpha, num_steps, leapfrogs: srmc.fixed(alpha),
    "capped": srmc.capped,
    "guarded": functools.partial(srmc.guarded, safe="step"),
    "guarded by window": functools.partial(srmc.guarded, safe="window"),
}
GUARDED = [rule for rule in RULES if rule.startswith("guarded")]


class RuleErrors(NamedTuple):
    """Errors under several rules.

    `settings` has the setting of each rule in them, and `seconds` its processor time per step.
    """

    settings: dict[Rule, int]
    errors: Errors
    seconds: dict[str, float]

    def last(self, rule: str, alpha: float, view: str = "steps") -> Float[np.ndarray, " replicate"]:
        """Errors at the end of the run, or when the processor time of fixed alpha is spent."""
        steps = self.errors.steps
        if view == "processor time":
            slower = max(1.0, self.seconds[rule] / self.seconds["fixed"])
            point = max(1, int(np.sum(steps * slower <= steps[-1] * (1 + 1e-6))))
        else:
            point = len(steps)
        errors: Float[np.ndarray, " replicate"]
        errors = self.errors.errors[self.settings[rule, alpha]][:, point - 1]
        return errors


def _one_of(which: Int[Array, ""], strengths: Sequence[Strength]) -> Strength:
    """The schedule whose number is `which`, a traced integer."""

    def pick(values: Sequence[Scalar]) -> Scalar:
        return jnp.select([which == n for n in range(len(values))], values)

    def init() -> tuple[Scalar, tuple[Any, ...]]:
        first, states = zip(*(s.init() for s in strengths), strict=True)
        return pick(first), states

    def update(states: tuple[Any, ...], seen: Seen) -> tuple[Scalar, tuple[Any, ...]]:
        pairs = zip(strengths, states, strict=True)
        now, states = zip(*(s.update(state, seen) for s, state in pairs), strict=True)
        return pick(now), states

    return Strength(init, update)


def measure_rules(
    problem: Problem,
    fixed: Sequence[float],
    adaptive: Sequence[float],
    trial: Trial,
    on_block: OnBlock,
    derivative: str = "exact",
    scale: float = 1.0,
) -> RuleErrors:
    """Measure the errors of fixed, capped and guarded alphas under one derivative rule and gain.

    A guard sorts a window at each step and slows down all rules that run beside it, so in long
    runs both readings of it have a program of their own.
    """
    groups = [list(RULES)] if trial.light else [["fixed", "capped"], GUARDED]
    rules: list[Rule] = []
    parts: list[Errors] = []
    seconds: dict[str, float] = {}
    for group in groups:
        mine = [(rule, a) for rule in group for a in (fixed if rule == "fixed" else adaptive)]
        tell = later(on_block, len(parts) * trial.blocks)
        parts.append(_measure_group(problem, mine, derivative, scale, trial, tell))
        rules += mine
        seconds |= dict.fromkeys(group, parts[-1].seconds)
    joined = parts[0]._replace(
        errors=np.concatenate([part.errors for part in parts]),
        gradients=np.concatenate([part.gradients for part in parts]),
        acceptance=np.concatenate([part.acceptance for part in parts]),
        alpha=np.concatenate([part.alpha for part in parts]),
        exponent=np.concatenate([part.exponent for part in parts]),
    )
    return RuleErrors({rule: k for k, rule in enumerate(rules)}, joined, seconds)


def _measure_group(
    problem: Problem,
    rules: list[Rule],
    derivative: str,
    scale: float,
    trial: Trial,
    on_block: OnBlock,
) -> Errors:
    """Measure rules that run in one program."""
    group = list(dict.fromkeys(rule for rule, _ in rules))

    def options(setting: tuple[Int[Array, ""], Number]) -> RepelOptions:
        which, alpha = setting
        strengths = [RULES[r](alpha, trial.steps, problem.leapfrogs) for r in group]
        return settings(_one_of(which, strengths), derivative) | {"gain": srmc.gain(scale=scale)}

    which = jnp.array([group.index(rule) for rule, _ in rules])
    alphas = jnp.array([alpha for _, alpha in rules])
    return measure(problem, options, (which, alphas), trial, on_block)
