"""Parallel tempering around any kernel: chains at higher temperatures cross barriers, and swap."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from blackjax.base import SamplingAlgorithm

from srmc._checks import check_count, check_key, check_number
from srmc.kernels.builders import rescaled
from srmc.kernels.discrete import SiteAlgorithm
from srmc.kernels.discrete.sites import Local, View
from srmc.repel.kernel import Kernel, caches, kernel_of
from srmc.repel.repel import Repellable
from srmc.repel.target import Target, as_position, check_start
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
ENOUGH = 0.5  # rate of refused swaps at which round trips cost least (Syed et al., 2022)


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
    local
        On a discrete space, what is known about the target at the position.
    """

    position: Position
    logdensity: Scalar
    logdensity_grad: Score | None
    levels: KernelState
    replica: Int[Array, " level"]
    step: Int[Array, ""]
    local: Local | None = None


class TemperingInfo(NamedTuple):
    """What a tempered step did.

    inner_info
        The reports of the kernel at all temperatures.
    swap_rate
        The probability of a swap of each two neighbours, proposed at this step or not.
    is_finite
        Whether the step of each level was finite; on a discrete space, of all levels.
    num_gradients
        The gradients that all levels evaluated; None if the kernel does not report them.
    """

    inner_info: KernelInfo
    swap_rate: Float[Array, " pair"]
    is_finite: Bool[Array, "..."]
    num_gradients: Int[Array, ""] | None

    @property
    def evaluations(self) -> Int[Array, ""] | None:
        """The same number, as kernels on discrete spaces call it."""
        return self.num_gradients

    @property
    def acceptance_rate(self) -> Float[Array, ""]:
        """The acceptance probability of the cold chain, as BlackJAX's tools expect."""
        return self.inner_info.acceptance_rate[0]


class _Swapped(NamedTuple):
    """All levels after a step and swaps, and the level from which each took its state."""

    levels: KernelState
    source: Int[Array, " level"]
    rate: Float[Array, " pair"]
    reports: Any


def _moved_and_swapped(
    rng_key: PRNGKey,
    heat: Float[Array, " level"],
    state: TemperingState,
    move: Callable[..., tuple[Any, ...]],
    value: Callable[[KernelState], Float[Array, " level"]],
) -> _Swapped:
    """A step of all levels by `move(temperature, key, state)`, then swaps of neighbours.

    `value` is the log density of the target itself at the states of all levels. Even and odd pairs
    alternate.
    """
    move_key, swap_key = jax.random.split(rng_key)
    keys = jax.random.split(move_key, heat.size)
    levels, *reports = jax.vmap(move)(heat, keys, state.levels)
    values = value(levels)
    rate = jnp.exp(jnp.minimum(0, jnp.diff(values) * -jnp.diff(1 / heat).astype(values.dtype)))
    turn = jnp.arange(heat.size - 1) % 2 == state.step % 2
    swaps = (jax.random.uniform(swap_key, rate.shape, rate.dtype) < rate) & turn
    source = jnp.arange(heat.size) + jnp.pad(swaps, (0, 1)) - jnp.pad(swaps, (1, 0))
    return _Swapped(jax.tree.map(lambda x: x[source], levels), source, rate, reports)


class Tempered(SamplingAlgorithm):  # type: ignore[misc]  # BlackJAX has no types
    """A `SamplingAlgorithm` whose target must not change."""

    def rescore(self, state: TemperingState) -> TemperingState:
        """Refuse; `repel` asks for it when the target has moved."""
        raise ValueError("frame must be 'moving' for tempering; it keeps the target as it is")


class Tempering(Repellable):
    """The type of `srmc.tempering`, which can be repelled on discrete spaces as well."""

    def __init__(self, function: Callable[..., SamplingAlgorithm]):
        functools.update_wrapper(self, function)
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> SamplingAlgorithm:
        return self._function(*args, **kwargs)

    def repel(
        self, logdensity_fn: LogDensity, *args: Any, history: Any, **options: Any
    ) -> SamplingAlgorithm | None:
        given = dict(zip(("temperatures", "kernel"), args, strict=False)) | options
        if not isinstance(given.get("kernel"), SiteAlgorithm):
            return None
        on_sites, space, rest = _on_sites(**given)
        return on_sites.repel(logdensity_fn, space, history=history, **rest)


