"""Algorithm 1 on discrete spaces: history, strength and surrogate around any site kernel."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from blackjax.base import SamplingAlgorithm

from srmc.kernels.discrete.changes import Differences
from srmc.kernels.discrete.features import default_bend
from srmc.kernels.discrete.sites import Sites
from srmc.kernels.discrete.space import Space
from srmc.kernels.discrete.view import View
from srmc.repel.memory import Closed, Learned, Memory, is_plain, make_memory
from srmc.repel.parts import Step
from srmc.repel.state import RepelInfo, RepelState
from srmc.repel.surrogate import Preconditioner, Surrogate, make_precondition
from srmc.repel.target import all_finite
from srmc.repel.when import when
from srmc.types import Array, ArrayLike, KernelInfo, KernelState, LogDensity, PRNGKey


class SiteKernel(Protocol):
    """What `repel_sites` needs of a kernel; `SiteAlgorithm` provides it."""

    @property
    def guide(self) -> str | None: ...

    @property
    def sweeps(self) -> bool: ...

    @property
    def init(self) -> Callable[[Array, View], KernelState]: ...

    @property
    def build_kernel(self) -> Callable[[], Callable[..., tuple[KernelState, KernelInfo]]]: ...

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]: ...


class OnSites(SamplingAlgorithm):  # type: ignore[misc]  # BlackJAX has no types
    """A `SamplingAlgorithm` that knows its space."""

    space: Space


def repel_sites(
    algorithm: SiteKernel,
    logdensity_fn: LogDensity,
    space: Space,
    *args: Any,
    history: Mapping[str, Any],
    feature: str | None = None,
    differences: Differences | None = None,
    preconditioner: Preconditioner = None,
    surrogate: Surrogate | None = None,
    bend: str | None = None,
    **kwargs: Any,
) -> SamplingAlgorithm:
    """Repel a kernel on a discrete space: log pi_theta(x) = log pi(x) + alpha (A theta)·x.

    `feature`, `differences`, `preconditioner` and `bend` are described at `srmc.flip_mh`; `history`
    holds the keywords of `srmc.repel` about history and strength. What is evaluated at a state does
    not depend on theta, so that bending it again is free. Without `history_every`, the history is
    updated as often as leaves a repelled step little more expensive than a plain one.

    `surrogate` may be `srmc.tilt()`: proposals that go by a gradient then go by the tilt's, as in
    the paper, for a Hessian-vector product at either end.
    """
    bend = default_bend(feature, surrogate) if bend is None else bend
    sites = Sites(logdensity_fn, space, algorithm.guide, feature, differences, surrogate, bend)
    precondition = make_precondition(preconditioner)
    if surrogate is not None:
        if preconditioner is not None:
            raise ValueError("preconditioner must be given to srmc.tilt(), the surrogate")
        precondition = surrogate.precondition
    parts = SiteParts(
        sites,
        algorithm,
        algorithm.bind(args, kwargs),
        make_memory(precondition, **history),
        is_plain(history["alpha"]),
        chooses_updates=history["history_every"] is None,
    )
    out = OnSites(_start(parts, space), _step(parts))
    out.space = space
    return out


class SiteParts(NamedTuple):
    """What a step on a discrete space is made of.

    is_alone
        Whether the kernel is not repelled.
    chooses_updates
        Whether the number of steps per update of the history follows from the state.
    """

    sites: Sites
    kernel: SiteKernel
    arguments: dict[str, Any]
    memory: Memory
    is_alone: bool
    chooses_updates: bool

    def memory_at(self, x: Array) -> Memory:
        """The memory of a chain whose states are like this one."""
        if not self.chooses_updates:
            return self.memory
        return self.memory._replace(every=self.sites.steps_per_update(x, self.kernel.sweeps))


def _start(parts: SiteParts, space: Space) -> Callable[..., RepelState]:
    def init(
        position: ArrayLike, rng_key: PRNGKey | None = None, theta: ArrayLike | None = None
    ) -> RepelState:
        x = space.as_state(position)
        parts.sites.check_start(x)
        if not parts.is_alone:
            parts.sites.check_feature(x)
        zeros = jnp.zeros_like(x)
        jax.eval_shape(parts.memory.precondition, zeros)  # refuses what does not suit theta
        bent = parts.sites.bent(zeros, jnp.zeros(()))
        inner_state = parts.kernel.init(x, parts.sites.plain() if parts.is_alone else bent)
        feature = zeros
        if not parts.is_alone:
            seen = parts.sites.feature_at(x, inner_state.local)
            feature = jnp.where(all_finite(seen), seen, zeros)
        alpha, strength_state = parts.memory.strength.init()
        return RepelState(
            position=x,
            theta=parts.memory.first(theta, feature, zeros),
            alpha=alpha,
            step=jnp.zeros((), int),
            inner_state=inner_state,
            feature=feature,
            feedback=(),
            is_inside=jnp.ones((), bool),
            strength_state=strength_state,
        )

    return init


def _step(parts: SiteParts) -> Step:
    sites, kernel = parts.sites, parts.kernel.build_kernel()

    def step(rng_key: PRNGKey, state: RepelState) -> tuple[RepelState, RepelInfo]:
        view = sites.plain()
        if not parts.is_alone:
            view = sites.bent(parts.memory.precondition(state.theta), state.alpha)
        inner_state, info = kernel(rng_key, state.inner_state, view, **parts.arguments)
        closed, more = _closed(parts, state, inner_state)
        products = 0 if parts.is_alone else sites.products(state.position, info.evaluations)
        spent = info.evaluations + more, jnp.asarray(products, info.evaluations.dtype)
        return (
            closed.state(state, inner_state.position, inner_state, (), state.is_inside),
            closed.info(info, spent, info.is_finite & closed.is_valid),
        )

    return step


def _closed(
    parts: SiteParts, state: RepelState, inner_state: KernelState
) -> tuple[Closed, int | Array]:
    """The loop after a step, and the evaluations that this took beside the kernel's.

    A target that is bent by its sites needs neither a feature nor a strength between two updates
    of the history: the loop is then one whose steps are the updates.
    """
    sites, x = parts.sites, inner_state.position
    memory = parts.memory_at(x)
    if parts.is_alone:
        return memory.rest(state), 0
    look = lambda _: sites.feature_at(x, inner_state.local)
    cost = sites.feature_cost(x) if sites.by_sites else 0
    if not sites.by_sites or memory.updates_at_each_step:
        return memory.close(state, look(None), True, state.is_inside), cost
    closes = memory.closes(state)
    if memory.axis is not None:  # histories are averaged over chains outside of conditionals
        feature = when(closes, look, state.feature)
        return memory.close(state, feature, True, state.is_inside), closes * cost
    return _at_updates(memory, state, look), closes * cost


def _at_updates(memory: Memory, state: RepelState, look: Callable[[None], Array]) -> Closed:
    """The loop after a step of a chain with a history of its own, if updates are its steps.

    Without an update nothing is moved: XLA changes a history in place if no more is computed from
    it in the same conditional, and the exponent, which only the report needs, is outside, where it
    is free if nobody asks.
    """
    closes, of_updates = memory.closes(state), memory._replace(every=1)
    updates = state._replace(step=state.step // memory.every)
    zero, yes = jnp.zeros_like(state.alpha), jnp.ones((), bool)
    learn = lambda _: of_updates.learn(updates, look(None))
    shapes = jax.eval_shape(learn, None)
    rests = Learned(state.theta, state.feature, zero, ~yes, zero, yes)
    rests = jax.tree.map(lambda leaf, like: leaf.astype(like.dtype), rests, shapes)
    now = when(closes, learn, rests)
    without = lambda closed: closed._replace(theta=(), feature=(), exponent=zero)
    strengthen = lambda _: without(of_updates.strengthen(updates, now, state.is_inside))
    closed: Closed = when(closes, strengthen, without(memory.rest(state)))
    exponent = state.alpha * memory.alignment(now.theta, now.feature)
    return closed._replace(theta=now.theta, feature=now.feature, exponent=exponent)
