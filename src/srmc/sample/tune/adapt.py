"""Warm-up on continuous spaces: the step size of a base kernel, and the scale of coordinates."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from blackjax.adaptation.step_size import dual_averaging_adaptation
from blackjax.base import SamplingAlgorithm
from jax.flatten_util import ravel_pytree

from srmc._programs import Code, parted, remembered
from srmc.sample.tune import rule
from srmc.types import (
    Array,
    Draws,
    Float,
    Int,
    KernelInfo,
    KernelState,
    LogDensity,
    Position,
    PRNGKey,
    PyTree,
)


@dataclasses.dataclass(frozen=True, eq=False)
class Recipe:
    """How a kernel is warmed up.

    build, pilot
        The builder of the kernel, and of the one whose acceptance sets its step size.
    acceptance
        The acceptance rate to aim at, unless another is asked for.
    step_gradients
        The approximate cost of a step in gradients; a density counts as half a gradient.
    has_metric
        Whether BlackJAX's window adaptation finds the step size and the metric.
    """

    build: Callable[..., SamplingAlgorithm]
    pilot: Callable[..., SamplingAlgorithm]
    acceptance: float
    step_gradients: float
    has_metric: bool


class Goal(NamedTuple):
    """What a warm-up is to find: steps accepted at this rate, and a metric of this form."""

    acceptance: float
    metric: str = "diag"


class Late(NamedTuple):
    """The second half of a warm-up.

    positions
        The last positions.
    parameters
        The parameters found for the kernel.
    path, scores
        Positions at a fixed spacing, (chain, draw, ...), and the scores that the kernel cached
        there, or None.
    gradients
        The number of gradients evaluated, over all chains.
    """

    positions: Position
    parameters: dict[str, Array]
    path: Position
    scores: Position | None
    gradients: Int[Array, ""]


def spacing_of(positions: Position, num_steps: int) -> int:
    """The steps per late draw kept: 1 if memory allows, otherwise such that 64 or more are kept."""
    size = int(sum(leaf.size for leaf in jax.tree.leaves(positions)))
    late = num_steps - 2 * (num_steps // 4)
    return max(1, late // max(64, rule.WARMUP_NUMBERS // (2 * size)))


Given = tuple[tuple[str, Any], ...]  # options of a kernel


def by_acceptance(
    recipe: Recipe,
    goal: Goal,
    logdensity_fn: LogDensity,
    rng_key: PRNGKey,
    positions: Position,
    num_steps: int,
    options: dict[str, Any],
) -> tuple[Late, int]:
    """Dual averaging of the step size, twice, then steps of the kernel itself, which are kept.

    In the first quarter of the steps each chain has a step size of its own, so that a chain that
    starts where only tiny steps are accepted can get away. Then each coordinate gets its scale,
    and in the second quarter all chains find one step size together. Also returns the number of
    scores per chain that were evaluated to find the scale.
    """
    num_chains = len(jax.tree.leaves(positions)[0])
    keys = jax.random.split(rng_key, num_chains)
    quarter = num_steps // 4
    thin = max(1, quarter // rule.SCALE_DRAWS)
    scored = quarter // thin - quarter // thin // 2
    spacing = spacing_of(positions, num_steps)

    lengths = quarter, thin, scored, spacing
    code, data = parted(logdensity_fn)
    run = _search_program(recipe, goal, code, num_steps, lengths, tuple(options.items()))
    last, step_size, scale, path, scores, spent = run(data, keys, positions)
    searched = num_chains * 2 * (quarter // thin * thin)
    total = spent + jnp.where(spent > 0, searched, 0)  # a random walk evaluates none
    total = jnp.maximum(total, 0)  # a kernel without a count reports -1 per step
    parameters = {"step_size": step_size, "scale": scale}
    return Late(last, parameters, path, scores, total + num_chains * scored), scored


@remembered
def _search_program(
    recipe: Recipe,
    goal: Goal,
    code: Code,
    num_steps: int,
    lengths: tuple[int, int, int, int],
    options: Given,
) -> Callable[..., tuple[PyTree[Array], ...]]:
    """The program of `by_acceptance`; the lengths are those of a quarter, and so on."""
    quarter, thin, scored, spacing = lengths

    def run(data: list[Any], keys: Array, positions: Position) -> tuple[PyTree[Array], ...]:
        logdensity_fn = code(data)
        dim = sum(leaf[0].size for leaf in jax.tree.leaves(positions))
        search = _searching(recipe, goal, logdensity_fn, keys, quarter, thin)
        positions, _, path = search(positions, jnp.ones(dim), 0, False)
        seen = jax.tree.map(lambda x: x[len(x) - scored :], path)
        scale = _scale(flatten(seen), flatten(scores_of(logdensity_fn, seen)))
        positions, step_size, _ = search(positions, scale, quarter, True)
        algorithm = recipe.build(logdensity_fn, step_size, scale=scale, alpha=0.0, **dict(options))
        span = 2 * quarter, num_steps
        last, path, scores, spent = late_steps(algorithm, keys, positions, span, spacing)
        return last, step_size, scale, path, scores, spent

    program: Callable[..., Any] = jax.jit(run)
    return program


def _searching(
    recipe: Recipe,
    goal: Goal,
    logdensity_fn: LogDensity,
    keys: Array,
    num_steps: int,
    thin: int,
) -> Callable[[Position, Array, int, bool], tuple[Position, Array, Position]]:
    """A search for the step size, per chain or for all together, that also returns its path."""
    begin, update, final = dual_averaging_adaptation(goal.acceptance)

    def search(
        positions: Position, scale: Array, first: int, together: bool
    ) -> tuple[Position, Array, Position]:
        pilot = lambda step_size: recipe.pilot(logdensity_fn, step_size, scale=scale, alpha=0.0)

        def one(carry: tuple[KernelState, Any], n: Array) -> tuple[tuple[KernelState, Any], None]:
            states, averaging = carry
            step = lambda log_step_size, key, state: pilot(jnp.exp(log_step_size)).step(key, state)
            states, info = jax.vmap(step)(averaging.log_step_size, fold(keys, n), states)
            rates = jnp.nan_to_num(_acceptance(info.inner_info))
            rates = jnp.broadcast_to(jnp.mean(rates), rates.shape) if together else rates
            return (states, jax.vmap(update)(averaging, rates)), None

        def several(
            carry: tuple[KernelState, Any], start: Array
        ) -> tuple[tuple[KernelState, Any], Position]:
            carry, _ = jax.lax.scan(one, carry, start + jnp.arange(thin))
            return carry, carry[0].position

        averaging = jax.vmap(begin)(jnp.ones(len(keys)))
        carry = (jax.vmap(pilot(1.0).init)(positions, keys), averaging)
        carry, path = jax.lax.scan(several, carry, first + thin * jnp.arange(num_steps // thin))
        return carry[0].position, jax.vmap(final)(carry[1])[0], path

    return search


def _acceptance(info: KernelInfo) -> Array:
    if not hasattr(info, "acceptance_rate"):
        raise ValueError(
            f"kernel must report an acceptance_rate, by which warm-up finds its step size, got "
            f"{type(info).__name__}; srmc.repel runs any kernel"
        )
    return jnp.asarray(info.acceptance_rate)


def late_steps(
    algorithm: SamplingAlgorithm,
    keys: Array,
    positions: Position,
    span: tuple[int, int],
    spacing: int,
) -> tuple[Position, Position, Position | None, Int[Array, ""]]:
    """Run the tuned plain kernel; return last positions, kept ones, their scores, and the cost."""

    def one(carry: tuple[KernelState, Array], n: Array) -> tuple[tuple[KernelState, Array], None]:
        states, spent = carry
        states, info = jax.vmap(algorithm.step)(fold(keys, n), states)
        return (states, spent + jnp.sum(info.gradients)), None

    def several(
        carry: tuple[KernelState, Array], start: Array
    ) -> tuple[tuple[KernelState, Array], tuple[Position, Position | None]]:
        carry, _ = jax.lax.scan(one, carry, start + jnp.arange(spacing))
        states, _ = carry
        return carry, (states.position, getattr(states.inner_state, "logdensity_grad", None))

    first, last = span
    states = jax.vmap(algorithm.init)(positions, keys)
    starts = first + spacing * jnp.arange((last - first) // spacing)
    (states, spent), late = jax.lax.scan(several, (states, jnp.zeros((), int)), starts)
    path, scores = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), late)
    return states.position, path, scores, spent


def fold(keys: Array, n: Array) -> Array:
    """The keys of step n."""
    return jax.vmap(lambda key: jax.random.fold_in(key, n))(keys)


def flatten(path: Position) -> Draws:
    """Positions with two leading axes, as vectors."""
    flat: Draws = jax.vmap(jax.vmap(lambda x: ravel_pytree(x)[0]))(path)
    return flat


def scores_of(logdensity_fn: LogDensity, path: Position) -> Position:
    """The scores at positions with two leading axes."""
    return jax.vmap(jax.vmap(jax.grad(logdensity_fn)))(path)


def _scale(draws: Draws, scores: Draws) -> Float[Array, " d"]:
    """The root of sd(x) / sd(s), which is right on a Gaussian whatever part of it was visited."""
    ratio = jnp.std(draws, axis=(0, 1)) / jnp.std(scores, axis=(0, 1))
    return jnp.sqrt(jnp.where(jnp.isfinite(ratio) & (ratio > 0), ratio, 1.0))
