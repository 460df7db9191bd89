"""What the kernels on discrete spaces share: their state, and the decision on a proposal."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from blackjax.base import SamplingAlgorithm

from srmc._checks import check_call
from srmc.core.target import LogDensity
from srmc.discrete.repel import repel_sites
from srmc.discrete.sites import Changes, Local, Sites, View
from srmc.discrete.space import Space


class SiteState(NamedTuple):
    """The state, and what was seen of the target there."""

    position: jax.Array
    local: Local


class SiteInfo(NamedTuple):
    """What a step did.

    acceptance_rate, is_accepted
        Of the proposal.
    is_finite
        Whether the proposal had a finite log density.
    proposal, log_proposal
        The proposed state, and the log probability with which it was proposed.
    evaluations
        Of the log density, its gradient, or differences that the target supplies.
    """

    acceptance_rate: jax.Array
    is_accepted: jax.Array
    is_finite: jax.Array
    proposal: jax.Array
    log_proposal: jax.Array
    evaluations: jax.Array


def init(position: jax.Array, view: View) -> SiteState:
    return SiteState(position, view.look(position))


def decide(
    rng_key: jax.Array,
    state: SiteState,
    proposed: SiteState,
    log_ratio: jax.Array,
    log_proposal: jax.Array,
    evaluations: int,
) -> tuple[SiteState, SiteInfo]:
    """Metropolis and Hastings: accept with probability min(1, exp(log_ratio))."""
    is_finite = jnp.isfinite(proposed.local.logdensity)
    log_ratio = jnp.where(is_finite & ~jnp.isnan(log_ratio), log_ratio, -jnp.inf)
    acceptance = jnp.exp(jnp.minimum(log_ratio, 0))
    is_accepted = jax.random.uniform(rng_key, dtype=acceptance.dtype) < acceptance
    info = SiteInfo(
        acceptance,
        is_accepted,
        is_finite,
        proposed.position,
        log_proposal,
        jnp.asarray(evaluations),
    )
    return optax.tree.where(is_accepted, proposed, state), info


@dataclasses.dataclass(frozen=True)
class SiteAlgorithm:
    """A kernel on discrete spaces in BlackJAX's form: `init`, `build_kernel`, and a call.

    guide
        The changes of the log density that proposals go by: "gradient", "exact" or none.
    check
        Refuses bad arguments; its signature is what the kernel takes beside key, state and view.
    """

    name: str
    guide: str | None
    build_kernel: Callable[[], Callable]
    check: Callable[..., None]
    init: Callable[[jax.Array, View], Any] = init

    def bind(self, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
        """The kernel's arguments by name, checked."""
        arguments = check_call(f"kernel {self.name}", self.check, args, kwargs)
        self.check(**arguments)
        return arguments

    def repel(
        self, logdensity_fn: LogDensity, space: Space, *args: Any, **options: Any
    ) -> SamplingAlgorithm:
        """The repelled sampler; `srmc.repel` calls this."""
        for name in ("surrogate", "frame", "feedback_every"):
            if name in options:
                raise ValueError(f"{name} is for continuous kernels; {self.name} is not one")
        return repel_sites(self, logdensity_fn, space, *args, **options)

    def __call__(
        self,
        logdensity_fn: LogDensity,
        space: Space,
        *args: Any,
        differences: Changes | None = None,
        **kwargs: Any,
    ) -> SamplingAlgorithm:
        """The plain sampler, a `blackjax.SamplingAlgorithm`."""
        sites = Sites(logdensity_fn, space, self.guide, differences=differences)
        view, kernel, arguments = sites.plain(), self.build_kernel(), self.bind(args, kwargs)

        def init(position, rng_key=None):
            position = space.as_state(position)
            sites.check_start(position)
            return self.init(position, view)

        return SamplingAlgorithm(init, lambda key, state: kernel(key, state, view, **arguments))
