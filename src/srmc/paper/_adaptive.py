"""The paper's rules for alpha, as settings of one program."""

from typing import Any

import jax.numpy as jnp
import numpy as np

import srmc
from srmc.paper._problems import Errors, Problem, measure

RULES = {"fixed": lambda a, *_: srmc.fixed(a), "capped": srmc.capped, "guarded": srmc.guarded}


def _one_of(which: Any, strengths: list[srmc.Strength]) -> srmc.Strength:
    """The schedule that a traced number says."""
    pick = lambda values: jnp.select([which == n for n in range(len(values))], values)

    def init():
        first, states = zip(*(s.init() for s in strengths), strict=True)
        return pick(first), states

    def update(states, seen):
        pairs = zip(strengths, states, strict=True)
        now, states = zip(*(s.update(state, seen) for s, state in pairs), strict=True)
        return pick(now), states

    return srmc.Strength(init, update)


def measure_rules(
    problem: Problem, fixed: tuple, adaptive: tuple, *, on_block: Any, **options: Any
) -> tuple[dict[tuple[str, float], int], Errors]:
    """Errors for fixed alphas, and for capped and guarded ones; and where each is found.

    The guard sorts a window at each step, so that it is worth a program of its own if runs are
    long.
    """
    groups = [list(RULES)] if options["light"] else [["fixed", "capped"], ["guarded"]]
    names: list[tuple[str, float]] = []
    parts: list[Errors] = []
    for group in groups:
        mine = [(rule, a) for rule in group for a in (fixed if rule == "fixed" else adaptive)]
        numbers = [[group.index(rule) for rule, _ in mine], [a for _, a in mine]]

        def build(setting, group=group):
            limits = (setting[1], options["steps"], problem.leapfrogs)
            return srmc.paper_settings(_one_of(setting[0], [RULES[r](*limits) for r in group]))

        done = len(parts) * options["blocks"]
        tell = lambda n, done=done: on_block(done + n)
        settings = tuple(jnp.array(x) for x in numbers)
        parts.append(measure(problem, build, settings, on_block=tell, **options))
        names += mine
    per_setting = ("errors", "gradients", "acceptance", "alpha", "exponent")
    joined: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts]) for name in per_setting
    }
    return {name: k for k, name in enumerate(names)}, parts[0]._replace(**joined)
