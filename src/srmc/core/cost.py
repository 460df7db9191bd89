"""What a kernel spends: calls of its log density, found in the kernel's own trace.

A stand-in log density leaves marks in the jaxpr of one step, so that the count needs nothing of
the kernel but its trace, and costs the user's log density nothing. Of a conditional the costlier
branch counts.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr

PyTree = Any

_VALUE, _GRADIENT = "srmc_value", "srmc_gradient"


class Calls(NamedTuple):
    """Calls in a step: plain values and gradients, outside loops and in each round of a loop."""

    values: int = 0
    gradients: int = 0
    values_a_round: int = 0
    gradients_a_round: int = 0

    def __add__(self, other):
        return Calls(*(a + b for a, b in zip(self, other, strict=True)))

    @property
    def loops(self) -> bool:
        return self.values_a_round + self.gradients_a_round > 0

    def times(self, n: int) -> "Calls":
        return Calls(*(n * a for a in self))

    def in_loop(self) -> "Calls":
        rounds = self.values_a_round + self.values, self.gradients_a_round + self.gradients
        return Calls(0, 0, *rounds)


def count_calls(build: Callable, rng_key: jax.Array, state: Any) -> Calls:
    """The calls that one step of `build(logdensity_fn)` makes of its log density."""
    dtype = getattr(getattr(state, "logdensity", None), "dtype", float)

    def srmc_value(x):
        return jnp.asarray(sum(jnp.sum(leaf) for leaf in jax.tree.leaves(x)), dtype)

    def srmc_gradient(x, x_dot):
        return srmc_value(x), srmc_value(x_dot)

    @jax.custom_jvp
    def logdensity(x):
        return jax.jit(srmc_value)(x)

    @logdensity.defjvp
    def logdensity_jvp(primals, tangents):
        out, _ = jax.jit(srmc_gradient)(primals[0], primals[0])
        return out, srmc_value(tangents[0])

    one = jax.tree.leaves(state.position)[0].size
    return _calls(jax.make_jaxpr(build(logdensity).step)(rng_key, state).jaxpr, one)


def _calls(jaxpr: Jaxpr, one: int) -> Calls:
    """The calls in a jaxpr; `one` is the size of the first leaf of a position, unbatched."""
    total = Calls()
    for eqn in jaxpr.eqns:
        name = eqn.params.get("name")
        inner = [_calls(sub, one) for sub in _subjaxprs(eqn.params)]
        if name == _VALUE:
            total += Calls(values=_size(eqn.invars[0]) // one)
        elif name == _GRADIENT:
            total += Calls(gradients=_size(eqn.invars[0]) // one)
        elif eqn.primitive.name == "cond":
            total += Calls(*map(max, zip(*inner, strict=True)))
        elif eqn.primitive.name == "scan":
            total += sum(inner, Calls()).times(eqn.params["length"])
        elif eqn.primitive.name == "while":
            total += sum(inner, Calls()).in_loop()
        else:
            total += sum(inner, Calls())
    return total


def _size(variable: Any) -> int:
    return variable.aval.size


def _subjaxprs(params: dict):
    for value in params.values():
        for item in value if isinstance(value, tuple | list) else (value,):
            if isinstance(item, ClosedJaxpr):
                yield item.jaxpr
            elif isinstance(item, Jaxpr):
                yield item
