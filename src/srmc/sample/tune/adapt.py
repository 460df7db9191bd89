"""Warm-up on continuous spaces: the step size of a kernel, and the scale of coordinates."""

from collections.abc import Callable
from typing import Any, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
from blackjax.adaptation.base import get_filter_adapt_info_fn
from blackjax.adaptation.step_size import dual_averaging_adaptation
from blackjax.base import SamplingAlgorithm
from blackjax.mcmc import metrics
from jax.flatten_util import ravel_pytree

from srmc._programs import Code, parted, remembered
from srmc.sample.tune import rule
from srmc.sample.tune.kernels import Recipe
from srmc.sample.tune.tuner import Parameters
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


class Search(NamedTuple):
    """What a warm-up runs, and what it is to find; programs are remembered by it."""

    recipe: Recipe
    acceptance: float  # rate at which steps are to be accepted
    metric: str  # of HMC and NUTS: "diag", "dense" or "low_rank"
    options: tuple[tuple[str, Any], ...]  # of the kernel
    num_steps: int

    def plain(self, logdensity_fn: LogDensity, **parameters: Any) -> SamplingAlgorithm:
        """The kernel with these parameters."""
        return self.recipe.build(logdensity_fn, **parameters, alpha=0.0, **dict(self.options))

    def spacing(self, positions: Position) -> int:
        """The steps per late draw kept: 1 if memory allows, otherwise 64 or more are kept."""
        size = int(sum(leaf.size for leaf in jax.tree.leaves(positions)))
        late = self.num_steps - 2 * (self.num_steps // 4)
        return max(1, late // max(64, rule.WARMUP_NUMBERS // (2 * size)))


class Late(NamedTuple):
    """The second half of a warm-up."""

    positions: Position  # last positions
    parameters: dict[str, Array]  # parameters found for the kernel
    path: Position  # at a fixed spacing, (chain, draw, ...)
    scores: Position | None  # what the kernel cached there
    gradients: Int[Array, ""]  # number of gradients evaluated, over all chains
    scored: int = 0  # number of scores per chain that were evaluated to find the scale


def by_acceptance(
    search: Search, logdensity_fn: LogDensity, rng_key: PRNGKey, positions: Position
) -> Late:
    """Dual averaging of the step size, twice, then steps of the kernel itself, which are kept.

    In the first quarter of the steps each chain has a step size of its own, so that a chain that
    starts where only tiny steps are accepted can get away. Then each coordinate gets its scale,
    and in the second quarter all chains find one step size together.
    """
    num_chains = len(jax.tree.leaves(positions)[0])
    keys = jax.random.split(rng_key, num_chains)
    quarter = search.num_steps // 4
    thin = max(1, quarter // rule.SCALE_DRAWS)
    scored = quarter // thin - quarter // thin // 2
    code, data = parted(logdensity_fn)
    run = _search_program(search, code, thin, scored)
    last, parameters, path, scores, spent = run(data, keys, positions)
    searched = num_chains * 2 * (quarter // thin * thin)
    total = spent + jnp.where(spent > 0, searched, 0)  # a random walk evaluates none
    total = jnp.maximum(total, 0)  # a kernel without a count reports -1 per step
    return Late(last, parameters, path, scores, total + num_chains * scored, scored)


@remembered
def _search_program(
    search: Search, code: Code, thin: int, scored: int
) -> Callable[..., tuple[Any, ...]]:
    """The program of `by_acceptance`."""
    quarter = search.num_steps // 4

    def run(data: list[Any], keys: Array, positions: Position) -> tuple[Any, ...]:
        logdensity_fn, spacing = code(data), search.spacing(positions)
        dim = sum(leaf[0].size for leaf in jax.tree.leaves(positions))
        look = _searching(search, logdensity_fn, keys, thin)
        positions, _, path = look(positions, jnp.ones(dim), 0, False)
        seen = jax.tree.map(lambda x: x[len(x) - scored :], path)
        scale = _scale(flatten(seen), flatten(scores_of(logdensity_fn, seen)))
        positions, step_size, _ = look(positions, scale, quarter, True)
        found = {"step_size": step_size, "scale": scale}
        algorithm = search.plain(logdensity_fn, **found)
        span = 2 * quarter, search.num_steps
        last, path, scores, spent = late_steps(algorithm, keys, positions, span, spacing)
        return last, found, path, scores, spent

    return jax.jit(run)


def _searching(
    search: Search, logdensity_fn: LogDensity, keys: Array, thin: int
) -> Callable[[Position, Array, int, bool], tuple[Position, Array, Position]]:
    """A search for the step size, per chain or for all together, that also returns its path."""
    begin, update, final = dual_averaging_adaptation(search.acceptance)
    build, num_steps = search.recipe.pilot or search.recipe.build, search.num_steps // 4

    def look(
        positions: Position, scale: Array, first: int, together: bool
    ) -> tuple[Position, Array, Position]:
        pilot = lambda step_size: build(logdensity_fn, step_size, scale=scale, alpha=0.0)

        def one(carry: tuple[KernelState, Any], n: Array) -> tuple[tuple[KernelState, Any], None]:
            states, averaging = carry
            step = lambda log_step_size, key, state: pilot(jnp.exp(log_step_size)).step(key, state)
            states, info = jax.vmap(step)(averaging.log_step_size, fold(keys, n), states)
            rates = jnp.nan_to_num(_acceptance(info.inner_info))
            rates = jnp.broadcast_to(jnp.mean(rates), rates.shape) if together else rates
            return (states, jax.vmap(update)(averaging, rates)), None

        averaging = jax.vmap(begin)(jnp.ones(len(keys)))
        carry = (jax.vmap(pilot(1.0).init)(positions, keys), averaging)
        carry, path = _every(thin, one, carry, first, num_steps, lambda c: c[0].position)
        return carry[0].position, jax.vmap(final)(carry[1])[0], path

    return look


def _every(
    spacing: int, step: Callable[..., Any], carry: Any, first: int, count: int, kept: Any
) -> tuple[Any, Any]:
    """The steps from `first` on in a loop, and what is kept of the carry every `spacing` steps."""

    def several(carry: Any, start: Array) -> tuple[Any, Any]:
        carry, _ = jax.lax.scan(step, carry, start + jnp.arange(spacing))
        return carry, kept(carry)

    return jax.lax.scan(several, carry, first + spacing * jnp.arange(count // spacing))


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

    def kept(carry: tuple[KernelState, Array]) -> tuple[Position, Position | None]:
        return carry[0].position, getattr(carry[0].inner_state, "logdensity_grad", None)

    first, last = span
    start = jax.vmap(algorithm.init)(positions, keys), jnp.zeros((), int)
    (states, spent), late = _every(spacing, one, start, first, last - first, kept)
    path, scores = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), late)
    return states.position, path, scores, spent


def fold(keys: Array, n: Array) -> Array:
    """The keys of step n."""
    return jax.vmap(lambda key: jax.random.fold_in(key, n))(keys)


def flatten(path: Position) -> Draws:
    """Positions with two leading axes, as vectors."""
    return jax.vmap(jax.vmap(lambda x: ravel_pytree(x)[0]))(path)


def scores_of(logdensity_fn: LogDensity, path: Position) -> Position:
    """The scores at positions with two leading axes."""
    return jax.vmap(jax.vmap(jax.grad(logdensity_fn)))(path)


def _scale(draws: Draws, scores: Draws) -> Float[Array, " d"]:
    """The root of sd(x) / sd(s), which is right on a Gaussian whatever part of it was visited."""
    ratio = jnp.std(draws, axis=(0, 1)) / jnp.std(scores, axis=(0, 1))
    return jnp.sqrt(jnp.where(jnp.isfinite(ratio) & (ratio > 0), ratio, 1.0))


def by_window(
    search: Search, logdensity_fn: LogDensity, rng_key: PRNGKey, positions: Position
) -> Late:
    """BlackJAX's window adaptation of each chain; then the median step size and the mean metric.

    Low-rank metrics have no low-rank mean; the metric of the chain with the median step size is
    taken. The draws of the second half are kept if memory allows. Otherwise the adaptation takes
    half of the steps, and the draws come from the other half, with the parameters found.
    """
    fits = search.spacing(positions) == 1
    length = search.num_steps if fits else search.num_steps // 2
    keys = jax.random.split(rng_key, len(jax.tree.leaves(positions)[0]))
    code, data = parted(logdensity_fn)
    late = search.num_steps // 2 if fits else None
    run = _window_program(search, code, length, late)
    last, found, spent, path, scores = run(data, keys, positions)
    parameters = _pooled(found["step_size"], found["inverse_mass_matrix"])
    if fits:
        return Late(last, parameters, path, scores, jnp.sum(spent))
    last, path, scores, cost = _late_program(search, code, length)(data, keys, last, parameters)
    return Late(last, parameters, path, scores, jnp.sum(spent) + cost)


def _pooled(step_sizes: Float[Array, " chain"], inverse_mass: PyTree[Array]) -> dict[str, Array]:
    """Pool the parameters of the chains; a low-rank metric part by part."""
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
    search: Search, code: Code, length: int, late: int | None
) -> Callable[..., tuple[PyTree[Array], ...]]:
    """The program that adapts chains and keeps their draws from number `late` on, if not None."""
    seen = set() if late is None else {"position", "logdensity_grad"}
    form: dict[str, Any] = {"is_mass_matrix_diagonal": search.metric == "diag"}
    adapt, needed = blackjax.window_adaptation, set()
    if search.metric == "low_rank":
        adapt, form, needed = blackjax.window_adaptation_low_rank, {}, {"mu_star"}

    def run(data: list[Any], key: PRNGKey, position: Position) -> tuple[PyTree[Array], ...]:
        adaptation = adapt(
            search.recipe.pilot,
            code(data),
            target_acceptance_rate=search.acceptance,
            adaptation_info_fn=get_filter_adapt_info_fn(seen, {"num_integration_steps"}, needed),
            **form,
            **dict(search.options),
        )
        (state, parameters), info = adaptation.run(key, position, length)
        kept = jax.tree.map(lambda x: x[late:], info.state)
        spent = jnp.sum(info.info.num_integration_steps)
        last = state.position
        if late is not None:  # where the chain is; after a metric of low rank, `state` is a centre
            last = jax.tree.map(lambda x: x[-1], kept.position)
        return last, parameters, spent, kept.position, kept.logdensity_grad

    if search.metric != "low_rank":
        return jax.jit(jax.vmap(run, (None, 0, 0)))
    # Under vmap each step makes a singular value decomposition, and it never ends on one core.
    return jax.jit(lambda data, *chains: jax.lax.map(lambda chain: run(data, *chain), chains))


@remembered
def _late_program(search: Search, code: Code, first: int) -> Callable[..., tuple[Any, ...]]:
    """The program of `late_steps` with parameters that were found."""

    def run(
        data: list[Any], keys: PRNGKey, last: Position, parameters: dict[str, Array]
    ) -> tuple[Any, ...]:
        algorithm = search.plain(code(data), **whole(parameters))
        span = first, search.num_steps
        return late_steps(algorithm, keys, last, span, search.spacing(last))

    return jax.jit(run)
