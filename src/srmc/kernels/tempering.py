"""Parallel tempering around any kernel: hot copies of a chain find the modes, and swaps tell it."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from blackjax.base import SamplingAlgorithm

from srmc._checks import check_count, check_key, check_number
from srmc.kernels.discrete import SiteAlgorithm
from srmc.kernels.discrete.tempered import TemperedAlgorithm, tempered
from srmc.kernels.rescaled import rescaled
from srmc.kernels.swaps import swapped
from srmc.repel.kernel import Kernel, caches
from srmc.repel.target import as_position, check_start, rejecting
from srmc.types import (
    Array,
    ArrayLike,
    Bool,
    Float,
    Int,
    KernelInfo,
    KernelState,
    LogDensity,
    Position,
    PRNGKey,
    Scalar,
    Score,
)

Temperatures = Sequence[float] | ArrayLike
ENOUGH = 0.5  # the rate of refused swaps at which round trips cost least (Syed et al., 2022)


class TemperingState(NamedTuple):
    """The state of all levels of a tempered chain.

    position, logdensity, logdensity_grad
        Of the cold chain, on the target itself; no gradient if the kernel caches none.
    levels
        The states of the kernel at all temperatures, coldest first.
    replica
        The number, at each level, of the replica that is there now; swaps exchange them.
    step
        The number of steps taken.
    """

    position: Position
    logdensity: Scalar
    logdensity_grad: Score | None
    levels: KernelState
    replica: Int[Array, " level"]
    step: Int[Array, ""]


class TemperingInfo(NamedTuple):
    """What a tempered step did.

    inner_info
        The reports of the kernel at all temperatures.
    swap_rate
        The probability of a swap of each two neighbours, whether or not it was their turn.
    is_finite
        Whether the step of each level was finite.
    num_gradients
        The gradients that all levels evaluated; None if the kernel does not report them.
    """

    inner_info: KernelInfo
    swap_rate: Float[Array, " pair"]
    is_finite: Bool[Array, " level"]
    num_gradients: Int[Array, ""] | None

    @property
    def acceptance_rate(self) -> Float[Array, ""]:
        """The acceptance probability of the cold chain, as BlackJAX's tools expect."""
        rate: Float[Array, ""] = self.inner_info.acceptance_rate[0]
        return rate


class Tempered(SamplingAlgorithm):  # type: ignore[misc]  # BlackJAX has no types
    """A `SamplingAlgorithm` whose target must stand still."""

    def rescore(self, state: TemperingState) -> TemperingState:
        """Refuse; `repel` asks for it when the target has moved."""
        raise ValueError("frame must be 'moving' for tempering; it keeps the target as it is")


