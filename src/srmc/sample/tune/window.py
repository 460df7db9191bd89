"""Warm-up of HMC and NUTS by BlackJAX's window adaptation: the step size and the metric."""

from collections.abc import Callable
from typing import Any

import blackjax
import jax
import jax.numpy as jnp
from blackjax.adaptation.base import get_filter_adapt_info_fn
from blackjax.mcmc import metrics

from srmc._programs import Code, parted, remembered
from srmc.sample.tune.adapt import Given, Goal, Late, Recipe, late_steps, spacing_of
from srmc.sample.tune.tuner import Parameters
from srmc.types import Array, Float, LogDensity, Position, PRNGKey, PyTree


def by_window(
    recipe: Recipe,
    goal: Goal,
    logdensity_fn: LogDensity,
    rng_key: PRNGKey,
    positions: Position,
    num_steps: int,
    options: dict[str, Any],
) -> Late:
    """BlackJAX's window adaptation of each chain; then the median step size and the mean metric.

    Metrics of low rank have no mean of low rank; that of the chain with the median step size is
    taken. The draws of the second half are kept if memory allows. Otherwise the adaptation takes
    half of the steps, and the draws come from the other half, with the parameters found.
    """
    spacing = spacing_of(positions, num_steps)
    fits = spacing == 1
    length = num_steps if fits else num_steps // 2
    keys = jax.random.split(rng_key, len(jax.tree.leaves(positions)[0]))
    given, (code, data) = tuple(options.items()), parted(logdensity_fn)
    late = num_steps // 2 if fits else None
    run = _window_program(recipe, goal, code, length, late, given)
    last, found, spent, path, scores = run(data, keys, positions)
    parameters = _pooled(found["step_size"], found["inverse_mass_matrix"])
    if fits:
        return Late(last, parameters, path, scores, jnp.sum(spent))
    more = _late_program(recipe, code, (length, num_steps), spacing, given)
    last, path, scores, cost = more(data, keys, last, parameters)
    return Late(last, parameters, path, scores, jnp.sum(spent) + cost)


def _pooled(step_sizes: Float[Array, " chain"], inverse_mass: PyTree[Array]) -> dict[str, Array]:
    """The parameters of all chains from those of each; a metric of low rank by its parts."""
    if not hasattr(inverse_mass, "_asdict"):
        middle = jnp.median(step_sizes)
        return {"step_size": middle, "inverse_mass_matrix": jnp.mean(inverse_mass, axis=0)}
    chain = jnp.argsort(step_sizes)[len(step_sizes) // 2]
    return {k: x[chain] for k, x in {"step_size": step_sizes, **inverse_mass._asdict()}.items()}


def whole(parameters: Parameters) -> dict[str, Any]:
    """The arguments of a kernel, from arrays by name: a metric of low rank as BlackJAX has it."""
    parts = dict(parameters)
    if "sigma" in parts:
        inverse_mass = (parts.pop(name) for name in metrics.LowRankInverseMassMatrix._fields)
        parts["inverse_mass_matrix"] = metrics.LowRankInverseMassMatrix(*inverse_mass)
    return parts


@remembered
def _window_program(
    recipe: Recipe,
    goal: Goal,
    code: Code,
    length: int,
    late: int | None,
    options: Given,
) -> Callable[..., tuple[PyTree[Array], ...]]:
    """The program that adapts chains and keeps their draws from number `late` on, if not None."""
    seen = set() if late is None else {"position", "logdensity_grad"}
    form: dict[str, Any] = {"is_mass_matrix_diagonal": goal.metric == "diag"}
    adapt, needed = blackjax.window_adaptation, set()
    if goal.metric == "low_rank":
        adapt, form, needed = blackjax.window_adaptation_low_rank, {}, {"mu_star"}

    def run(data: list[Any], key: PRNGKey, position: Position) -> tuple[PyTree[Array], ...]:
        adaptation = adapt(
            recipe.pilot,
            code(data),
            target_acceptance_rate=goal.acceptance,
            adaptation_info_fn=get_filter_adapt_info_fn(seen, {"num_integration_steps"}, needed),
            **form,
            **dict(options),
        )
        (state, parameters), info = adaptation.run(key, position, length)
        kept = jax.tree.map(lambda x: x[late:], info.state)
        spent = jnp.sum(info.info.num_integration_steps)
        last = state.position
        if late is not None:  # where the chain is; after a metric of low rank, `state` is a centre
            last = jax.tree.map(lambda x: x[-1], kept.position)
        return last, parameters, spent, kept.position, kept.logdensity_grad

    program: Callable[..., Any] = jax.jit(jax.vmap(run, (None, 0, 0)))
    return program


@remembered
def _late_program(
    recipe: Recipe, code: Code, span: tuple[int, int], spacing: int, options: Given
) -> Callable[..., tuple[Any, ...]]:
    """The program of `late_steps` with parameters that were found."""

    def run(
        data: list[Any], keys: PRNGKey, last: Position, parameters: dict[str, Array]
    ) -> tuple[Any, ...]:
        algorithm = recipe.build(code(data), **whole(parameters), **dict(options), alpha=0.0)
        return late_steps(algorithm, keys, last, span, spacing)

    program: Callable[..., Any] = jax.jit(run)
    return program
