"""The paper's rules for alpha, as settings of one program."""

from typing import Any

import jax.numpy as jnp
import numpy as np

import srmc
from srmc.paper._problems import Errors, Problem, measure

RULES = ("fixed", "capped", "guarded")


def _fixed_or_capped(capped: Any, alpha: Any, steps: int, leapfrogs: int) -> srmc.Strength:
    """The fixed or the capped rule, whichever a traced number says."""
    rules = (srmc.fixed(alpha), srmc.capped(alpha, steps, leapfrogs))

    def init():
        first, states = zip(*(rule.init() for rule in rules), strict=True)
        return jnp.where(capped, *reversed(first)), states

    def update(states, seen):
        now, states = zip(
            *(rule.update(state, seen) for rule, state in zip(rules, states, strict=True)),
            strict=True,
        )
        return jnp.where(capped, *reversed(now)), states

    return srmc.Strength(init, update)


def measure_rules(
    problem: Problem, fixed: tuple, adaptive: tuple, *, on_block: Any, **options: Any
) -> tuple[dict[tuple[str, float], int], Errors]:
    """Errors for fixed alphas, and for capped and guarded ones; and where each is found."""
    steps, blocks = options["steps"], options["blocks"]
    both = [(0.0, a) for a in fixed] + [(1.0, a) for a in adaptive]
    first = measure(
        problem,
        lambda s: srmc.paper_settings(_fixed_or_capped(s[0] > 0, s[1], steps, problem.leapfrogs)),
        tuple(jnp.array(x) for x in zip(*both, strict=True)),
        on_block=on_block,
        **options,
    )
    second = measure(
        problem,
        lambda a: srmc.paper_settings(srmc.guarded(a, steps, problem.leapfrogs)),
        jnp.array(adaptive),
        on_block=lambda n: on_block(blocks + n),
        **options,
    )
    joined: dict[str, Any] = {
        name: np.concatenate([getattr(first, name), getattr(second, name)])
        for name in ("errors", "gradients", "acceptance", "alpha", "exponent")
    }
    names = [("fixed", a) for a in fixed]
    names += [(rule, a) for rule in RULES[1:] for a in adaptive]
    return {name: k for k, name in enumerate(names)}, first._replace(**joined)