def tempering(
    logdensity_fn: LogDensity,
    temperatures: Temperatures,
    kernel: Callable[..., SamplingAlgorithm] = blackjax.nuts,
    **kwargs: Any,
) -> SamplingAlgorithm:
    """Parallel tempering: chains on pi^(1/T), whose neighbours swap places by turns.

    After each step of all levels, those at an even place swap with the next, or by turns those at
    an odd place (Okabe et al., 2001; non-reversible, Syed et al., 2022), with probability
    min(1, exp((1/T_i - 1/T_j) (log pi(x_j) - log pi(x_i)))). Swaps take no gradient. The level at
    temperature T runs in units of sqrt(T), so that the arguments which suit the target suit it too.

    Parameters
    ----------
    logdensity_fn
        The log density of the target, up to a constant. It must have a finite normaliser at all
        temperatures: pi^(1/T) has heavier tails than pi.
    temperatures
        Increasing, and 1 first; `srmc.kernels.find_temperatures` finds them.
    kernel
        A BlackJAX algorithm, a function in its form, or a kernel of `srmc.kernels.plain`.
    **kwargs
        Arguments of `kernel`, such as `step_size`; for a discrete kernel also `space`.

    Returns
    -------
    A `SamplingAlgorithm`, whose position is that of the cold chain; see `TemperingState` and
    `TemperingInfo`, or on a discrete space `TemperedState` and `TemperedInfo`.
    `srmc.repel(srmc.tempering, logdensity_fn, temperatures, ...)` repels it.
    """
    check_temperatures(temperatures)
    if isinstance(kernel, SiteAlgorithm) or "space" in kwargs:
        on_sites, (space,), rest = _on_sites(temperatures, kernel, **kwargs)
        return on_sites(logdensity_fn, space, **rest)
    if not callable(kernel):
        raise ValueError(f"kernel must be a BlackJAX algorithm or the like, got {kernel!r}")
    Kernel(kernel, (), kwargs)  # refuses bad arguments
    target = rejecting(logdensity_fn)
    heat = jnp.asarray(temperatures, float)

    def at(temperature: Scalar) -> tuple[Kernel, LogDensity]:
        units = rescaled(kernel, jnp.sqrt(temperature))
        return Kernel(units, (), kwargs), lambda x: _over(temperature, target(x))

    def init(position: Position, rng_key: PRNGKey | None = None) -> TemperingState:
        position = as_position(position)
        check_start(logdensity_fn, position)

        def one(temperature: Scalar, key: PRNGKey | None) -> KernelState:
            inner, logdensity = at(temperature)
            return inner.init(logdensity, position, key)

        keys = None if rng_key is None else jax.random.split(rng_key, heat.size)
        levels = jax.vmap(one, in_axes=(0, None if keys is None else 0))(heat, keys)
        return _state(levels, jnp.arange(heat.size), jnp.zeros((), int))

    def step(rng_key: PRNGKey, state: TemperingState) -> tuple[TemperingState, TemperingInfo]:
        move_key, swap_key = jax.random.split(rng_key)

        def one(temperature: Scalar, key: PRNGKey, start: KernelState) -> tuple[Any, ...]:
            inner, logdensity = at(temperature)
            new, info, is_finite = inner.step(logdensity, key, start)
            return new, info, is_finite, inner.step_calls(key, start, info)

        keys = jax.random.split(move_key, heat.size)
        levels, info, is_finite, calls = jax.vmap(one)(heat, keys, state.levels)
        levels, replica, rate = _swap(swap_key, heat, levels, state)
        spent = None if calls is None else jnp.sum(calls[1])
        new = _state(levels, replica, state.step + 1)
        return new, TemperingInfo(info, rate, is_finite, spent)

    return Tempered(init, step)


def _on_sites(
    temperatures: Temperatures, kernel: Any, space: Any = None, **kwargs: Any
) -> tuple[TemperedAlgorithm, tuple[Any], dict[str, Any]]:
    """A kernel of a discrete space, tempered, with its space and its arguments."""
    check_temperatures(temperatures)
    if not isinstance(kernel, SiteAlgorithm):
        raise ValueError(
            f"kernel must be of srmc.kernels.plain on {space}, such as srmc.kernels.plain.gwg, "
            f"got {kernel!r}"
        )
    return tempered(kernel, jnp.asarray(temperatures, float)), (space,), kwargs


