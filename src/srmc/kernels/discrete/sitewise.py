"""Kernels on discrete spaces: their type, and Algorithm 1 around them."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import optax
from blackjax.base import SamplingAlgorithm

from srmc._checks import check_call
from srmc.kernels.discrete.changes import Differences
from srmc.kernels.discrete.features import default_bend
from srmc.kernels.discrete.sites import Local, Sites, View
from srmc.kernels.discrete.space import Space
from srmc.repel.compute import when
from srmc.repel.loop import Found, Loop, make_loop
from srmc.repel.repel import Repellable, is_plain
from srmc.repel.state import RepelInfo, RepelState
from srmc.repel.surrogate import Surrogate, as_preconditioner
from srmc.repel.target import all_finite
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
    """What a step did."""

    # The acceptance probability of the proposal, and whether it was accepted.
    acceptance_rate: Scalar
    is_accepted: Bool[Array, ""]
    is_finite: Bool[Array, ""]  # whether the proposal had a finite log density
    # The proposed position, and the log probability with which it was proposed.
    proposal: Array
    log_proposal: Scalar
    # The number of evaluations of the log density, where a gradient or a set of supplied
    # differences counts as one.
    evaluations: Int[Array, ""]


# From a key, the kernel's state, a view and the kernel's own arguments to a state and a report.
Transition: TypeAlias = Callable[..., tuple[KernelState, KernelInfo]]


def init(position: Array, view: View) -> SiteState:
    """The state of a kernel that keeps nothing else."""
    return SiteState(position, view.look(position))


class TurnState(NamedTuple):
    """The same, and the site or the block of sites whose turn is next."""

    position: Array
    local: Local
    turn: Int[Array, ""]


def first_turn(position: Array, view: View) -> TurnState:
    """The state of a kernel that takes sites, or blocks of them, in turn."""
    return TurnState(position, view.look(position), jnp.zeros((), int))


def decide(
    rng_key: PRNGKey,
    state: SiteState,
    proposed: SiteState,
    log_ratio: Scalar,
    log_proposal: Scalar,
    evaluations: int,
) -> tuple[SiteState, SiteInfo]:
    """The Metropolis-Hastings decision: accept with probability min(1, exp(log_ratio)).

    A proposal of probability 0, which is drawn only if all have that, is rejected.
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


class OnSites(SamplingAlgorithm):  # type: ignore[misc]  # BlackJAX has no types
    """A `SamplingAlgorithm` with its space."""

    space: Space


@dataclasses.dataclass(frozen=True)
class SiteAlgorithm(Repellable):
    """A kernel on discrete spaces in BlackJAX's form: `init`, `build_kernel`, and a call."""

    name: str
    # The changes of the log density that proposals go by: "gradient", "exact" or None.
    guide: str | None
    transition: Transition
    # Raises for bad arguments; its signature lists what the kernel takes besides key, state and
    # view.
    check: Callable[..., None]
    init: Callable[[Array, View], KernelState] = init
    sweeps: bool = False  # whether a step may change all sites, not only a few
    takes_tilt: bool = True  # whether `surrogate=srmc.tilt()` is possible

    def build_kernel(self) -> Transition:
        """The transition, for BlackJAX."""
        return self.transition

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The kernel's arguments by name, checked."""
        arguments = check_call(f"kernel {self.name}", self.check, args, kwargs)
        self.check(**arguments)
        return arguments

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
        view, arguments = sites.plain(), self.bind(args, kwargs)

        def init(position: ArrayLike, rng_key: PRNGKey | None = None) -> KernelState:
            x = space.as_state(position)
            sites.check_start(x)
            return self.init(x, view)

        def step(rng_key: PRNGKey, state: KernelState) -> tuple[KernelState, SiteInfo]:
            return self.transition(rng_key, state, view, **arguments)

        return SamplingAlgorithm(init, step)

    def repel(
        self,
        logdensity_fn: LogDensity,
        space: Space,
        *args: Any,
        history: dict[str, Any],
        feature: str | None = None,
        differences: Differences | None = None,
        preconditioner: Any = None,
        surrogate: Surrogate | None = None,
        bend: str | None = None,
        **kwargs: Any,
    ) -> SamplingAlgorithm:
        """The repelled sampler, for `srmc.repel`; the keywords are described at `srmc.flip_mh`."""
        for name in ("frame", "feedback_every"):
            if name in kwargs:
                raise ValueError(f"{name} is for continuous kernels; {self.name} is not one")
        if surrogate is not None and not self.takes_tilt:
            raise ValueError("surrogate is for kernels that are not tempered; leave it out")
        bend = default_bend(feature, surrogate) if bend is None else bend
        sites = Sites(logdensity_fn, space, self.guide, feature, differences, surrogate, bend)
        precondition = as_preconditioner(preconditioner)
        if surrogate is not None:
            if preconditioner is not None:
                raise ValueError("preconditioner must be given to srmc.tilt(), the surrogate")
            precondition = surrogate.precondition
        frame = SiteFrame(
            sites,
            self,
            self.bind(args, kwargs),
            make_loop(precondition, **history),
            is_plain(history["alpha"]),
            chooses_updates=history["history_every"] is None,
        )
        out = OnSites(frame.start, frame.step)
        out.space = space
        return out


