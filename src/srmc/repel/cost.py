"""The cost of a kernel: how often one step evaluates its log density, read off its trace.

A stand-in log density leaves marks in the jaxpr of a step, so the count needs nothing from the
kernel but its trace and never evaluates the user's log density. A conditional counts as its
costlier branch.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from blackjax.base import SamplingAlgorithm

from srmc.types import KernelState, LogDensity, Position, PRNGKey, Scalar

if TYPE_CHECKING:
    from jax.extend.core import Jaxpr, JaxprEqn

_VALUE, _GRADIENT = "srmc_value", "srmc_gradient"


class Calls(NamedTuple):
    """The values and gradients that a step evaluates, outside loops and per round of a loop."""

    values: int = 0
    gradients: int = 0
    values_per_round: int = 0
    gradients_per_round: int = 0

    @property
    def loops(self) -> bool:
        """Whether any of the calls are made in a loop of unknown length."""
        return self.values_per_round + self.gradients_per_round > 0

    def times(self, n: int) -> "Calls":
        """The calls of n repetitions."""
        return Calls(*(n * count for count in self))

    def in_loop(self) -> "Calls":
        """The same calls, made in each round of a loop."""
        return Calls(
            values_per_round=self.values_per_round + self.values,
            gradients_per_round=self.gradients_per_round + self.gradients,
        )


def count_calls(
    build: Callable[[LogDensity], SamplingAlgorithm], rng_key: PRNGKey, state: KernelState
) -> Calls:
    """The calls that one step of `build(logdensity_fn)` makes to its log density."""
    dtype = getattr(getattr(state, "logdensity", None), "dtype", float)

    def srmc_value(x: Position) -> Scalar:
        return jnp.asarray(sum(jnp.sum(leaf) for leaf in jax.tree.leaves(x)), dtype)

    def srmc_gradient(x: Position, x_dot: Position) -> tuple[Scalar, Scalar]:
        return srmc_value(x), srmc_value(x_dot)

    @jax.custom_jvp
    def logdensity(x: Position) -> Scalar:
        value: Scalar = jax.jit(srmc_value)(x)
        return value

    @logdensity.defjvp
    def logdensity_jvp(
        primals: tuple[Position], tangents: tuple[Position]
    ) -> tuple[Scalar, Scalar]:
        out, _ = jax.jit(srmc_gradient)(primals[0], primals[0])
        return out, srmc_value(tangents[0])

    unit = jax.tree.leaves(state.position)[0].size
    return _calls(jax.make_jaxpr(build(logdensity).step)(rng_key, state).jaxpr, unit)


def _calls(jaxpr: "Jaxpr", unit: int) -> Calls:
    """The calls in a jaxpr; `unit` is the size of a position's first leaf without batching."""
    return _combine(sum, (_equation_calls(eqn, unit) for eqn in jaxpr.eqns))


def _equation_calls(eqn: "JaxprEqn", unit: int) -> Calls:
    name, primitive = eqn.params.get("name"), eqn.primitive.name
    if name == _VALUE:
        return Calls(values=_size(eqn.invars[0]) // unit)
    if name == _GRADIENT:
        return Calls(gradients=_size(eqn.invars[0]) // unit)
    inner = [_calls(jaxpr, unit) for jaxpr in _subjaxprs(eqn.params)]
    if primitive == "cond":
        return _combine(max, inner)
    total = _combine(sum, inner)
    if primitive == "scan":
        return total.times(eqn.params["length"])
    return total.in_loop() if primitive == "while" else total


def _combine(how: Callable[[Iterable[int]], int], calls: Iterable[Calls]) -> Calls:
    """The entrywise sum or maximum."""
    return Calls(*map(how, zip(Calls(), *calls, strict=True)))


def _size(variable: Any) -> int:
    return int(variable.aval.size)


def _subjaxprs(params: dict[str, Any]) -> Iterator["Jaxpr"]:
    from jax.extend.core import ClosedJaxpr, Jaxpr  # which takes a while to import

    for value in params.values():
        for item in value if isinstance(value, tuple | list) else (value,):
            if isinstance(item, ClosedJaxpr):
                yield item.jaxpr
            elif isinstance(item, Jaxpr):
                yield item