def _chosen(*args: Any, **kwargs: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """What `srmc.repel` repels: `tempering` itself, or a tempered kernel of a discrete space."""
    given = dict(zip(("temperatures", "kernel"), args, strict=False)) | kwargs
    if isinstance(given.get("kernel"), SiteAlgorithm):
        return _on_sites(**given)
    return tempering, args, kwargs


tempering.chosen = _chosen  # type: ignore[attr-defined]


def find_temperatures(
    rng_key: PRNGKey,
    logdensity_fn: LogDensity,
    position: Position,
    hottest: float,
    kernel: Callable[..., SamplingAlgorithm] = blackjax.nuts,
    *,
    num_steps: int = 250,
    rounds: int = 4,
    **kwargs: Any,
) -> Float[np.ndarray, " level"]:
    """Temperatures from 1 to `hottest` between which about half of all swaps are refused.

    Each round runs the levels of the last one, at first a geometric ladder with steps of at most
    2, and places new ones at equal steps of the sum of the refusal rates (Syed et al., 2022).
    `kernel` and its arguments are as in `srmc.tempering`.
    """
    check_number("hottest", hottest, above=1.0)
    check_count("num_steps", num_steps)
    check_count("rounds", rounds)
    check_key("rng_key", rng_key)
    found = np.geomspace(1.0, hottest, 1 + int(np.ceil(np.log2(hottest))))
    for key in jax.random.split(rng_key, rounds):
        refused = 1 - _swap_rates(key, logdensity_fn, position, found, kernel, num_steps, kwargs)
        barrier = np.concatenate([[0.0], np.cumsum(np.maximum(refused, 1e-3))])
        size = 2 + int(barrier[-1] / ENOUGH)
        places = np.linspace(0, barrier[-1], size)
        found = np.exp(np.interp(places, barrier, np.log(found)))
    found[0], found[-1] = 1.0, hottest
    return found


def check_temperatures(temperatures: Temperatures) -> None:
    """Refuse temperatures that do not rise from 1."""
    check_number("temperatures", temperatures, above=0.0, scalar=False)
    if isinstance(temperatures, jax.core.Tracer):
        return
    heat = np.asarray(temperatures, float)
    if heat.ndim != 1 or heat.size == 0 or heat[0] != 1 or np.any(np.diff(heat) <= 0):
        raise ValueError(f"temperatures must increase, and begin with 1, got {temperatures!r}")


def _swap_rates(
    rng_key: PRNGKey,
    logdensity_fn: LogDensity,
    position: Position,
    temperatures: np.ndarray,
    kernel: Callable[..., SamplingAlgorithm],
    num_steps: int,
    kwargs: dict[str, Any],
) -> np.ndarray:
    """The average swap rates of a run, without its first third."""
    algorithm = tempering(logdensity_fn, temperatures, kernel, **kwargs)
    start = algorithm.init(position, rng_key)

    def one(state: TemperingState, key: PRNGKey) -> tuple[TemperingState, Array]:
        state, info = algorithm.step(key, state)
        return state, info.swap_rate

    keys = jax.random.split(rng_key, num_steps)
    rates = jax.jit(lambda state: jax.lax.scan(one, state, keys)[1])(start)
    return np.asarray(jnp.mean(rates[num_steps // 3 :], axis=0), float)


def _over(temperature: Scalar, tree: Any) -> Any:
    return jax.tree.map(lambda x: x / temperature.astype(x.dtype), tree)


def _state(levels: KernelState, replica: Array, step: Array) -> TemperingState:
    cold = jax.tree.map(lambda x: x[0], levels)
    gradient = cold.logdensity_grad if caches(cold, "logdensity_grad") else None
    return TemperingState(cold.position, cold.logdensity, gradient, levels, replica, step)


def _swap(
    rng_key: PRNGKey, heat: Float[Array, " level"], levels: KernelState, state: TemperingState
) -> tuple[KernelState, Int[Array, " level"], Float[Array, " pair"]]:
    """The levels after swaps of the pairs whose turn it is, and the swap rates of all pairs."""
    value = levels.logdensity * heat.astype(levels.logdensity.dtype)
    source, rate = swapped(rng_key, heat, value, state.step)

    # What is cached about pi^(1/T) is 1/T of what would be cached about pi.
    def scaled(x: Array) -> Array:
        ratio = (heat[source] / heat).astype(x.dtype)
        return x * ratio.reshape(-1, *(1,) * (x.ndim - 1))

    new = jax.tree.map(lambda x: x[source], levels)
    cached = {name: getattr(new, name) for name in new._fields if name.startswith("logdensity")}
    new = new._replace(**jax.tree.map(scaled, cached))
    return new, state.replica[source], rate
