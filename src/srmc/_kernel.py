"""The base kernel: any BlackJAX algorithm, seen as a function of a target that may move."""

import functools
from collections.abc import Callable
from typing import Any

import blackjax
import jax
import jax.numpy as jnp
import optax
from blackjax.base import SamplingAlgorithm

from srmc._checks import check_call, check_count, check_number
from srmc._cost import Calls, count_calls
from srmc._target import LogDensity, all_finite

PyTree = Any

# Kernels whose moves are so long that they cannot follow a target that moves under them.
_TRAVELLERS = (
    *(blackjax.hmc, blackjax.mhmc, blackjax.dhmc, blackjax.dmhmc, blackjax.rmhmc, blackjax.nuts),
    *(blackjax.mclmc, blackjax.adjusted_mclmc, blackjax.adjusted_mclmc_dynamic),
)


class Kernel:
    """A kernel without its target, which is an argument of every method instead."""

    def __init__(self, algorithm: Callable[..., SamplingAlgorithm], args: tuple, kwargs: dict):
        if not callable(algorithm):
            raise TypeError(
                f"algorithm must be a BlackJAX algorithm or the like, got {algorithm!r}"
            )
        self.name = _name(algorithm)
        self.travels = any(_unwrapped(algorithm) is traveller for traveller in _TRAVELLERS)
        signed = getattr(algorithm, "differentiable", algorithm)
        check_call(f"kernel {self.name}", signed, (None, *args), kwargs)
        if kwargs.get("step_size") is not None:
            check_number("step_size", kwargs["step_size"], above=0.0)
        if isinstance(kwargs.get("num_integration_steps"), int):
            check_count("num_integration_steps", kwargs["num_integration_steps"])
        self._build = lambda logdensity_fn: algorithm(logdensity_fn, *args, **kwargs)
        self._calls: dict[Any, Calls] = {}

    def init(
        self,
        logdensity_fn: LogDensity,
        position: PyTree,
        rng_key: jax.Array | None,
        needs_gradient: bool = False,
    ) -> Any:
        """The kernel's state at a position."""
        init = self._build(logdensity_fn).init
        state = init(position) if rng_key is None else init(position, rng_key)
        if not (hasattr(state, "_replace") and hasattr(state, "position")):
            raise TypeError(
                f"kernel {self.name} cannot be repelled: its state must be a NamedTuple with a "
                f"field `position`, got {type(state).__name__}"
            )
        if needs_gradient and not hasattr(state, "logdensity_grad"):
            raise ValueError(
                f"feedback_every must be 1 for kernel {self.name}, which caches no gradient; "
                "use history_every"
            )
        return jax.tree.map(jnp.asarray, state)

    def step(
        self, logdensity_fn: LogDensity, rng_key: jax.Array, state: Any
    ) -> tuple[Any, Any, jax.Array]:
        """One transition: the new state, the kernel's report, and whether all was finite.

        What comes back non-finite stays what it was; the position does so together with all
        that is cached about it.
        """
        new, info = self._build(logdensity_fn).step(rng_key, state)
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

    def rescore(self, logdensity_fn: LogDensity, state: Any) -> Any:
        """The state with what it caches of the target computed anew; all else survives."""
        if hasattr(state, "logdensity_grad"):
            value, gradient = jax.value_and_grad(logdensity_fn)(state.position)
            return state._replace(logdensity=value, logdensity_grad=gradient)
        if hasattr(state, "logdensity"):
            return state._replace(logdensity=logdensity_fn(state.position))
        return state

    def rescore_calls(self, state: Any) -> tuple[int, int]:
        """How many plain values and how many gradients `rescore` takes."""
        gradient = hasattr(state, "logdensity_grad")
        return int(not gradient and hasattr(state, "logdensity")), int(gradient)

    def step_calls(
        self, rng_key: jax.Array, state: Any, info: Any
    ) -> tuple[jax.Array, jax.Array] | None:
        """How many plain values and gradients the step took that began at `state`.

        None if the kernel takes them in a loop of which `info` does not tell the length.
        """
        leaves, structure = jax.tree.flatten(state)
        signature = structure, tuple((leaf.shape, leaf.dtype) for leaf in leaves)
        if signature not in self._calls:
            self._calls[signature] = count_calls(self._build, rng_key, state)
        calls = self._calls[signature]
        if calls.loops and not hasattr(info, "num_integration_steps"):
            return None
        rounds = info.num_integration_steps if calls.loops else 0
        return (
            jnp.asarray(calls.values + calls.values_a_round * rounds),
            jnp.asarray(calls.gradients + calls.gradients_a_round * rounds),
        )


def _unwrapped(algorithm: Any) -> Any:
    return _unwrapped(algorithm.func) if isinstance(algorithm, functools.partial) else algorithm


def _name(algorithm: Any) -> str:
    algorithm = _unwrapped(algorithm)
    for name in blackjax.__all__:
        if getattr(blackjax, name) is algorithm:
            return name
    return getattr(algorithm, "__name__", type(algorithm).__name__)


def _belongs_to_position(field: str) -> bool:
    return field == "position" or field.startswith("logdensity")


def _proposal_is_finite(info: Any) -> jax.Array:
    """Whether the proposal, as far as the kernel tells, had a density and a chance."""
    ends = ("proposal", "trajectory_leftmost_state", "trajectory_rightmost_state")
    finite = jnp.asarray(getattr(info, "acceptance_rate", 1.0)) > 0
    for end in ends:
        density = getattr(getattr(info, end, None), "logdensity", 0.0)
        finite &= jnp.isfinite(density)
    return finite
