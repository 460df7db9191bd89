"""The base kernel: any BlackJAX algorithm, seen as a function of a target that may move.

Its cost, the number of values and gradients of the log density per step, is counted in the trace
of a step with a stand-in log density, so that the user's is never evaluated. A conditional counts
as its costlier branch.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import optax
from blackjax.base import SamplingAlgorithm
from jax.tree_util import register_dataclass

from srmc._checks import as_numbers, check_call, check_count, check_number, is_concrete, short
from srmc.repel.target import all_finite
from srmc.types import (
    Array,
    Bool,
    Int,
    KernelInfo,
    KernelState,
    LogDensity,
    Position,
    PRNGKey,
    Scalar,
)

if TYPE_CHECKING:
    from jax.extend.core import Jaxpr, JaxprEqn

# Kernels that take the log likelihood, whose score does not have mean zero under the posterior.
_PARTIAL_TARGET = (blackjax.elliptical_slice, blackjax.mgrad_gaussian)
# Kernels that take gradients in loops other than those that `num_integration_steps` counts.
_UNCOUNTED = (blackjax.gist_step_size, blackjax.gist_trajectory_length)


def caches(state: KernelState, name: str) -> bool:
    """Whether a kernel caches this about the target, at the position of its state."""
    return name in getattr(state, "_fields", ()) and getattr(state, name) is not None


def as_algorithm(algorithm: Callable[..., Any], built: Any) -> SamplingAlgorithm:
    """What the function of a kernel returned, which must have the form of BlackJAX."""
    if not (callable(getattr(built, "init", None)) and callable(getattr(built, "step", None))):
        raise TypeError(
            f"kernel {kernel_name(inspect.unwrap(algorithm))} must return a "
            f"blackjax.SamplingAlgorithm, with init and step, got {short(built)}"
        )
    found: SamplingAlgorithm = built
    return found


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Kernel:
    """A kernel without its target, which is an argument of every method instead."""

    algorithm: Callable[..., SamplingAlgorithm] = dataclasses.field(metadata={"static": True})
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    _calls: dict[Hashable, "Calls"] = dataclasses.field(
        default_factory=dict, compare=False, metadata={"static": True}
    )

    @property
    def _core(self) -> Callable[..., Any]:
        core: Callable[..., Any] = inspect.unwrap(self.algorithm)
        return core

    @property
    def name(self) -> str:
        return kernel_name(self._core)

    def _build(self, logdensity_fn: LogDensity) -> SamplingAlgorithm:
        built = self.algorithm(logdensity_fn, *self.args, **self.kwargs)
        return as_algorithm(self.algorithm, built)

    def init(
        self,
        logdensity_fn: LogDensity,
        position: Position,
        rng_key: PRNGKey | None,
        needs_gradient: bool = False,
    ) -> KernelState:
        """The kernel's state at a position."""
        given = _check_arguments(self.name, self._core, self.args, self.kwargs)
        _check_shapes(given, optax.tree.size(position))
        init = self._build(logdensity_fn).init
        takes_key = len(inspect.signature(init).parameters) > 1
        try:
            state = init(position, rng_key) if takes_key and rng_key is not None else init(position)
        except TypeError as error:
            if rng_key is None and takes_key:
                raise TypeError(f"kernel {self.name} needs init(position, rng_key)") from error
            raise
        if not (hasattr(state, "_replace") and hasattr(state, "position")):
            raise TypeError(
                f"kernel {self.name} cannot be repelled: its state must be a NamedTuple with a "
                f"field `position`, got {type(state).__name__}"
            )
        if needs_gradient and not caches(state, "logdensity_grad"):
            raise ValueError(
                f"feedback_every must be 1 for kernel {self.name}, which caches no gradient; "
                "use history_every"
            )
        return jax.tree.map(jnp.asarray, state)

    def step(
        self, logdensity_fn: LogDensity, rng_key: PRNGKey, state: KernelState
    ) -> tuple[KernelState, KernelInfo, Bool[Array, ""]]:
        """One transition: the new state, the kernel's report, and whether all of it was finite.

        A part of the state that is not finite keeps its old value; the position does so together
        with everything cached about it.
        """
        return _kept(state, *self._build(logdensity_fn).step(rng_key, state))

    def split_step(
        self, transition: Callable[..., Any], target: Any, rng_key: PRNGKey, state: KernelState
    ) -> tuple[KernelState, KernelInfo, Bool[Array, ""]]:
        """The same by a transition that takes its target in two parts; see `frames.TwoPart`."""
        return _kept(state, *transition(rng_key, state, target, *self.args, **self.kwargs))

    def rescore(self, logdensity_fn: LogDensity, state: KernelState) -> KernelState:
        """The state with everything it caches about the target evaluated again."""
        built = self._build(logdensity_fn)
        if hasattr(built, "rescore"):  # it is itself repelled, and bends this target once more
            return built.rescore(state)
        if caches(state, "logdensity_grad"):
            value, gradient = jax.value_and_grad(logdensity_fn)(state.position)
            return state._replace(logdensity=value, logdensity_grad=gradient)
        if caches(state, "logdensity"):
            return state._replace(logdensity=logdensity_fn(state.position))
        if hasattr(state, "inner_state"):
            return state._replace(inner_state=self.rescore(logdensity_fn, state.inner_state))
        return state

    def carry(self, state: KernelState, move: Callable[[Position], Position]) -> KernelState:
        """The state moved elsewhere; what it caches about the target is left for `rescore`."""
        new = {"position": move(state.position)}
        if hasattr(state, "inner_state"):
            new["inner_state"] = self.carry(state.inner_state, move)
        return state._replace(**new)

    def rescore_calls(self, state: KernelState) -> tuple[int, int]:
        """The number of plain values and of gradients that `rescore` evaluates."""
        if not caches(state, "logdensity") and hasattr(state, "inner_state"):
            return self.rescore_calls(state.inner_state)
        gradient = caches(state, "logdensity_grad")
        return int(not gradient and caches(state, "logdensity")), int(gradient)

    def step_calls(
        self, rng_key: PRNGKey, state: KernelState, info: KernelInfo
    ) -> tuple[Int[Array, ""], Int[Array, ""]] | None:
        """The number of plain values and of gradients that the step from `state` evaluated.

        None if the kernel evaluates them in a loop whose length `info` does not report.
        """
        leaves, structure = jax.tree.flatten(state)
        signature = structure, tuple((leaf.shape, leaf.dtype) for leaf in leaves)
        if signature not in self._calls:
            self._calls[signature] = count_calls(self._build, rng_key, state)
        calls = self._calls[signature]
        if calls.loops and getattr(info, "num_gradients", None) is not None:
            return jnp.asarray(calls.values), info.num_gradients
        reports_rounds = not _is_one_of(self._core, _UNCOUNTED)
        if calls.loops and not (reports_rounds and hasattr(info, "num_integration_steps")):
            return None
        rounds = info.num_integration_steps if calls.loops else 0
        return (
            jnp.asarray(calls.values + calls.values_per_round * rounds),
            jnp.asarray(calls.gradients + calls.gradients_per_round * rounds),
        )


