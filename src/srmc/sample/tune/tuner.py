"""The interface of a tuner, and the function that tunes."""

import abc
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from blackjax.base import SamplingAlgorithm

from srmc._checks import check_option, is_concrete
from srmc._programs import remembered
from srmc.repel.state import RepelState
from srmc.repel.strength import Strength, as_strength
from srmc.types import Array, ArrayLike, Bool, Draws, Float, Int, LogDensity, Position, PRNGKey

# A sum over several threads would depend on their number in the last bit.
ONE_THREAD: dict[str, Any] = {"xla_cpu_multi_thread_eigen": False}

Alpha = float | Array | Strength | str  # a number, a schedule, or "auto"
Parameters = Mapping[str, ArrayLike]  # arguments of a kernel, by name
Loop = Any  # what a tuner measures: a NamedTuple of arrays, whose `factors` are 0 for what is off


def check_alpha(alpha: Alpha) -> None:
    """Refuse what is neither a strength nor "auto"."""
    if isinstance(alpha, str):
        check_option("alpha", alpha, ("auto",))
    else:
        as_strength(alpha)


def is_on(loop: Loop) -> Bool[Array, ""]:
    """Whether any feature acts."""
    return jnp.any(jnp.array([jnp.any(factor > 0) for factor in jax.tree.leaves(loop.factors)]))


class Warmup(NamedTuple):
    """The outcome of the adaptation of a kernel."""

    positions: Position  # last positions of the chains
    parameters: Parameters  # arguments of the kernel that were found
    draws: Draws  # late draws of the plain kernel
    features: Draws  # their scores, or on a discrete space the feature that the history averages
    spacing: int  # number of steps between two of these draws
    gradients: Int[Array, ""]  # number of gradients evaluated, over all chains
    extra_gradients: int  # number per chain that were evaluated only to measure the loop


class Tuned(NamedTuple):
    """A tuned kernel; `Warmup` with the measured loop, from which repellence is set, for draws."""

    positions: Position
    parameters: Parameters
    loop: Loop
    gradients: ArrayLike
    extra_gradients: int


class Tuner(abc.ABC):
    """How a kernel is tuned, and what repels it."""

    kernel: Any  # the kernel, or its name

    @property
    @abc.abstractmethod
    def no_loop(self) -> Loop:
        """A loop of zeros, with the structure of a measured one."""

    @abc.abstractmethod
    def adapt(
        self,
        logdensity_fn: LogDensity,
        rng_key: PRNGKey,
        positions: Any,
        num_steps: int,
        *,
        measures: bool = True,
    ) -> Warmup:
        """Run the warm-up of all chains; without `measures`, features may be left out."""

    @abc.abstractmethod
    def measure(
        self, draws: Draws, features: Draws, num_samples: int, *, spacing: int, together: int
    ) -> Loop:
        """Measure the loop on late draws; `together` chains will share a history."""

    @abc.abstractmethod
    def repellence(self, loop: Loop, num_samples: int, alpha: Alpha) -> dict[str, Any]:
        """The keywords of `repel` that suit the loop."""

    @abc.abstractmethod
    def build(
        self, logdensity_fn: LogDensity, parameters: Parameters, **repellence: Any
    ) -> SamplingAlgorithm:
        """The kernel with these parameters, repelled."""

    @abc.abstractmethod
    def describe(self, loop: Loop) -> dict[str, Array]:
        """What a result reports about the loop."""

    def is_biased(self, logdensity_fn: LogDensity, position: Any) -> bool:
        """Whether the features are known not to have mean 0 under the target."""
        return False

    def select(self, loop: Loop) -> Loop:
        """The loop without features that would be of no use, for a strength of "auto"."""
        return loop

    def is_on(self, loop: Loop) -> Bool[Array, ""]:
        """Whether anything repels."""
        return is_on(loop)

    def features(self, state: RepelState, loop: Loop) -> Float[Array, " k"] | None:
        """The active features of a state, if errors can be computed from them."""
        return None


def tune(
    tuner: Tuner,
    logdensity_fn: LogDensity,
    rng_key: PRNGKey,
    positions: Position,
    *,
    num_warmup: int,
    num_samples: int,
    alpha: Alpha = "auto",
    together: int = 1,
) -> Tuned:
    """Warm chains up from `positions`, (chain, ...), and measure the loop for the run to come.

    `srmc.sample` and the studies all call this function. It can be traced.
    """
    is_plain = isinstance(alpha, float | int) and alpha == 0
    warmup = tuner.adapt(logdensity_fn, rng_key, positions, num_warmup, measures=not is_plain)
    found = warmup.positions, warmup.parameters
    if is_plain:
        return Tuned(*found, tuner.no_loop, warmup.gradients, 0)
    given = tuner, num_samples, warmup.spacing, together, isinstance(alpha, str)
    look = _look_program(*given) if is_concrete(warmup.draws) else _look(*given)
    loop = look(warmup.draws, warmup.features)
    return Tuned(*found, loop, warmup.gradients, warmup.extra_gradients)


def _look(
    tuner: Tuner, num_samples: int, spacing: int, together: int, is_auto: bool
) -> Callable[[Any, Any], Loop]:
    """From draws and features to the loop, of the features that pay if the strength is open."""

    def look(draws: Any, features: Any) -> Loop:
        loop = tuner.measure(
            draws, features, num_samples=num_samples, spacing=spacing, together=together
        )
        return tuner.select(loop) if is_auto else loop

    return look


@remembered
def _look_program(*given: Any) -> Callable[[Any, Any], Loop]:
    return jax.jit(_look(*given), compiler_options=ONE_THREAD)