@Tempering
def tempering(
    logdensity_fn: LogDensity,
    temperatures: Temperatures,
    kernel: Callable[..., SamplingAlgorithm] = blackjax.nuts,
    **kwargs: Any,
) -> SamplingAlgorithm:
    """Parallel tempering: chains on pi^(1/T), whose neighbours swap states.

    After each step of all levels, those at an even place swap with the next, or at every other step
    those at an odd place (Okabe et al., 2001; non-reversible, Syed et al., 2022), with probability
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
    A `SamplingAlgorithm`, whose position is the cold chain; see `TemperingState` and
    `TemperingInfo`. `srmc.repel(srmc.tempering, logdensity_fn, temperatures, ...)` repels it.
    """
    check_temperatures(temperatures)
    if isinstance(kernel, SiteAlgorithm) or "space" in kwargs:
        on_sites, space, rest = _on_sites(temperatures, kernel, **kwargs)
        return on_sites(logdensity_fn, space, **rest)
    if not callable(kernel):
        raise ValueError(f"kernel must be a BlackJAX algorithm or the like, got {kernel!r}")
    kernel_of(kernel, (), kwargs)  # raises for bad arguments
    target = Target(logdensity_fn)
    heat = jnp.asarray(temperatures, float)

    def at(temperature: Scalar) -> tuple[Kernel, LogDensity]:
        units = rescaled(kernel, jnp.sqrt(temperature))
        return kernel_of(units, (), kwargs), lambda x: _over(temperature, target(x))

    def init(position: Position, rng_key: PRNGKey | None = None) -> TemperingState:
        position = as_position(position)
        check_start(logdensity_fn, position)

        def one(temperature: Scalar, key: PRNGKey | None) -> KernelState:
            inner, logdensity = at(temperature)
            return inner.init(logdensity, position, key)

        keys = None if rng_key is None else jax.random.split(rng_key, heat.size)
        levels = jax.vmap(one, in_axes=(0, None if keys is None else 0))(heat, keys)
        return _state(levels, jnp.arange(heat.size), jnp.zeros((), int))

    def move(temperature: Scalar, key: PRNGKey, start: KernelState) -> tuple[Any, ...]:
        inner, logdensity = at(temperature)
        new, info, is_finite = inner.step(logdensity, key, start)
        return new, info, is_finite, inner.step_calls(key, start, info)

    def step(rng_key: PRNGKey, state: TemperingState) -> tuple[TemperingState, TemperingInfo]:
        value = lambda levels: levels.logdensity * heat.astype(levels.logdensity.dtype)
        moved = _moved_and_swapped(rng_key, heat, state, move, value)
        info, is_finite, calls = moved.reports
        levels = _with_scaled_caches(moved.levels, heat[moved.source] / heat)
        new = _state(levels, state.replica[moved.source], state.step + 1)
        spent = None if calls is None else jnp.sum(calls[1])
        return new, TemperingInfo(info, moved.rate, is_finite, spent)

    return Tempered(init, step)


def _on_sites(
    temperatures: Temperatures, kernel: Any, space: Any = None, **kwargs: Any
) -> tuple[SiteAlgorithm, Any, dict[str, Any]]:
    """A kernel of a discrete space, tempered, with its space and its arguments."""
    check_temperatures(temperatures)
    if not isinstance(kernel, SiteAlgorithm):
        raise ValueError(
            f"kernel must be of srmc.kernels.plain on {space}, such as srmc.kernels.plain.gwg, "
            f"got {kernel!r}"
        )
    return _tempered(kernel, jnp.asarray(temperatures, float)), space, kwargs


def _tempered(algorithm: SiteAlgorithm, heat: Float[Array, " level"]) -> SiteAlgorithm:
    """A kernel on a discrete space at all temperatures, with swaps after each step.

    What is evaluated at a state depends neither on theta nor on the temperature: tempering bends
    the target that the history has bent, so that swaps and moves of theta cost nothing.
    """

    def init(position: Array, view: View) -> TemperingState:
        one = algorithm.init(position, view)
        levels = jax.tree.map(lambda leaf: jnp.stack([leaf] * heat.size), one)
        return _state(levels, jnp.arange(heat.size), jnp.zeros((), int))

    def transition(
        rng_key: PRNGKey, state: TemperingState, view: View, **arguments: Any
    ) -> tuple[TemperingState, TemperingInfo]:
        def move(temperature: Scalar, key: PRNGKey, start: KernelState) -> tuple[Any, ...]:
            return algorithm.transition(key, start, _at(view, temperature), **arguments)

        value = jax.vmap(lambda level: view.bend(level.position, level.local).logdensity)
        moved = _moved_and_swapped(rng_key, heat, state, move, value)
        (info,) = moved.reports
        new = _state(moved.levels, state.replica[moved.source], state.step + 1)
        finite, spent = jnp.all(info.is_finite), jnp.sum(info.evaluations)
        return new, TemperingInfo(info, moved.rate, finite, spent)

    return SiteAlgorithm(
        f"tempered {algorithm.name}",
        algorithm.guide,
        transition,
        algorithm.check,
        init,
        algorithm.sweeps,
        takes_tilt=False,
    )


def _at(view: View, temperature: Scalar) -> View:
    """The view of the target to the power of 1 / temperature."""

    def bend(x: Array, local: Local, site: Int[Array, ""] | None = None) -> Local:
        bent, t = view.bend(x, local, site), temperature.astype(x.dtype)
        guide = None if bent.guide is None else bent.guide / t
        return bent._replace(logdensity=bent.logdensity / t, guide=guide)

    return view._replace(bend=bend)


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
    """Raise for temperatures that do not rise from 1."""
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
    if (local := getattr(cold, "local", None)) is not None:
        return TemperingState(cold.position, local.logdensity, None, levels, replica, step, local)
    gradient = cold.logdensity_grad if caches(cold, "logdensity_grad") else None
    return TemperingState(cold.position, cold.logdensity, gradient, levels, replica, step)


def _with_scaled_caches(levels: KernelState, ratios: Float[Array, " level"]) -> KernelState:
    """The levels after swaps: what is cached about pi^(1/T) is 1/T of what it is for pi."""

    def scaled(x: Array) -> Array:
        return x * ratios.astype(x.dtype).reshape(-1, *(1,) * (x.ndim - 1))

    cached = {
        name: getattr(levels, name) for name in levels._fields if name.startswith("logdensity")
    }
    return levels._replace(**jax.tree.map(scaled, cached))