def kernel_of(
    algorithm: Callable[..., SamplingAlgorithm], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Kernel:
    """An algorithm with its arguments, checked."""
    if not callable(algorithm):
        raise TypeError(f"algorithm must be a BlackJAX algorithm or the like, got {algorithm!r}")
    while isinstance(algorithm, functools.partial):
        args, kwargs = (*algorithm.args, *args), {**algorithm.keywords, **kwargs}
        algorithm = algorithm.func
    core = inspect.unwrap(algorithm)
    if _is_one_of(core, _PARTIAL_TARGET):
        raise ValueError(
            f"algorithm must act on a whole log density; {kernel_name(core)} takes a likelihood's"
        )
    _check_arguments(kernel_name(core), core, args, kwargs)
    return Kernel(algorithm, args, kwargs)


def _kept(
    state: KernelState, new: KernelState, info: KernelInfo
) -> tuple[KernelState, KernelInfo, Bool[Array, ""]]:
    """The new state, with the old one's values for what is not finite; and whether all of it is."""
    new = jax.tree.map(jnp.asarray, new)
    at_position = [name for name in new._fields if _belongs_to_position(name)]
    moved = all_finite([getattr(new, name) for name in at_position])
    kept = {
        name: optax.tree.where(
            moved if name in at_position else all_finite(getattr(new, name)),
            getattr(new, name),
            getattr(state, name),
        )
        for name in new._fields
    }
    return type(new)(**kept), info, all_finite(new) & _proposal_is_finite(info)


def _check_arguments(
    name: str, algorithm: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """The arguments by name, or an error about one that is unknown or invalid."""
    signed = getattr(algorithm, "differentiable", algorithm)
    given = check_call(f"kernel {name}", signed, (None, *args), kwargs)
    if "step_size" in given:
        check_number("step_size", given["step_size"], above=0.0)
    if _is_metric(given.get("inverse_mass_matrix")):
        _check_metric(given["inverse_mass_matrix"])
    if isinstance(given.get("num_integration_steps"), int | np.integer):
        check_count("num_integration_steps", given["num_integration_steps"])
    return given


def _is_metric(matrix: Any) -> bool:
    """Whether this is a mass matrix in numbers, not in BlackJAX's other forms."""
    return not (matrix is None or callable(matrix) or hasattr(matrix, "_fields"))


def _check_metric(matrix: Any) -> None:
    """Raise for an inverse mass matrix that is not positive definite."""
    name = "inverse_mass_matrix"
    if not is_concrete(matrix):
        return
    numbers = as_numbers(name, matrix)
    if numbers.ndim == 1:
        check_number(name, numbers, above=0.0, scalar=False)
        return
    symmetric = numbers.ndim == 2 and numbers.shape[0] == numbers.shape[1]
    symmetric = symmetric and np.allclose(numbers, numbers.T, rtol=1e-4)  # false for NaN
    if not (symmetric and np.linalg.eigvalsh(numbers)[0] > 0):
        raise ValueError(
            f"{name} must be a vector of positive numbers or a positive definite matrix, got "
            f"{short(matrix)}"
        )


def _check_shapes(given: dict[str, Any], size: int) -> None:
    """Raise for scales that do not have the size of the position."""
    for name, what in (("inverse_mass_matrix", ""), ("sigma", "step_size, ")):
        value: Any = given.get(name)
        shape = jnp.shape(value) if _is_metric(value) else ()
        if shape not in ((), (1,), (size,), (size, size)):
            raise ValueError(
                f"{what}{name} must have {size} entries per axis, as the position has, got shape "
                f"{shape}"
            )


def _is_one_of(algorithm: Callable[..., Any], family: tuple[Any, ...]) -> bool:
    return any(algorithm is member for member in family)


def kernel_name(algorithm: Callable[..., Any]) -> str:
    """What messages call a kernel."""
    for name in map(str, blackjax.__all__):
        if getattr(blackjax, name) is algorithm:
            return name
    return str(getattr(algorithm, "name", getattr(algorithm, "__name__", type(algorithm).__name__)))


def _belongs_to_position(field: str) -> bool:
    return field == "position" or field.startswith("logdensity")


def _proposal_is_finite(info: KernelInfo) -> Bool[Array, ""]:
    """Whether the proposal, as far as the kernel reports it, was finite with nonzero acceptance."""
    ends = ("proposal", "trajectory_leftmost_state", "trajectory_rightmost_state")
    finite = jnp.asarray(getattr(info, "acceptance_rate", 1.0)) > 0
    for end in ends:
        density = getattr(getattr(info, end, None), "logdensity", 0.0)
        finite &= jnp.isfinite(density)
    return finite


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
