"""What the kernels on discrete spaces share: their state, and the decision on a proposal."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import optax
from blackjax.base import SamplingAlgorithm

from srmc._checks import check_call
from srmc.kernels.discrete.changes import Differences
from srmc.kernels.discrete.repel import repel_sites
from srmc.kernels.discrete.sites import Sites
from srmc.kernels.discrete.space import Space
from srmc.kernels.discrete.view import Local, View
from srmc.types import (
    Array,
    ArrayLike,
    Bool,
    Int,
    KernelInfo,
    KernelState,
    LogDensity,
    PRNGKey,
    Scalar,
)


class SiteState(NamedTuple):
    """The position, and what is known about the target there."""

    position: Array
    local: Local


class SiteInfo(NamedTuple):
    """What a step did.

    acceptance_rate, is_accepted
        The acceptance probability of the proposal, and whether it was accepted.
    is_finite
        Whether the proposal had a finite log density.
    proposal, log_proposal
        The proposed position, and the log probability with which it was proposed.
    evaluations
        The number of evaluations of the log density, where a gradient or a set of supplied
        differences counts as one.
    """

    acceptance_rate: Scalar
    is_accepted: Bool[Array, ""]
    is_finite: Bool[Array, ""]
    proposal: Array
    log_proposal: Scalar
    evaluations: Int[Array, ""]


# From a key, the kernel's state, a view and the kernel's own arguments to a state and a report.
Transition: TypeAlias = Callable[..., tuple[KernelState, KernelInfo]]


def init(position: Array, view: View) -> SiteState:
    """The state of a kernel that remembers nothing but its position."""
    return SiteState(position, view.look(position))


def decide(
    rng_key: PRNGKey,
    state: SiteState,
    proposed: SiteState,
    log_ratio: Scalar,
    log_proposal: Scalar,
    evaluations: int,
) -> tuple[SiteState, SiteInfo]:
    """The Metropolis-Hastings decision: accept with probability min(1, exp(log_ratio)).

    A proposal of probability 0, for want of others, is refused.
    """
    is_finite = jnp.isfinite(proposed.local.logdensity)
    is_possible = is_finite & (log_proposal > -jnp.inf) & ~jnp.isnan(log_ratio)
    log_ratio = jnp.where(is_possible, log_ratio, -jnp.inf)
    acceptance = jnp.exp(jnp.minimum(log_ratio, 0))
    is_accepted = jax.random.uniform(rng_key, dtype=acceptance.dtype) < acceptance
    info = SiteInfo(
        acceptance_rate=acceptance,
        is_accepted=is_accepted,
        is_finite=is_finite,
        proposal=proposed.position,
        log_proposal=log_proposal,
        evaluations=jnp.asarray(evaluations),
    )
    return optax.tree.where(is_accepted, proposed, state), info


@dataclasses.dataclass(frozen=True)
class SiteAlgorithm:
    """A kernel on discrete spaces in BlackJAX's form: `init`, `build_kernel`, and a call.

    guide
        The changes of the log density that proposals go by: "gradient", "exact" or None.
    check
        Refuses bad arguments; its signature lists what the kernel takes besides key, state and
        view.
    sweeps
        Whether a step may change all sites, not only a few.
    """

    name: str
    guide: str | None
    build_kernel: Callable[[], Transition]
    check: Callable[..., None]
    init: Callable[[Array, View], KernelState] = init
    sweeps: bool = False

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The kernel's arguments by name, checked."""
        arguments = check_call(f"kernel {self.name}", self.check, args, kwargs)
        self.check(**arguments)
        return arguments

    def repel(
        self, logdensity_fn: LogDensity, space: Space, *args: Any, **options: Any
    ) -> SamplingAlgorithm:
        """The repelled sampler; `srmc.repel` calls this."""
        for name in ("frame", "feedback_every"):
            if name in options:
                raise ValueError(f"{name} is for continuous kernels; {self.name} is not one")
        return repel_sites(self, logdensity_fn, space, *args, **options)

    def __call__(
        self,
        logdensity_fn: LogDensity,
        space: Space,
        *args: Any,
        differences: Differences | None = None,
        **kwargs: Any,
    ) -> SamplingAlgorithm:
        """The plain sampler, a `blackjax.SamplingAlgorithm`."""
        sites = Sites(logdensity_fn, space, self.guide, differences=differences)
        view, kernel, arguments = sites.plain(), self.build_kernel(), self.bind(args, kwargs)

        def init(position: ArrayLike, rng_key: PRNGKey | None = None) -> KernelState:
            x = space.as_state(position)
            sites.check_start(x)
            return self.init(x, view)

        def step(rng_key: PRNGKey, state: KernelState) -> tuple[KernelState, SiteInfo]:
            return kernel(rng_key, state, view, **arguments)

        return SamplingAlgorithm(init, step)