@dataclasses.dataclass(frozen=True)
class SiteFrame:
    """Algorithm 1 on a discrete space, whose target is bent by its sites or by its feature.

    What is evaluated at a state does not depend on theta, so that bending it again is free.
    """

    sites: Sites
    kernel: SiteAlgorithm
    arguments: dict[str, Any]
    loop: Loop
    is_plain: bool  # whether the kernel is not repelled
    # Whether the number of steps per update of the history follows from the state.
    chooses_updates: bool

    def start(
        self, position: ArrayLike, rng_key: PRNGKey | None = None, theta: ArrayLike | None = None
    ) -> RepelState:
        """The state of a chain that starts at a position, with this history."""
        x = self.sites.space.as_state(position)
        self.sites.check_start(x)
        zeros = jnp.zeros_like(x)
        if self.is_plain:
            inner_state = self.kernel.init(x, self.sites.plain())
            return self.loop.start(x, inner_state, zeros, theta=theta)
        self.sites.check_feature(x)
        inner_state = self.kernel.init(x, self.sites.bent(zeros, jnp.zeros(())))
        seen = self.sites.feature_at(x, inner_state.local)
        feature = jnp.where(all_finite(seen), seen, zeros)
        return self.loop.start(x, inner_state, zeros, feature=feature, theta=theta)

    def step(self, rng_key: PRNGKey, state: RepelState) -> tuple[RepelState, RepelInfo]:
        """One step of Algorithm 1."""
        return self._loop_at(state).step(self.move, rng_key, state)

    def move(self, rng_key: PRNGKey, state: RepelState) -> Found:
        """A step of the kernel on the bent target, and the feature of its state."""
        sites = self.sites
        view = sites.plain()
        if not self.is_plain:
            view = sites.bent(self.loop.precondition(state.theta), state.alpha)
        inner_state, info = self.kernel.transition(
            rng_key, state.inner_state, view, **self.arguments
        )
        found = Found(
            position=inner_state.position,
            inner_state=inner_state,
            inner_info=info,
            feature=None,
            spent=(info.evaluations, jnp.zeros((), info.evaluations.dtype)),
            is_finite=info.is_finite,
            is_inside=state.is_inside,
        )
        if self.is_plain:
            return found
        feature, cost = self._feature(state, inner_state)
        products = sites.products(state.position, info.evaluations)
        spent = info.evaluations + cost, jnp.asarray(products, info.evaluations.dtype)
        return found._replace(feature=feature, spent=spent)

    def _loop_at(self, state: RepelState) -> Loop:
        """The loop of a chain whose states are like this one."""
        if not self.chooses_updates:
            return self.loop
        every = self.sites.steps_per_update(state.position, self.kernel.sweeps)
        history = dataclasses.replace(self.loop.history, every=every)
        return dataclasses.replace(self.loop, history=history)

    def _feature(self, state: RepelState, inner_state: KernelState) -> tuple[Any, int | Array]:
        """The feature, or a function that evaluates it, and the evaluations that it adds.

        A target that is bent by its sites needs neither a feature nor a strength between two
        updates of the history.
        """
        sites, x, history = self.sites, inner_state.position, self._loop_at(state).history
        look = lambda *_: sites.feature_at(x, inner_state.local)
        cost = sites.feature_cost(x) if sites.by_sites else 0
        if not sites.by_sites or history.at_each_step:
            return look(), cost
        due = history.is_due(state.step)
        if history.axis is not None:  # chains are averaged outside of conditionals
            return when(due, look, state.feature), due * cost
        return look, due * cost
